// SPDX-License-Identifier: Apache-2.0
#include "cuda/chain/prologue.hpp"

#include "cuda/chain/strip.cuh"
#include "cuda/common/launch.hpp"

namespace convt::core::cuda {
namespace {

template <class T>
__device__ Quad<T> apply(const PrologueParams::Step& step, Quad<T> x, const int (&channel)[Quad<T>::size]) {
  if (step.kind == ChainStep::pointwise) return apply_pointwise(step.op, step.params.bytes, x);
  if (step.kind == ChainStep::affine) {
#pragma unroll
    for (int k = 0; k < x.size; ++k)
      x.v[k] = fma(at<T>(step.data[0], channel[k]), x.v[k], at<T>(step.data[1], channel[k]));
    return x;
  }
  const bool number = step.data[0] == nullptr;
  Quad<T> other{};
#pragma unroll
  for (int k = 0; k < x.size; ++k)
    if (!number) other.v[k] = load<T>(step.data[0], channel[k], step.dtype);
  visit<Combine>(step.op, step.params.bytes, [&](const auto& math) {
#pragma unroll
    for (int k = 0; k < x.size; ++k) x.v[k] = math.apply(x.v[k], number ? T(math.term.number) : other.v[k]);
  });
  return x;
}

// A thread has four elements, block_threads apart. N counts the elements of a launch. It has 32 bits if these suffice,
// as divisions in 64 bits are slow.
template <class T, class N>
__device__ void run(const PrologueParams& p) {
  const N count = static_cast<N>(p.count), length = static_cast<N>(p.run);
  const N channel_run = static_cast<N>(p.channel_run), channels = static_cast<N>(p.channels);
  const N each = block_threads * Quad<T>::size;
  for (N first = blockIdx.x * each; first < count; first += gridDim.x * each) {
    Quad<T> x;
    int channel[Quad<T>::size];
#pragma unroll
    for (int k = 0; k < x.size; ++k) {
      const N i = first + threadIdx.x + k * block_threads;
      const N own = i < count ? i : count - 1;
      const N line = own / length;
      channel[k] = static_cast<int>(own / channel_run % channels);
      x.v[k] = load<T>(
          p.from, static_cast<std::int64_t>(line) * p.apart + static_cast<std::int64_t>(own - line * length), p.dtype);
    }
    for (int s = 0; s < p.steps; ++s) x = apply(p.step[s], x, channel);
#pragma unroll
    for (int k = 0; k < x.size; ++k) {
      const N i = first + threadIdx.x + k * block_threads;
      if (i < count) store(p.to, static_cast<std::int64_t>(i), p.dtype, x.v[k]);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(block_threads) prologue_kernel(const __grid_constant__ PrologueParams p) {
  if (p.count < std::int64_t{1} << 30)
    run<T, unsigned>(p);
  else
    run<T, std::int64_t>(p);
}

}  // namespace

template <class T>
void launch_prologue(const PrologueParams& params, cudaStream_t stream) {
  constexpr std::int64_t most_blocks = 1 << 16;  // a block loops
  launch(prologue_kernel<T>, "the prologue's kernel",
         {blocks_for(params.count, block_threads * Quad<T>::size, most_blocks), stream, 0}, params);
}
template void launch_prologue<float>(const PrologueParams&, cudaStream_t);
template void launch_prologue<double>(const PrologueParams&, cudaStream_t);

}  // namespace convt::core::cuda
