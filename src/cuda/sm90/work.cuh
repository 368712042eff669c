// SPDX-License-Identifier: Apache-2.0
// What blocks work on: items, phases, positions; and elements as matrix instructions take them.
#pragma once

#include "cuda/chain/element.cuh"
#include "cuda/common/block.hpp"
#include "cuda/sm90/instructions.cuh"
#include "cuda/sm90/params.hpp"

namespace convt::core::cuda::sm90 {

// Lane 0's value, which the compiler then knows to be the warp's.
__device__ inline int uniform(int value) { return __shfl_sync(~0U, value, 0); }

// A tile of an image, and a band of output channels. place: in its round, where blocks take turns
// (ConvParams::turns). result: as result_of() has it, where it is asked for.
struct alignas(16) Item {
  int image, band, tile[3], place;
  std::int64_t result;
};
static_assert(sizeof(Item) == item_bytes);
__device__ inline Item item_at(const ConvParams& p, int number) {
  Item item{};
  item.band = number % p.bands;
  number /= p.bands;
#pragma unroll
  for (int a = 2; a >= 0; --a) {
    item.tile[a] = number % p.axis[a].tiles;
    number /= p.axis[a].tiles;
  }
  item.image = number;
  item.place = blockIdx.x;
  return item;
}
// A block's next one where it is not cut, without divisions. turns: blocks may.
template <bool turns>
__device__ void step_on(const ConvParams& p, Item& item) {
  const bool wraps = turns && p.turns && ++item.place == p.grid;
  if (wraps) item.place = 0;
  item.band += p.band_steps[wraps];
  const bool over = item.band >= p.bands;
  if (over) item.band -= p.bands;
  int carry = 0;
#pragma unroll
  for (int a = 2; a >= 0; --a) {
    item.tile[a] += p.item_steps[wraps][over].tile[a] + carry;
    carry = item.tile[a] >= p.axis[a].tiles ? 1 : 0;
    if (carry != 0) item.tile[a] -= p.axis[a].tiles;
  }
  item.image += p.item_steps[wraps][over].image + carry;
}
// Of a block, where they are not cut; at least one.
template <bool turns>
__device__ int items_of(const ConvParams& p) {
  int last = blockIdx.x;  // its place in the round that is not whole
  if (turns && p.turns) last = (last + p.whole_each) % p.grid;
  return p.whole_each + (last < p.items - p.whole_items ? 1 : 0);
}

// What blocks work on where items may be cut: whole ones as long as there is one for each block, neighbours at the same
// time, as they have inputs in common. Those that are left are cut into shares, of which all blocks have as many, so
// that they end together. What a block has of an item:
struct alignas(16) ItemShare {
  int number;      // of the item
  int first, end;  // classes
  int left;        // shares of the block, this item's too, where items are cut
  int more;        // items that the block has behind this one
};
static_assert(sizeof(ItemShare) == share_bytes);
// A block's shares of the items that are cut.
struct Shares {
  int first, count;

  __device__ explicit Shares(const ConvParams& p) {
    int block = blockIdx.x;
    forget(block);  // or what follows is kept from item to item
    first = block * p.shares + min(block, p.more_shares);
    count = p.shares + (block < p.more_shares ? 1 : 0);
  }
  __device__ int items(const ConvParams& p) const {
    return count == 0 ? 0 : (first % p.item_shares + count + p.item_shares - 1) / p.item_shares;
  }
};
// `left` shares, or as many of them as the item has from its first class on.
__device__ inline void take_shares(const ConvParams& p, ItemShare& share) {
  share.end = min(share.first + share.left * p.share_classes, p.class_count);
}
__device__ inline ItemShare cut_share(const ConvParams& p) {  // the block's first one
  const Shares shares(p);
  ItemShare share{};
  share.number = p.whole_items + shares.first / p.item_shares;
  share.first = shares.first % p.item_shares * p.share_classes;
  share.left = shares.count;
  share.more = shares.items(p) - 1;
  take_shares(p, share);
  return share;
}
__device__ inline ItemShare first_share(const ConvParams& p) {  // every block has one
  if (p.whole_items == 0) return cut_share(p);
  return {static_cast<int>(blockIdx.x), 0, p.class_count, 0, p.whole_each - 1 + Shares(p).items(p)};
}
// A block's next one.
__device__ inline void go_on(const ConvParams& p, Item& item, ItemShare& share) {
  const int more = share.more - 1;
  if (share.number + p.grid < p.whole_items) {
    share.number += p.grid;
    step_on<false>(p, item);
  } else if (share.number < p.whole_items) {
    share = cut_share(p);
    item = item_at(p, share.number);
  } else {
    share.left -= (share.end - share.first) / p.share_classes;
    share.first = 0;
    take_shares(p, share);
    item = item_at(p, ++share.number);
  }
  share.more = more;
}

// An item's first output, in elements.
__device__ inline std::int64_t result_of(const ConvParams& p, const Item& item) {
  std::int64_t result = item.image * p.to.step.n + item.band * p.results.band;
#pragma unroll
  for (int a = 0; a < 3; ++a) result += item.tile[a] * p.results.tile[a];
  return result;
}

// Neighbouring phases along w that are summed together, `joint` or, at the end of a line, fewer.
template <int joint>
__device__ int joint_phases(const ConvParams& p, int number) {
  return joint == 1 ? 1 : min(joint, p.phases[2] - phase_along(p.classes[number].phase, 2));
}
__device__ inline bool has_taps(const ConvParams& p, int number, int phases) {
  int taps = 0;
  for (; phases > 0; --phases) taps += p.classes[number++].taps;
  return taps > 0;
}
// How often an item's box is filled: once, or, where its chunks do not all stay, for all phases that are summed
// together.
template <int joint>
__device__ int fills_of(const ConvParams& p, int first, int end) {
  if (p.resident) return 1;
  int fills = 0;
  for (int number = first, there = 0; number < end; number += there) {
    there = joint_phases<joint>(p, number);
    fills += has_taps(p, number, there) ? 1 : 0;
  }
  return fills;
}

__device__ inline Class uniform(const Class& c) {
  return {uniform(c.taps),    uniform(c.listed), uniform(c.weights), uniform(c.first), uniform(c.along_h),
          uniform(c.along_w), uniform(c.phase),  uniform(c.place),   uniform(c.line),  uniform(c.plane)};
}

// A row of a block, as a position of the tile. twins: halo tiles are there twice (twins.cuh), and every other group of
// 8 rows has the odd positions of 16 along w.
template <bool twins = false>
__device__ int position_at(const ConvParams& p, int block, int row, int a) {
  constexpr int turns = twins ? 1 : 0;
  const int group = row / 8;
  return p.origin[block][a] + (group >> turns) * p.group_step[a] + (a == 2 ? (row % 8 << turns) + (group & turns) : 0);
}
// The same of a run, which has no more than 256 rows. Behind a line's positions are rows that are none.
struct RunRow {
  int h, w;

  __device__ RunRow(const ConvParams& p, int row) {
    h = row * p.run >> 16;
    w = row - h * p.axis[2].halo;
  }
};

// Each thread has two rows of a block, n / 4 columns of each; four neighbouring threads have all columns of a row.
template <int n>
struct Sums {
  __device__ static int row(int half, unsigned thread = threadIdx.x) {
    return thread % group_threads / warp_threads * 16 + thread % warp_threads / 4 + half * 8;
  }
  __device__ static int column(int pair, unsigned thread = threadIdx.x) { return pair * 8 + thread % 4 * 2; }
};

// The output of a row of a block in a phase; its image is -1 where there is none.
__device__ inline Pixel pixel_at(const ConvParams& p, const Item& item, int phase, int block, int row) {
  int out[3];
  bool inside = true;
#pragma unroll
  for (int a = 0; a < 3; ++a) {
    const ConvAxis& axis = p.axis[a];
    out[a] = (item.tile[a] * axis.tile + position_at(p, block, row, a)) * axis.stride + phase_along(phase, a);
    inside &= out[a] < axis.size;
  }
  return {inside ? item.image : -1, out[0], out[1], out[2]};
}

// A float of tensors whose products are made of f16 in place of tf32: halved.cuh.
struct Halved {
  float value;
};
__device__ inline Halved load_next(const Halved*& from, std::int64_t bytes) {
  const auto* at = reinterpret_cast<const float*>(from);
  const Halved x{load_next(at, bytes)};
  from = reinterpret_cast<const Halved*>(at);
  return x;
}
// Of an element, as matrix instructions take it.
template <class E>
inline constexpr int operand_bytes = sizeof(E);
template <>
inline constexpr int operand_bytes<Halved> = 2;

__device__ inline uint4 rounded_vector(const Halved* x) {
  const auto pair = [&](int i) { return half_pair(x[i].value, x[i + 1].value); };
  return {pair(0), pair(2), pair(4), pair(6)};
}
__device__ inline uint4 rounded_vector(const float* x) {
  return {tf32_bits(x[0]), tf32_bits(x[1]), tf32_bits(x[2]), tf32_bits(x[3])};
}
template <class E>
__device__ uint4 rounded_vector(const E* x) {
  const auto pair = [&](int i) { return x[i].bits | static_cast<unsigned>(x[i + 1].bits) << 16; };
  return {pair(0), pair(2), pair(4), pair(6)};
}
__device__ inline float rounded_value(float x) { return __uint_as_float(tf32_bits(x)); }
template <class E>
__device__ float rounded_value(E x) {
  return to_real(x);
}

// Where unit `unit` of 16 bytes of a row is, in units from the row's beginning: as matrix instructions swizzle rows of
// 64 and of 128 bytes by their address, so that 8 neighbouring rows meet all banks.
__device__ inline int place_in_row(int row, int unit, int row_bytes) {
  return unit ^ (row_bytes == 128 ? row % 8 : row / 2 % 4);
}
// The same where rows of 128 bytes are two pixels (twins.cuh), of an address in a slot.
__device__ inline int twin_swizzled(int address) { return address ^ (address >> 3 & 0x70); }
// From a tile of weights' beginning to a weight, in elements.
template <class E>
__device__ int weight_place(int column, int channel, int row_bytes) {
  constexpr int each = 16 / static_cast<int>(sizeof(E));
  return column * (row_bytes / static_cast<int>(sizeof(E))) + place_in_row(column, channel / each, row_bytes) * each +
         channel % each;
}

}  // namespace convt::core::cuda::sm90
