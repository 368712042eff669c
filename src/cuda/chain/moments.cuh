// SPDX-License-Identifier: Apache-2.0
// Statistics that threads join, in trees of fixed shape.
#pragma once

#include "cuda/chain/params.hpp"
#include "cuda/common/block.hpp"

namespace convt::core::cuda {

inline constexpr unsigned all_lanes = 0xffffffffU;

__device__ inline double from_lane(double own, int apart) { return __shfl_xor_sync(all_lanes, own, apart); }
__device__ inline Moments from_lane(const Moments& own, int apart) {
  return {from_lane(own.count, apart), from_lane(own.centre, apart), from_lane(own.total, apart)};
}
// Joins the values of a warp, in the order of lanes. Every lane gets the result.
template <class V, class Join>
__device__ V join_lanes(V own, Join join) {
  for (int apart = 1; apart < warp_threads; apart *= 2) {
    const V other = from_lane(own, apart);
    own = (threadIdx.x & apart) == 0 ? join(own, other) : join(other, own);
  }
  return own;
}
// The sum over each group of `lanes` lanes. Every lane of the group gets it.
__device__ inline double sum_lanes(double own, int lanes) {
  for (int apart = 1; apart < lanes; apart *= 2) own += from_lane(own, apart);
  return own;
}

__device__ inline Moments merge(const Moments& a, const Moments& b) {
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  const double count = a.count + b.count, apart = b.centre - a.centre;
  return {count, a.centre + apart * (b.count / count), a.total + b.total + apart * apart * (a.count * b.count / count)};
}

}  // namespace convt::core::cuda
