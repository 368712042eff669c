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

// 2^x, approximately; denormals are flushed to 0.
__device__ inline float power_of_two(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}
// 1 / sqrt(x) of a normal number, approximately.
__device__ inline float inverse_root(float x) {
  float root;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(x));
  return root;
}
// The larger number; NaN if an operand is NaN.
__device__ inline float maximum(float a, float b) {
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
  return larger;
}

__device__ inline float minimum(float a, float b) {
  float smaller;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(smaller) : "f"(a), "f"(b));
  return smaller;
}
// a / b within two units of the last place, for operands of any range.
__device__ inline float quotient(float a, float b) {
  float q;
  asm("div.full.f32 %0, %1, %2;" : "=f"(q) : "f"(a), "f"(b));
  return q;
}
// Approximate instructions: 1/x of a normal number, the square root, the binary logarithm.
__device__ inline float inverse(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float square_root(float x) {
  float root;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(x));
  return root;
}
__device__ inline float log_of_two(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Called by all blocks of a kernel: then the stream's next kernel may begin, if it was launched early (Launch::early).
__device__ inline void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

}  // namespace convt::core::cuda
