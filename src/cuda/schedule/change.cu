// SPDX-License-Identifier: Apache-2.0
#include "cuda/schedule/change.hpp"

#include "cuda/chain/element.cuh"
#include "plan/taps.hpp"

namespace convt::core::cuda::schedule {
namespace {

__device__ std::int64_t first_item() { return static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x; }
__device__ std::int64_t all_threads() { return static_cast<std::int64_t>(gridDim.x) * block_threads; }

// Whether the changed kernel's element at `place` includes the asked kernel's tap, along one axis.
__device__ bool reaches(const ChangeParams::Axis& axis, std::int64_t tap, std::int64_t place) {
  const TapRun run = windowed_places(tap * axis.dilation - axis.padding, axis.window, axis.window_stride);
  const std::int64_t first = (run.first + axis.new_padding) / axis.new_dilation;
  return place >= first && place < first + run.count;
}

template <class T>
__global__ void __launch_bounds__(block_threads, 2) change_kernel(const __grid_constant__ ChangeParams p) {
  const auto& [d, h, w] = p.axis;
  const std::int64_t taps = d.taps * h.taps * w.taps, asked = d.asked * h.asked * w.asked;
  for (std::int64_t i = first_item(); i < p.pairs * taps; i += all_threads()) {
    const std::int64_t pair = i / taps, x = i % w.taps, y = i / w.taps % h.taps, z = i / w.taps / h.taps % d.taps;
    double sum = 0;
    for (std::int64_t part = pair * p.summed; part < (pair + 1) * p.summed; ++part)
      for (std::int64_t kd = 0; kd < d.asked; ++kd) {
        if (!reaches(d, kd, z)) continue;
        for (std::int64_t kh = 0; kh < h.asked; ++kh) {
          if (!reaches(h, kh, y)) continue;
          for (std::int64_t kw = 0; kw < w.asked; ++kw)
            if (reaches(w, kw, x))
              sum += static_cast<double>(load<T>(p.kernel, part * asked + (kd * h.asked + kh) * w.asked + kw, p.dtype));
        }
      }
    static_cast<T*>(p.changed)[i] = static_cast<T>(p.factor * sum);
  }
}

}  // namespace

template <class T>
void launch_change(const ChangeParams& p, cudaStream_t stream) {
  const std::int64_t count = p.pairs * p.axis[0].taps * p.axis[1].taps * p.axis[2].taps;
  launch(change_kernel<T>, "the kernel that changes weights", {blocks_for(count, block_threads, 1 << 16), stream, 0},
         p);
}

template void launch_change<float>(const ChangeParams&, cudaStream_t);
template void launch_change<double>(const ChangeParams&, cudaStream_t);

}  // namespace convt::core::cuda::schedule
