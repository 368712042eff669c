# SPDX-License-Identifier: Apache-2.0
# The CUDA backend: host code goes into convt_core, kernels into convt_kernels. They are split by element type, so that
# they compile in parallel.
target_sources(convt_core PRIVATE
  cuda/common/buffers.cpp
  cuda/common/device.cpp
  cuda/common/error.cpp
  cuda/common/pointer.cpp
  cuda/common/recording.cpp
  cuda/common/shared_limits.cpp
  cuda/chain/bind.cpp
  cuda/chain/prologue.cpp
  cuda/chain/span.cpp
  cuda/schedule/candidate.cpp
  cuda/schedule/chain_cost.cpp
  cuda/schedule/executable.cpp
  cuda/schedule/explain.cpp
  cuda/schedule/predict.cpp
  cuda/schedule/schedule.cpp
  cuda/sums/convolver.cpp
  cuda/sums/engine.cpp
  cuda/simt/convolver.cpp
  cuda/simt/engine.cpp
  cuda/sm90/host/choice.cpp
  cuda/sm90/host/convolver.cpp
  cuda/sm90/host/cost.cpp
  cuda/sm90/host/engine.cpp
  cuda/sm90/host/guarded.cpp
  cuda/sm90/host/make_program.cpp
  cuda/sm90/host/outputs.cpp
  cuda/sm90/host/prepare_gelu.cpp
  cuda/sm90/host/register_epilogue.cpp
  cuda/sm90/host/tables.cpp
  cuda/sm90/host/tiles.cpp)
target_compile_definitions(convt_core PUBLIC CONVT_WITH_CUDA=1)
target_include_directories(convt_core SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})

if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 knows of no C++20 in nvcc
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
endif()
add_library(convt_kernels_any OBJECT
  cuda/chain/affine.cu
  cuda/chain/chain_f32.cu
  cuda/chain/chain_f64.cu
  cuda/chain/normalise_bf16.cu
  cuda/chain/normalise_double.cu
  cuda/chain/normalise_f16.cu
  cuda/chain/normalise_float.cu
  cuda/chain/pool_double.cu
  cuda/chain/pool_float.cu
  cuda/chain/prologue.cu
  cuda/chain/regions.cu
  cuda/schedule/change.cu
  cuda/simt/conv_bf16.cu
  cuda/simt/conv_f16.cu
  cuda/simt/conv_f32.cu
  cuda/simt/conv_f64.cu
  cuda/simt/pack.cu
  cuda/sums/sums.cu)
# Hopper's own instructions, which no other architecture has.
add_library(convt_kernels_sm90 OBJECT
  cuda/sm90/kernel/conv_bf16.cu
  cuda/sm90/kernel/conv_f16.cu
  cuda/sm90/kernel/conv_f16x3.cu
  cuda/sm90/kernel/conv_tf32.cu
  cuda/sm90/kernel/conv_tf32_as_f16.cu
  cuda/sm90/kernel/conv_tf32x3.cu
  cuda/sm90/kernel/program_bf16.cu
  cuda/sm90/kernel/program_f16.cu
  cuda/sm90/kernel/program_f16x3.cu
  cuda/sm90/kernel/program_tf32.cu
  cuda/sm90/kernel/program_tf32_as_f16.cu
  cuda/sm90/kernel/program_tf32x3.cu
  cuda/sm90/loader/filter_scales.cu
  cuda/sm90/loader/pack.cu)
set_target_properties(convt_kernels_sm90 PROPERTIES
  CUDA_ARCHITECTURES 90a-real RULE_LAUNCH_COMPILE ${PROJECT_SOURCE_DIR}/tools/strict-wgmma)
foreach(kernels convt_kernels_any convt_kernels_sm90)
  target_include_directories(${kernels} PRIVATE
    ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include ${CONVT_GENERATED_DIR})
  set_target_properties(${kernels} PROPERTIES CUDA_VISIBILITY_PRESET hidden)
  # A kernel that spills registers, more than a few, or waits for each matrix product is a defect: the build says so and
  # stops (tools/strict-wgmma).
  target_compile_options(${kernels} PRIVATE
    -Xptxas=--warn-on-spills$<$<STREQUAL:${kernels},convt_kernels_any>:,--warning-as-error> -Xcompiler=-Wall,-Wextra,-Wno-parentheses)  # parentheses are of nvcc's own making
  # Of all warnings, those of ptxas are judged by tools/strict-wgmma where the kernels are Hopper's.
  if(CONVT_WERROR AND kernels STREQUAL convt_kernels_sm90)
    target_compile_options(${kernels} PRIVATE -Xcudafe=--promote_warnings -Xcompiler=-Werror)
  elseif(CONVT_WERROR)
    target_compile_options(${kernels} PRIVATE -Werror=all-warnings)
  endif()
  # A fifth of the size; drivers that run this runtime know it.
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13.0)
    target_compile_options(${kernels} PRIVATE --compress-mode=size)
  endif()
  target_sources(convt_kernels INTERFACE $<TARGET_OBJECTS:${kernels}>)
endforeach()
# The runtime is inside, and opens the driver at the first call that needs it: the library loads on machines without
# one, and calls on host memory leave it alone.
target_link_libraries(convt_kernels INTERFACE CUDA::cudart_static)
target_link_libraries(convt_core PUBLIC ${CMAKE_DL_LIBS})
