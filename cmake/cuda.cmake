# SPDX-License-Identifier: Apache-2.0
# The CUDA backend: host code goes into convt_core, kernels into convt_kernels. They are split by element type, so that
# they compile in parallel.
target_sources(convt_core PRIVATE
  cuda/common/buffers.cpp
  cuda/common/device.cpp
  cuda/common/error.cpp
  cuda/common/pointer.cpp
  cuda/chain/bind.cpp
  cuda/generic/candidate.cpp
  cuda/generic/convolver.cpp
  cuda/generic/engine.cpp
  cuda/generic/executable.cpp
  cuda/generic/schedule.cpp
  cuda/sm90/convolver.cpp
  cuda/sm90/engine.cpp
  cuda/sm90/gelu_fit.cpp
  cuda/sm90/halved.cpp
  cuda/sm90/short_chain.cpp
  cuda/sm90/tables.cpp
  cuda/sm90/tiles.cpp)
target_compile_definitions(convt_core PUBLIC CONVT_WITH_CUDA=1)
target_include_directories(convt_core SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})

if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 knows of no C++20 in nvcc
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
endif()
add_library(convt_kernels_any OBJECT
  cuda/chain/affine.cu
  cuda/chain/chain_f32.cu
  cuda/chain/chain_f64.cu
  cuda/chain/regions.cu
  cuda/generic/conv_bf16.cu
  cuda/generic/conv_f16.cu
  cuda/generic/conv_f32.cu
  cuda/generic/conv_f64.cu
  cuda/generic/pack.cu)
# Hopper's own instructions, which no other architecture has.
add_library(convt_kernels_sm90 OBJECT
  cuda/sm90/conv_bf16.cu
  cuda/sm90/conv_f16.cu
  cuda/sm90/conv_halved.cu
  cuda/sm90/conv_tf32.cu
  cuda/sm90/guard.cu
  cuda/sm90/pack.cu)
set_target_properties(convt_kernels_sm90 PROPERTIES
  CUDA_ARCHITECTURES 90a-real RULE_LAUNCH_COMPILE ${PROJECT_SOURCE_DIR}/tools/strict-wgmma)
foreach(kernels convt_kernels_any convt_kernels_sm90)
  target_include_directories(${kernels} PRIVATE
    ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include ${CONVT_GENERATED_DIR})
  set_target_properties(${kernels} PROPERTIES CUDA_VISIBILITY_PRESET hidden)
  # A kernel that spills registers or waits for each matrix product is a defect: the build says so and stops.
  target_compile_options(${kernels} PRIVATE
    -Xptxas=--warn-on-spills,--warning-as-error -Xcompiler=-Wall,-Wextra,-Wno-parentheses  # parentheses are of nvcc's own making
    $<$<BOOL:${CONVT_WERROR}>:-Werror=all-warnings>)
  target_sources(convt_kernels INTERFACE $<TARGET_OBJECTS:${kernels}>)
endforeach()
# The runtime is inside, and opens the driver at the first call that needs it: the library loads on machines without
# one, and calls on host memory leave it alone.
target_link_libraries(convt_kernels INTERFACE CUDA::cudart_static)
target_link_libraries(convt_core PUBLIC ${CMAKE_DL_LIBS})
