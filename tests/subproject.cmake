# SPDX-License-Identifier: Apache-2.0
#
# The tree as its users configure it: alone and as a part of another project, without a build type; as a static library;
# without the packages it needs. Nothing is compiled here: the build files say how it would be.
#
#   cmake -DSOURCE_DIR=<the tree> -DWORK_DIR=<scratch, emptied> -DGENERATOR=Ninja -P subproject.cmake
# Optional: -DC_COMPILER= -DCXX_COMPILER=

cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE "${WORK_DIR}")
set(common -G "${GENERATOR}" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON)
if(C_COMPILER)
  list(APPEND common "-DCMAKE_C_COMPILER=${C_COMPILER}" "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}")
endif()

# Configures `source` into WORK_DIR/`name`; the result and everything printed go into `result` and `output`.
macro(try_configure name source)
  execute_process(COMMAND ${CMAKE_COMMAND} -S "${source}" -B "${WORK_DIR}/${name}" ${common} ${ARGN}
                  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  message(STATUS "${name}: ${result}\n${output}")
endmacro()
macro(configure name source)
  try_configure(${name} "${source}" ${ARGN})
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${name} does not configure")
  endif()
endmacro()

# Every command that compiles one of the library's hot files has the flag.
function(expect_flag name flag)
  file(READ "${WORK_DIR}/${name}/compile_commands.json" json)
  string(JSON count LENGTH "${json}")
  math(EXPR last "${count} - 1")
  set(found 0)
  foreach(i RANGE ${last})
    string(JSON command GET "${json}" ${i} command)
    if(command MATCHES "src/cpu/.*\\.cpp")
      math(EXPR found "${found} + 1")
      # The last of several levels is the one that counts.
      string(REGEX MATCHALL " -O[0-3sg]*" levels "${command}")
      list(POP_BACK levels level)
      if(NOT " ${flag}" STREQUAL "${level}")
        message(FATAL_ERROR "${name}: compiled with '${level}', expected ${flag}: ${command}")
      endif()
    endif()
  endforeach()
  if(found EQUAL 0)
    message(FATAL_ERROR "${name}: no hot file is compiled")
  endif()
endfunction()

# ---- Alone, without a build type.
configure(alone "${SOURCE_DIR}" -DCONVT_CLI=OFF)
file(STRINGS "${WORK_DIR}/alone/CMakeCache.txt" type REGEX "^CMAKE_BUILD_TYPE:STRING=Release$")
if(NOT type)
  message(FATAL_ERROR "without a build type it is not Release")
endif()
expect_flag(alone -O3)

# ---- As a part of another project, without a build type and in Debug.
file(WRITE "${WORK_DIR}/parent/CMakeLists.txt" "
cmake_minimum_required(VERSION 3.25)
project(parent LANGUAGES C CXX)
add_subdirectory(\"${SOURCE_DIR}\" convt)
add_executable(user \"${SOURCE_DIR}/examples/c/main.c\")
target_link_libraries(user PRIVATE convt::convt)
")
configure(part "${WORK_DIR}/parent")
expect_flag(part -O2)
file(GLOB_RECURSE installs "${WORK_DIR}/part/convt/cmake_install.cmake")
foreach(file IN LISTS installs)
  file(STRINGS "${file}" lines REGEX "file\\(INSTALL")
  if(lines)
    message(FATAL_ERROR "as a part it installs: ${lines}")
  endif()
endforeach()
configure(debug "${WORK_DIR}/parent" -DCMAKE_BUILD_TYPE=Debug)
expect_flag(debug -O2)
configure(installing "${WORK_DIR}/parent" -DCONVT_INSTALL=ON)
file(STRINGS "${WORK_DIR}/installing/convt/cmake_install.cmake" lines REGEX "file\\(INSTALL")
if(NOT lines)
  message(FATAL_ERROR "CONVT_INSTALL=ON installs nothing")
endif()

# ---- Static.
configure(static "${SOURCE_DIR}" -DCONVT_CLI=OFF -DBUILD_SHARED_LIBS=OFF)
file(READ "${WORK_DIR}/static/cmake_install.cmake" installed)
if(NOT installed MATCHES "libconvt\\.a" OR installed MATCHES "libconvt\\.so")
  message(FATAL_ERROR "BUILD_SHARED_LIBS=OFF is not static:\n${installed}")
endif()

# ---- What is missing is named as packages are.
foreach(missing IN ITEMS "fmt;libfmt-dev;-DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON" "CLI11;libcli11-dev;-DCMAKE_DISABLE_FIND_PACKAGE_CLI11=ON"
                         "Highway;libhwy-dev;-DCMAKE_IGNORE_PATH=/usr/include")
  list(POP_FRONT missing name package)
  try_configure(without_${name} "${SOURCE_DIR}" ${missing})
  if(result EQUAL 0 OR NOT output MATCHES "convt needs ${name}" OR NOT output MATCHES "${package}")
    message(FATAL_ERROR "without ${name}, ${package} is not named:\n${output}")
  endif()
endforeach()
