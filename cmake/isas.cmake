# SPDX-License-Identifier: Apache-2.0
# Compiles the kernels of src/cpu/simd once per instruction set of src/cpu/isas.def and type computed in, each with a
# target region of its own instead of -m flags. The objects go into CONVT_CPU_OBJECTS.
find_path(HWY_INCLUDE_DIR hwy/highway.h REQUIRED)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|i[3-6]86")
  set(arch x86)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(arch arm)
else()
  set(arch none)
endif()

set(def ${CMAKE_CURRENT_SOURCE_DIR}/cpu/isas.def)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${def})
file(STRINGS ${def} lines REGEX "^CONVT_ISA\\([a-z0-9]+, HWY_[A-Z0-9_]+, (${arch}|any)\\)")
set(CONVT_CPU_OBJECTS "")
foreach(line ${lines})
  string(REGEX REPLACE "^CONVT_ISA\\(([a-z0-9]+), (HWY_[A-Z0-9_]+),.*" "\\1;\\2" parts ${line})
  list(GET parts 0 isa)
  list(GET parts 1 target)
  foreach(type float double)
    set(name convt_cpu_${isa}_${type})
    add_library(${name} OBJECT cpu/simd/chain.cpp cpu/simd/conv.cpp)
    target_compile_definitions(${name} PRIVATE CONVT_ISA=${isa} CONVT_HWY_TARGET=${target} CONVT_REAL=${type})
    target_include_directories(${name} PRIVATE
      ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include ${CONVT_GENERATED_DIR})
    target_include_directories(${name} SYSTEM PRIVATE ${HWY_INCLUDE_DIR})
    target_link_libraries(${name} PRIVATE fmt::fmt-header-only convt_warnings)
    # Products and sums are joined where the sources say so: the same operation gives the same bits in every loop.
    target_compile_options(${name} PRIVATE -ffp-contract=off)
    list(APPEND CONVT_CPU_OBJECTS $<TARGET_OBJECTS:${name}>)
  endforeach()
endforeach()
