# SPDX-License-Identifier: Apache-2.0
#
# Tests that a misuse of the C++ API does not compile, and for the reason it should not.
#
# Included, this file defines
#   convt_add_compile_fail_test(<name> <source>)
# A source says `// EXPECT: <CMake regular expression>`, which one line of the errors must match. A source that
# says nothing of the kind must compile. `// STANDARD: c++17` is another than c++20, and `// ERRORS: <n>` how many there
# are.
#
# Run as a script (cmake -P), it is the test itself.

if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(_convt_compile_fail_script "${CMAKE_CURRENT_LIST_FILE}")
  function(convt_add_compile_fail_test name source)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
    add_test(NAME ${name}
             COMMAND ${CMAKE_COMMAND} "-DCOMPILER=${CMAKE_CXX_COMPILER}" "-DSOURCE=${source}"
                     "-DINCLUDE=${PROJECT_SOURCE_DIR}/include" "-DINSIDE=${PROJECT_SOURCE_DIR}/src" -P "${_convt_compile_fail_script}")
    set_tests_properties(${name} PROPERTIES LABELS compile_fail)
  endfunction()
  return()
endif()

file(STRINGS "${SOURCE}" expect_line REGEX "^// EXPECT: ")
string(REGEX REPLACE "^// EXPECT: " "" expected "${expect_line}")
file(STRINGS "${SOURCE}" standard REGEX "^// STANDARD: ")
string(REGEX REPLACE "^// STANDARD: " "" standard "${standard}")
if(standard STREQUAL "")
  set(standard c++20)
endif()
file(STRINGS "${SOURCE}" count REGEX "^// ERRORS: ")
string(REGEX REPLACE "^// ERRORS: " "" count "${count}")
string(REPLACE ".*" "[^\n]*" expected "${expected}")  # what is expected stands in one line

# C locale: compilers quote names with plain apostrophes, and do not translate.
execute_process(COMMAND ${CMAKE_COMMAND} -E env LC_ALL=C
                        "${COMPILER}" -std=${standard} -fsyntax-only "-I${INCLUDE}" "-I${INSIDE}" "${SOURCE}"
                RESULT_VARIABLE result ERROR_VARIABLE errors)

if(expected STREQUAL "")
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "must compile, but does not:\n${errors}")
  endif()
elseif(result EQUAL 0)
  message(FATAL_ERROR "compiles, but must not; expected an error that matches: ${expected}")
elseif(NOT errors MATCHES "(error|note): [^\n]*(${expected})")
  message(FATAL_ERROR "fails for another reason than: ${expected}\n${errors}")
endif()
if(count)
  string(REGEX MATCHALL "error: " found "${errors}")
  list(LENGTH found found)
  if(NOT found EQUAL count)
    message(FATAL_ERROR "has ${found} errors, expected ${count}\n${errors}")
  endif()
endif()
