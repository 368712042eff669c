// SPDX-License-Identifier: Apache-2.0
// Sums whose columns are positions and whose rows are output channels: the chain and stores, for chains without a norm.
//
// A matrix instruction with 128 columns reads shared memory three quarters as often as two with 64 do, which leave no
// time between their reads for anybody else. A norm over rows would have to cross warps.
#pragma once

#include "cuda/sm90/gelu.cuh"
#include "cuda/sm90/lines.cuh"
#include "cuda/sm90/store.cuh"

namespace convt::core::cuda::sm90 {

// A thread has two output channels of a block, and of each two neighbouring positions of every group of 8; in sums they
// are [group][channel][position].
struct WideSums {
  static constexpr int groups = wide_positions / 8, each = 4;
  __device__ static int channel(int half) {
    return threadIdx.x % group_threads / warp_threads * 16 + threadIdx.x % warp_threads / 4 + half * 8;
  }
  __device__ static int position() { return threadIdx.x % 4 * 2; }  // of a group, the first one
};

// A line of a short chain, of a thread's two channels.
struct WideLine {
  bool there;
  float2 of[2];

  template <int n>
  __device__ WideLine(const ShortChain& chain, const Lines<n>& lines, ShortChain::Place place)
      : there(chain.lines[place].there) {
#pragma unroll
    for (int half = 0; half < 2; ++half) of[half] = lines.data[place * n + WideSums::channel(half)];
  }
  __device__ void apply(float (&x)[WideSums::each]) const {
    if (!there) return;
#pragma unroll
    for (int i = 0; i < WideSums::each; ++i) x[i] = fmaf(of[i / 2].x, x[i], of[i / 2].y);
  }
};

// A short chain without a norm.
struct WideChain {
  WideLine first, second, last;
  ShortChain::Activation activation;
  const float* q;

  template <int n>
  __device__ WideChain(const ShortChain& chain, const Lines<n>& lines)
      : first(chain, lines, ShortChain::before_norm),
        second(chain, lines, ShortChain::behind_norm),
        last(chain, lines, ShortChain::last),
        activation(chain.activation),
        q(chain.q) {}

  __device__ void run(float (&x)[WideSums::each]) const {
    first.apply(x);
    second.apply(x);
    if (activation == ShortChain::gelu) apply_gelu<ShortChain::gelu_degree, WideSums::each>(q, x);
    if (activation == ShortChain::relu) {
#pragma unroll
      for (float& v : x) v = maximum(v, 0.0f);
    }
    last.apply(x);
  }
};

// Where a thread's outputs of one block go, group by group.
template <class E>
class WideWriter {
 public:
  __device__ WideWriter(const ConvParams& p, const Item& item, int block) {
    const Strides& step = p.to.step;
    const int channel = item.band * wide_channels + WideSums::channel(0);
    std::int64_t to = item.image * step.n + channel * step.c + WideSums::position() * p.results.position;
    groups_ = WideSums::groups;
#pragma unroll
    for (int a = 0; a < 3; ++a) {
      to += item.tile[a] * p.results.tile[a];
      const int room = p.positions[a] - (item.tile[a] * p.axis[a].tile + p.origin[block][a]);
      if (a == 2)
        left_ = room - WideSums::position();
      else
        groups_ = min(groups_, p.group_step[a] != 0 ? room : room > 0 ? groups_ : 0);
    }
    to_ = reinterpret_cast<char*>(static_cast<E*>(p.to.data) + (to + p.results.block[block]));
    group_ = p.results.group * size;
    channels_ = 8 * step.c * size;
    neighbour_ = p.results.position * size;
    along_w_ = p.group_step[2];
    first_ = channel < p.out_channels;
    second_ = channel + 8 < p.out_channels;
    paired_ = p.paired;
  }

  // The next group's.
  __device__ void put(int group, const float (&x)[WideSums::each]) {
    if (group < groups_ && left_ > 0) {
      if (first_) put_pair_at(to_, x[0], x[1]);
      if (second_) put_pair_at(to_ + channels_, x[2], x[3]);
    }
    to_ += group_;
    left_ -= along_w_;
  }

 private:
  static constexpr std::int64_t size = sizeof(E);

  __device__ void put_pair_at(char* to, float x, float y) const {
    if (paired_) {
      put_pair(reinterpret_cast<E*>(to), x, y);
      return;
    }
    *reinterpret_cast<E*>(to) = element<E>(x);
    if (left_ > 1) *reinterpret_cast<E*>(to + neighbour_) = element<E>(y);
  }

  char* to_;
  std::int64_t group_, channels_, neighbour_;  // bytes
  int groups_, left_, along_w_;                // groups that are outputs; positions along w, from this group's on
  bool first_, second_, paired_;
};

template <class To, int n, int blocks>
__device__ void finish_wide_as(const ShortChain& chain, const Lines<n>& lines, const ConvParams& p, const Item& item,
                               float (&sums)[blocks][wide_positions / 2]) {
  const WideChain steps(chain, lines);
  int group = threadIdx.x / group_threads;
  forget(group);  // found again for each tile: registers are short
#pragma unroll
  for (int b = 0; b < blocks; ++b) {
    WideWriter<To> writer(p, item, group * blocks + b);
#pragma unroll
    for (int i = 0; i < WideSums::groups; ++i) {
      float x[WideSums::each];
#pragma unroll
      for (int k = 0; k < WideSums::each; ++k) x[k] = sums[b][i * WideSums::each + k];
      steps.run(x);
      writer.put(i, x);
    }
  }
}

// A short chain, and stores. Values between stages are floats, whatever E is.
template <class E, int n, int blocks>
__device__ void finish_wide(const ShortChain& chain, const Lines<n>& lines, const ConvParams& p, const Item& item,
                            float (&sums)[blocks][wide_positions / 2]) {
  if (sizeof(E) == sizeof(float) || p.to.dtype != CONVT_F32)
    finish_wide_as<E>(chain, lines, p, item, sums);
  else
    finish_wide_as<float>(chain, lines, p, item, sums);
}

// One phase, through its chain, into the results.
template <int n, int blocks>
__device__ void fold_wide(const ConvParams& p, const Lines<n>& lines, float (&sums)[blocks][wide_positions / 2],
                          float (&folded)[blocks][wide_positions / 2]) {
  const WideChain steps(p.quick, lines);
  const auto into = [&](auto&& join) {
#pragma unroll
    for (int b = 0; b < blocks; ++b)
#pragma unroll
      for (int i = 0; i < WideSums::groups; ++i) {
        float x[WideSums::each];
#pragma unroll
        for (int k = 0; k < WideSums::each; ++k) x[k] = sums[b][i * WideSums::each + k];
        steps.run(x);
#pragma unroll
        for (int k = 0; k < WideSums::each; ++k) {
          float& to = folded[b][i * WideSums::each + k];
          to = join(to, x[k]);
        }
      }
  };
  if (p.fold.kind == Fold::max)
    into([](float a, float b) { return maximum(a, b); });
  else
    into([](float a, float b) { return a + b; });
}

}  // namespace convt::core::cuda::sm90
