# SPDX-License-Identifier: Apache-2.0
# A package that is missing is named as the user's system names it.
function(convt_missing what packages)
  message(FATAL_ERROR
    "convt needs ${what}, which was not found. Install ${packages}; on Debian, tools/packages demo installs all that the "
    "build needs. Where it is installed elsewhere, add its prefix to CMAKE_PREFIX_PATH.")
endfunction()

macro(convt_find_package name packages)
  find_package(${name} QUIET)
  if(NOT ${name}_FOUND)
    convt_missing(${name} "${packages}")
  endif()
endmacro()
