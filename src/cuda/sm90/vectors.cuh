// SPDX-License-Identifier: Apache-2.0
// Folded results of 2 bytes to the output, 16 bytes at a time, where its rows allow (ConvParams::vectors). A thread has
// two channels of a row, but 8 rows are what is side by side in the output: so a warp puts its results into a part of
// shared memory that is its own, transposed, and takes them back as vectors. What it took is stored when the next ones
// come: until then loads are under way while these are computed. Writers of pooled tiles have room for all, and take
// them at the end. Results of 4 bytes, and of two phases, were slower so: beside products, shared memory is slow.
#pragma once

#include "cuda/sm90/store.cuh"

namespace convt::core::cuda::sm90 {

// 8 columns at a time, from the first on; 16 are exchanged at once, [8 channels][group of rows][channel], a vector
// each. apart: there is memory for all of them, and they are taken at the end.
template <class E, int n, bool apart>
class VectorWriter {
 public:
  __device__ VectorWriter(const ConvParams& p, const Memory& memory) : step_(p.results.channel) {
    const int thread = memory.consumer();  // what follows is found again for each tile: registers are short
    // The lane's vector. No two lanes of a store or load meet in a bank.
    const unsigned lane = static_cast<unsigned>(thread) % warp_threads, channel = lane / 2, group = lane % 2;
    std::int64_t first = *memory.warp_place() + memory.item()->result;
    first += static_cast<std::uint64_t>(channel) * step_ + static_cast<std::uint64_t>(group) * p.results.group;
    to_ = static_cast<E*>(p.to.data) + first;
    // Of the lane's own row, and so of all 8 of a group: none is cut.
    there_ = (Missing(p, memory, 0, 1).of >> group * Missing::row_bits & Missing::outside) == 0;
    static_assert(!apart || n / 16 <= group_warps);  // rounds that many_vectors() has room for
    unsigned char* const exchange = apart ? memory.many_vectors() : memory.vectors();
    put_ = exchange + (lane ^ lane / 8 % 2 * 4) * 16;
    take_ = exchange + (channel / 8 * 16 + group * 8 + (channel % 8 ^ group * 4)) * 16;
  }

  // x, of the columns 8*i and on, by row.
  __device__ void put(int i, const float (&x)[1][1][4]) {
    const unsigned above = pair_bits<E>(x[0][0][0], x[0][0][1]), below = pair_bits<E>(x[0][0][2], x[0][0][3]);
    if (i % 2 == 0) {
      held_[0] = above;
      held_[1] = below;
      return;
    }
    const int round = i / 2;
    if (!apart && round > 0) store(round - 1, taken_);
    if (!apart) __syncwarp();  // all have what they took
    store_transposed(put_ + (apart ? round * vector_round : 0), held_[0], held_[1], above, below);
    if (apart) return;
    __syncwarp();
    taken_ = take(0);
  }
  // Behind the last columns.
  __device__ void end() const {
    constexpr int rounds = n / 16;
    if (!apart) return store(rounds - 1, taken_);
    __syncwarp();
    uint4 all[rounds];
#pragma unroll
    for (int i = 0; i < rounds; ++i) all[i] = take(i);
#pragma unroll
    for (int i = 0; i < rounds; ++i) store(i, all[i]);
    __syncwarp();  // all have what they took
  }

 private:
  __device__ uint4 take(int round) const { return *reinterpret_cast<const uint4*>(take_ + round * vector_round); }
  // Of the columns 16*round and on.
  __device__ void store(int round, const uint4& taken) const {
    if (there_) store_result(reinterpret_cast<uint4*>(ahead(to_, step_, round * 16)), taken);
  }

  E* to_;               // the first ones'
  std::uint32_t step_;  // of columns, in elements
  bool there_;
  unsigned char *put_, *take_;
  unsigned held_[2];
  uint4 taken_;
};

// What writes a phase's sums. `distance` is from the first phase's outputs to its own. Both stay where they are until
// they are used.
template <int n, int joint, int blocks, bool apart = false>
struct Results {
  const ConvParams& p;
  const Memory& memory;
  const int& phase;
  const std::int64_t& distance;

  template <class To>
  __device__ Writer<To, n, joint, blocks> operator()() const {
    return {p, memory, phase, distance};
  }
  template <class To>
  __device__ VectorWriter<To, n, apart> vectors() const {
    return {p, memory};
  }
};

}  // namespace convt::core::cuda::sm90
