// SPDX-License-Identifier: Apache-2.0
// Sums to the output, 16 bytes at a time, where its rows allow (ConvParams::vectors). A thread has two channels of a
// row, but 8 rows are what is side by side in the output: so a warp puts its sums into a part of shared memory that is
// its own and takes them back as vectors, which are long along the output's rows. What it took is stored when the next
// sums come: until then loads are under way while these are computed.
#pragma once

#include "cuda/sm90/store.cuh"

namespace convt::core::cuda::sm90 {

// Which vector a lane takes, of a warp's two groups of 8 positions: of which channel, of which group, and which one of
// its positions' outputs; and places in shared memory, in bytes, of what it puts and takes. No two lanes of a store or
// load meet in a bank. By bytes of a position's outputs; all of them are 512 bytes, a round.
template <int bytes>
struct VectorPlaces;

// 16 channels: [8 channels][group][channel], a vector each.
template <>
struct VectorPlaces<2> {
  static __device__ unsigned channel(unsigned lane) { return lane / 2; }
  static __device__ unsigned group(unsigned lane) { return lane % 2; }
  static __device__ unsigned vector(unsigned) { return 0; }
  static __device__ unsigned put(unsigned lane) { return (lane ^ lane / 8 % 2 * 4) * 16; }
  static __device__ unsigned take(unsigned lane) {
    return (channel(lane) / 8 * 16 + group(lane) * 8 + (channel(lane) % 8 ^ group(lane) * 4)) * 16;
  }
};
// 8 channels: [group][odd or even channel][channel][position].
template <>
struct VectorPlaces<4> {
  static __device__ unsigned channel(unsigned lane) { return lane / 2 % 4 * 2 + lane / 8 % 2; }
  static __device__ unsigned group(unsigned lane) { return lane / 16; }
  static __device__ unsigned vector(unsigned lane) { return lane % 2; }
  static __device__ unsigned put(unsigned lane) { return (lane % 4 * 8 + lane / 4) * 4; }
  static __device__ unsigned take(unsigned lane) { return lane * 16; }
};
// 4 channels, every other one: [group][pair of positions][channel][position].
template <>
struct VectorPlaces<8> {
  static __device__ unsigned channel(unsigned lane) { return lane / 4 % 4 * 2; }
  static __device__ unsigned group(unsigned lane) { return lane / 16; }
  static __device__ unsigned vector(unsigned lane) { return lane % 4; }
  static __device__ unsigned put(unsigned lane) { return of(lane / 8, lane % 4) + lane / 4 % 2 * 8; }
  static __device__ unsigned take(unsigned lane) { return of(lane % 4, lane / 4 % 4) + group(lane) * 256; }

 private:
  static __device__ unsigned of(unsigned pair, unsigned channel) { return (pair * 4 + (channel ^ pair / 2 * 2)) * 16; }
};

// Of one phase, or of two neighbours along w: 8 columns at a time, from the first on.
template <class E, int n, int joint>
class VectorWriter {
 public:
  __device__ VectorWriter(const ConvParams& p, const Memory& memory, int phase, std::int64_t distance)
      : step_(p.results.channel) {
    int thread = threadIdx.x;
    forget(thread);  // what follows is found again for each phase: registers are short
    const unsigned lane = static_cast<unsigned>(thread) % warp_threads, group = Places::group(lane);
    std::int64_t first = *memory.warp_place() + distance + Places::vector(lane) * per_vector;
    first += static_cast<std::uint64_t>(Places::channel(lane)) * step_;
    first += static_cast<std::uint64_t>(group) * p.results.group;
    to_ = static_cast<E*>(p.to.data) + first;
    const int missing = Missing(p, *memory.item(), 0, 1).of + phase;
    there_ = (missing >> group * Missing::row_bits & Missing::outside) == 0;
    put_ = memory.vectors() + Places::put(lane);
    take_ = memory.vectors() + Places::take(lane);
  }

  // x, of the columns 8*i and on, by phase and row.
  __device__ void put(int i, const float (&x)[joint][1][4]) {
    if constexpr (bytes == 2) {
      const unsigned above = pair_bits<E>(x[0][0][0], x[0][0][1]), below = pair_bits<E>(x[0][0][2], x[0][0][3]);
      if (i % 2 == 0) {
        held_[0] = above;
        held_[1] = below;
        return;
      }
      if (i > 1) store(i - 2);
      exchange(0, [&] { store_transposed(put_, held_[0], held_[1], above, below); });
    } else if constexpr (bytes == 4) {
      if (i > 0) store(i - 1);
      exchange(0, [&] {
#pragma unroll
        for (int k = 0; k < 4; ++k) put_one(k / 2 * 256 + k % 2 * 128, k, x);
      });
    } else {
      if (i > 0) store(i - 1);
#pragma unroll
      for (int k = 0; k < 2; ++k)
        exchange(k, [&] {
          put_one(0, k, x);
          put_one(256, 2 + k, x);
        });
    }
  }
  // Behind the last columns.
  __device__ void end() const { store(n / 8 - 1); }

 private:
  static constexpr int bytes = joint * static_cast<int>(sizeof(E));  // of a position's outputs
  static constexpr int per_vector = 16 / static_cast<int>(sizeof(E));
  static constexpr int rounds = bytes == 8 ? 2 : 1;  // for 8 columns, or for 16
  using Places = VectorPlaces<bytes>;

  __device__ void put_one(int at, int k, const float (&x)[joint][1][4]) const {
    E* const to = reinterpret_cast<E*>(put_ + at);
    if constexpr (joint == 2)
      put_pair(to, x[0][0][k], x[1][0][k]);
    else
      *to = x[0][0][k];
  }
  template <class Put>
  __device__ void exchange(int round, const Put& put_all) {
    __syncwarp();  // all have what they took
    put_all();
    __syncwarp();
    taken_[round] = *reinterpret_cast<const uint4*>(take_);
  }
  // What was taken when the columns 8*i and on came.
  __device__ void store(int i) const {
#pragma unroll
    for (int k = 0; k < rounds; ++k) {
      E* const to = ahead(to_, step_, bytes == 2 ? i / 2 * 16 : 8 * i + k);
      if (there_) *reinterpret_cast<uint4*>(to) = taken_[k];
    }
  }

  E* to_;               // the first round's
  std::uint32_t step_;  // of columns, in elements
  bool there_;
  unsigned char *put_, *take_;
  unsigned held_[2];
  uint4 taken_[rounds];
};

// What writes a phase's sums. `distance` is from the first phase's outputs to its own. Both stay where they are until
// they are used.
template <int n, int joint, int blocks>
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
  __device__ VectorWriter<To, n, joint> vectors() const {
    return {p, memory, phase, distance};
  }
};

}  // namespace convt::core::cuda::sm90
