// SPDX-License-Identifier: Apache-2.0
#include "cuda/chain/chain.cuh"

namespace convt::core::cuda {

template void launch_chain<float>(const ChainParams&, const Launch&);
template std::size_t chain_shared<float>(const ChainParams&);

}  // namespace convt::core::cuda
