# SPDX-License-Identifier: Apache-2.0
# Flags of everything in this tree (convt_warnings), and of what is installed (convt_release_flags).
add_library(convt_warnings INTERFACE)
target_compile_options(convt_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall;-Wextra;-Wpedantic;-Wconversion>
  $<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<BOOL:${CONVT_WERROR}>>:-Werror>)

add_library(convt_release_flags INTERFACE)
# In another project's Debug build, or one without a build type, the library is optimised all the same: its inner loops
# take sixteen times as long without.
if(NOT PROJECT_IS_TOP_LEVEL)
  target_compile_options(convt_release_flags INTERFACE
    $<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<OR:$<CONFIG:Debug>,$<CONFIG:>>>:-O2>)
endif()
# Hardening that costs no time: checked copies, no lazy binding, a read-only table of addresses. A packager's own level of
# _FORTIFY_SOURCE stands. Stack protectors are for all but the inner loops, which keep vectors on the stack
# (cmake/isas.cmake).
if(NOT "${CMAKE_C_FLAGS} ${CMAKE_CXX_FLAGS}" MATCHES "_FORTIFY_SOURCE|-fsanitize")
  target_compile_options(convt_release_flags INTERFACE
    $<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<CONFIG:Release,RelWithDebInfo,MinSizeRel>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>)
endif()
target_link_options(convt_release_flags INTERFACE -Wl,-z,relro -Wl,-z,now)
set(CONVT_STACK_PROTECTOR $<$<COMPILE_LANGUAGE:C,CXX>:-fstack-protector-strong>)
