// SPDX-License-Identifier: Apache-2.0
// The direct store: threads store the results that they hold.
#pragma once

#include "cuda/sm90/store/policy.cuh"
#include "cuda/sm90/store/vectors.cuh"

namespace convt::core::cuda::sm90 {

// Makes the writer of a phase's results. distance: from the first phase's outputs to this one's. `phase` and `distance`
// are references, which are read when they are used. programmed: a register program may have reduced the channels.
template <int n, int joint, int m_tiles, bool apart = false, bool programmed = false>
struct Results {
  const ConvParams& p;
  const Memory& memory;
  const int& phase;
  const std::int64_t& distance;

  template <class To>
  __device__ Writer<To, n, joint, m_tiles> operator()() const {
    return {p, memory, phase, distance, programmed ? p.program.channels : p.out_channels};
  }
  template <class To>
  __device__ VectorWriter<To, n, apart> vectors() const {
    return {p, memory};
  }
};

struct DirectStore {
  static constexpr bool has_spare_register = true, has_m_tile_offsets = true;
  template <class Traits>
  using Results = sm90::Results<Traits::columns, Traits::joint, Traits::m_tiles, false, Traits::programmed>;

  template <class Traits>
  __device__ static __forceinline__ void find_offsets(const ConvParams& p, const Memory& memory) {
    find_output_offsets<Traits::columns, Traits::m_tiles, Traits::folds && sizeof(typename Traits::Element) == 2>(
        p, memory);
  }
};
template <>
struct StoreOf<Store::direct> {
  using Policy = DirectStore;
};

}  // namespace convt::core::cuda::sm90
