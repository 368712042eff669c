// SPDX-License-Identifier: Apache-2.0
// The chain's kernels, as host code sees them.
#pragma once

#include "cuda/chain/params.hpp"
#include "cuda/common/launch.hpp"

namespace convt::core::cuda {

template <class T>
void launch_chain(const ChainParams& params, const Launch& how);
// Bytes of dynamic shared memory that the chain's kernel needs, including the strip unless that is in global memory.
template <class T>
std::size_t chain_shared(const ChainParams& params);

template <class T>
void launch_affine(const AffineParams& params, cudaStream_t stream);

// Add the moments of a slab's regions, or the folds of its channels, to those of the image.
template <class T>
void launch_moments(const RegionParams& params, cudaStream_t stream);
template <class T>
void launch_folds(const RegionParams& params, convt_dtype dtype, cudaStream_t stream);
template <class T>
void launch_statistics(const FinishParams& params, cudaStream_t stream);
template <class T>
void launch_pool_results(const FinishParams& params, cudaStream_t stream);

}  // namespace convt::core::cuda
