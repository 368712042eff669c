// SPDX-License-Identifier: Apache-2.0
// Halo tiles that are there twice, so that results of neighbouring positions are stored as one.
//
// A thread has two rows of a block, 8 rows apart, and groups of 8 rows are equally far apart in shared memory. Here the
// operand's rows are of 128 bytes, two pixels of 64 each: one instruction's rows are every other pixel of a line, and
// it reads one half of each. A line is followed by its twin, the same a pixel further on. Groups take turns: those of
// lines have even positions, those of twins, half the distance of two lines away, odd ones; and whatever the tap, both
// meet their pixels at the same place. So a thread's two rows are neighbours along w, and with two phases it has four
// neighbouring outputs.
//
//   line   0 1 | 2 3 | 4 5 | ...   even positions, through a tap of shift 1: 1, 3, 5
//   twin   1 2 | 3 4 | 5 6 | ...   odd positions, through the same:          2, 4, 6
#pragma once

#include "cuda/sm90/store.cuh"

namespace convt::core::cuda::sm90 {

// Writes sums of two phases as elements of type E, four neighbours at a time: all of them are outputs, or none.
template <class E, int n>
class TwinWriter {
 public:
  __device__ TwinWriter(const ConvParams& p, const Memory& memory, int phase, std::int64_t distance)
      : to_(static_cast<E*>(p.to.data) + (memory.place()[0] + memory.item()->result + distance)),
        there_(is_there(p, memory, phase)),
        step_(static_cast<std::uint32_t>(uniform(static_cast<int>(p.results.channel)))),
        channels_(uniform(p.out_channels - memory.item()->band * n)) {}

  // As Writer has them.
  __device__ int channels() const { return channels_; }
  template <class F>
  __device__ void with_put(F&& f) const {
    f([&](int i, const float(&x)[2][1][4]) {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        E* const to = ahead(to_, step_, 8 * i + k);
        if (there_)
          store_result(reinterpret_cast<Four*>(to),
                       Four{pair_of<E>(x[0][0][k], x[1][0][k]), pair_of<E>(x[0][0][2 + k], x[1][0][2 + k])});
      }
    });
  }

 private:
  struct alignas(4 * sizeof(E)) Four {
    Pair<E> of[2];
  };
  __device__ static bool is_there(const ConvParams& p, const Memory& memory, int phase) {
    if (p.missing != 0) return true;
    const int thread = memory.consumer(), block = thread / group_threads, row = Sums<n>::row(0, thread);
    bool there = true;
#pragma unroll
    for (int a = 0; a < 3; ++a) {
      const ConvAxis& axis = p.axis[a];
      const int position = memory.item()->tile[a] * axis.tile + position_at<true>(p, block, row, a);
      there &= position * axis.stride + phase_along(phase, a) < axis.size;
    }
    return there;
  }

  E* to_;
  bool there_;
  std::uint32_t step_;  // of columns, in elements
  int channels_;
};

// As Results has it.
template <int n>
struct TwinResults {
  static constexpr bool without_shortcuts = true;
  const ConvParams& p;
  const Memory& memory;
  const int& phase;
  const std::int64_t& distance;

  template <class To>
  __device__ TwinWriter<To, n> operator()() const {
    return {p, memory, phase, distance};
  }
};

}  // namespace convt::core::cuda::sm90
