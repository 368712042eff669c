// SPDX-License-Identifier: Apache-2.0
// What CUDA has no functions for.
#pragma once

namespace convt::core::cuda {

// The shared memory that a launch asks for.
__device__ inline unsigned char* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char dynamic[];
  return dynamic;
}

// Some of a block's threads meet, at a barrier that is not that of __syncthreads().
template <int barrier, int threads>
__device__ void sync_some() {
  asm volatile("bar.sync %0, %1;" ::"n"(barrier), "n"(threads) : "memory");
}

// 16 bytes from global to shared memory, both at addresses that divide by 16, for the thread itself to read.
__device__ inline void copy_16(void* shared, const void* global) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(shared))),
      "l"(global)
      : "memory");
}
// The thread's copies are there.
__device__ inline void wait_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// The next kernel of the stream may begin, if it was launched to begin early, when all blocks have said so.
__device__ inline void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

}  // namespace convt::core::cuda
