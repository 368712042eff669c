# SPDX-License-Identifier: Apache-2.0
#
# Installs a build tree into an empty prefix and uses the package the way its users do: the project of examples/ through
# find_package(), then its C programs through pkg-config alone. Every program checks its own results.
#
#   cmake -DBUILD_DIR=<built tree> -DEXAMPLES_DIR=<examples/> -DWORK_DIR=<scratch, emptied> -P consumer.cmake
# Optional: -DC_COMPILER= -DCXX_COMPILER= -DC_FLAGS= -DCXX_FLAGS= -DGENERATOR=

cmake_minimum_required(VERSION 3.25)

foreach(variable IN ITEMS BUILD_DIR EXAMPLES_DIR WORK_DIR)
  if(NOT ${variable})
    message(FATAL_ERROR "${variable}: must be given")
  endif()
endforeach()

# Runs a command; its failure, with all its output, is this script's.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  list(JOIN ARGV " " command)
  message(STATUS "${command}\n${output}")
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "exit status ${result} from: ${command}")
  endif()
endfunction()

set(prefix "${WORK_DIR}/prefix")
file(REMOVE_RECURSE "${WORK_DIR}")
run("${CMAKE_COMMAND}" --install "${BUILD_DIR}" --prefix "${prefix}")

# ---- find_package()
set(settings "-DCMAKE_PREFIX_PATH=${prefix}" -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF)
if(C_COMPILER)
  list(APPEND settings "-DCMAKE_C_COMPILER=${C_COMPILER}" "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}")
endif()
if(C_FLAGS OR CXX_FLAGS)
  list(APPEND settings "-DCMAKE_C_FLAGS=${C_FLAGS}" "-DCMAKE_CXX_FLAGS=${CXX_FLAGS}")
endif()
if(GENERATOR)
  list(APPEND settings -G "${GENERATOR}")
endif()
run("${CMAKE_COMMAND}" -S "${EXAMPLES_DIR}" -B "${WORK_DIR}/examples" ${settings})
run("${CMAKE_COMMAND}" --build "${WORK_DIR}/examples")
run("${CMAKE_CTEST_COMMAND}" --test-dir "${WORK_DIR}/examples" --output-on-failure --no-tests=error)

# The package must be the one just installed, not another that the machine happens to have.
file(STRINGS "${WORK_DIR}/examples/CMakeCache.txt" found REGEX "^convt_DIR:")
string(FIND "${found}" "${prefix}" position)
if(position EQUAL -1)
  message(FATAL_ERROR "find_package(convt) found another package: ${found}")
endif()

# ---- pkg-config
file(GLOB_RECURSE pc_file "${prefix}/convt.pc")
if(NOT pc_file)
  message(FATAL_ERROR "no convt.pc is installed under ${prefix}")
endif()
cmake_path(GET pc_file PARENT_PATH pc_dir)
set(ENV{PKG_CONFIG_PATH} "${pc_dir}")
execute_process(COMMAND pkg-config --cflags --libs convt OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND pkg-config --variable=libdir convt OUTPUT_VARIABLE libdir OUTPUT_STRIP_TRAILING_WHITESPACE
                COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(flags UNIX_COMMAND "${flags}")
separate_arguments(extra UNIX_COMMAND "${C_FLAGS}")
if(NOT C_COMPILER)
  set(C_COMPILER cc)
endif()
set(ENV{LD_LIBRARY_PATH} "${libdir}")
foreach(example IN ITEMS c c_plan)
  run("${C_COMPILER}" -std=c11 ${extra} "${EXAMPLES_DIR}/${example}/main.c" ${flags}
      -o "${WORK_DIR}/pkgconfig_${example}")
  run("${WORK_DIR}/pkgconfig_${example}")
endforeach()
