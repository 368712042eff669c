// SPDX-License-Identifier: Apache-2.0
// Stores folded results of 2 bytes 16 bytes at a time, if the output's rows allow it (ConvParams::vectors). A thread
// has two channels of a row, but 8 rows are contiguous in the output. So a warp transposes its results through its own
// part of shared memory and takes them back as vectors. It stores a vector when the next one is ready, to hide the
// latency of the load. The epilogue warpgroup has room for all vectors and takes them at the end. For results of 4
// bytes, and for two phases, this was slower.
#pragma once

#include "cuda/sm90/store/writer.cuh"

namespace convt::core::cuda::sm90 {

// Takes 8 columns at a time and exchanges 16 at once: [8 channels][group of rows][channel], one vector each. apart: the
// buffer holds all vectors, and they are taken at the end.
template <class E, int n, bool apart>
class VectorWriter {
 public:
  __device__ VectorWriter(const ConvParams& p, const Memory& memory) : step_(p.results.channel) {
    const int thread = memory.consumer();  // recomputed for each tile, to save registers
    // The lane's vector. Stores and loads have no bank conflicts.
    const unsigned lane = static_cast<unsigned>(thread) % warp_threads, channel = lane / 2, group = lane % 2;
    std::int64_t first = *memory.warp_output_offset() + memory.work()->result;
    first += static_cast<std::uint64_t>(channel) * step_ + static_cast<std::uint64_t>(group) * p.results.group;
    to_ = static_cast<E*>(p.to.data) + first;
    // All 8 rows of the lane's group are valid, or none.
    valid_ = (Missing(p, memory, 0, 1).of >> group * Missing::row_bits & Missing::outside) == 0;
    static_assert(!apart || n / 16 <= group_warps);  // rounds that many_vectors() has room for
    unsigned char* const exchange = apart ? memory.many_vectors() : memory.vectors();
    put_ = exchange + (lane ^ lane / 8 % 2 * 4) * 16;
    take_ = exchange + (channel / 8 * 16 + group * 8 + (channel % 8 ^ group * 4)) * 16;
  }

  // x: the columns from 8*i on, by row.
  __device__ void put(int i, const float (&x)[1][1][4]) {
    const unsigned above = pair_bits<E>(x[0][0][0], x[0][0][1]), below = pair_bits<E>(x[0][0][2], x[0][0][3]);
    if (i % 2 == 0) {
      held_[0] = above;
      held_[1] = below;
      return;
    }
    const int round = i / 2;
    if (!apart && round > 0) store(round - 1, taken_);
    if (!apart) __syncwarp();  // all lanes have read their vectors
    store_transposed(put_ + (apart ? round * vector_round : 0), held_[0], held_[1], above, below);
    if (apart) return;
    __syncwarp();
    taken_ = take(0);
  }
  // Called after the last columns.
  __device__ void end() const {
    constexpr int rounds = n / 16;
    if (!apart) return store(rounds - 1, taken_);
    __syncwarp();
    uint4 all[rounds];
#pragma unroll
    for (int i = 0; i < rounds; ++i) all[i] = take(i);
#pragma unroll
    for (int i = 0; i < rounds; ++i) store(i, all[i]);
    __syncwarp();  // all lanes have read their vectors
  }

 private:
  __device__ uint4 take(int round) const { return *reinterpret_cast<const uint4*>(take_ + round * vector_round); }
  // Stores the vector of a round: the columns from 16*round on.
  __device__ void store(int round, const uint4& taken) const {
    if (valid_) store_result(reinterpret_cast<uint4*>(ahead(to_, step_, round * 16)), taken);
  }

  E* to_;               // address of round 0's vector
  std::uint32_t step_;  // of columns, in elements
  bool valid_;
  unsigned char *put_, *take_;
  unsigned held_[2];
  uint4 taken_;
};

}  // namespace convt::core::cuda::sm90
