// SPDX-License-Identifier: Apache-2.0
// The store of quads. With a duplicated halo (loader/duplicated_halo.cuh) a thread has four neighbouring outputs, of
// two positions and two phases, and stores them at once.
#pragma once

#include "cuda/sm90/store/policy.cuh"
#include "cuda/sm90/store/writer.cuh"

namespace convt::core::cuda::sm90 {

// Whether a thread's outputs are valid. All of them are, or none.
template <int n>
__device__ bool is_quad_valid(const ConvParams& p, const Memory& memory, int phase) {
  if (p.missing != 0) return true;
  const int thread = memory.consumer(), m_tile = thread / group_threads, row = Fragment<n>::row(0, thread);
  bool valid = true;
#pragma unroll
  for (int a = 0; a < 3; ++a) {
    const ConvAxis& axis = p.axis[a];
    const int position = memory.work()->tile[a] * axis.tile + position_at<true>(p, m_tile, row, a);
    valid &= position * axis.stride + phase_along(phase, a) < axis.size;
  }
  return valid;
}

// Writes sums of two phases as elements of type E, four neighbours at a time.
template <class E, int n>
class QuadWriter {
 public:
  __device__ QuadWriter(const ConvParams& p, const Memory& memory, int phase, std::int64_t distance)
      : to_(static_cast<E*>(p.to.data) + (memory.output_offset()[0] + memory.work()->result + distance)),
        valid_(is_quad_valid<n>(p, memory, phase)),
        step_(static_cast<std::uint32_t>(uniform(static_cast<int>(p.results.channel)))),
        channels_(uniform(p.out_channels - memory.work()->band * n)) {}

  // See Writer.
  __device__ int channels() const { return channels_; }
  template <class F>
  __device__ void with_put(F&& f) const {
    f([&](int i, const float(&x)[2][1][4]) {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        E* const to = ahead(to_, step_, 8 * i + k);
        if (valid_)
          store_result(reinterpret_cast<Four*>(to),
                       Four{pair_of<E>(x[0][0][k], x[1][0][k]), pair_of<E>(x[0][0][2 + k], x[1][0][2 + k])});
      }
    });
  }

 private:
  struct alignas(4 * sizeof(E)) Four {
    Pair<E> of[2];
  };

  E* to_;
  bool valid_;
  std::uint32_t step_;  // of columns, in elements
  int channels_;
};

// See Results.
template <int n>
struct QuadResults {
  static constexpr bool without_shortcuts = true;
  const ConvParams& p;
  const Memory& memory;
  const int& phase;
  const std::int64_t& distance;

  template <class To>
  __device__ QuadWriter<To, n> operator()() const {
    return {p, memory, phase, distance};
  }
};

struct QuadStore {
  static constexpr bool has_spare_register = false, has_m_tile_offsets = true;
  template <class Traits>
  using Results = QuadResults<Traits::columns>;

  template <class Traits>
  __device__ static __forceinline__ void find_offsets(const ConvParams& p, const Memory& memory) {
    find_output_offsets<Traits::columns, Traits::m_tiles, false, true>(p, memory);
  }
};
template <>
struct StoreOf<Store::quads> {
  using Policy = QuadStore;
};

}  // namespace convt::core::cuda::sm90
