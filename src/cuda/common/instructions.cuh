// SPDX-License-Identifier: Apache-2.0
// Instructions for which CUDA has no functions.
#pragma once

namespace convt::core::cuda {

// The shared memory that a launch asks for.
__device__ inline unsigned char* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char dynamic[];
  return dynamic;
}

// Synchronises some of a block's threads, by another barrier than that of __syncthreads().
template <int barrier, int threads>
__device__ void sync_some() {
  asm volatile("bar.sync %0, %1;" ::"n"(barrier), "n"(threads) : "memory");
}

// Copies 16 bytes from global to shared memory for the calling thread. Both addresses are multiples of 16.
__device__ inline void copy_16(void* shared, const void* global) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(shared))),
      "l"(global)
      : "memory");
}
// Waits until all copies of the thread are complete.
__device__ inline void wait_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Called by all blocks of a kernel: then the stream's next kernel may begin, if it was launched early (Launch::early).
__device__ inline void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

}  // namespace convt::core::cuda
