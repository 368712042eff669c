// SPDX-License-Identifier: Apache-2.0
// What the Hopper convolution's kernels are told, by value.
//
// A block takes tiles of outputs, one after the other. A tile has `tile` positions along each axis, that is
// tile*stride outputs: all phases (plan/phases.hpp) of these positions. What all of its taps read is one box of
// inputs, the halo tile, [pixel][channel] in shared memory.
#pragma once

#include "cuda/chain/params.hpp"
#include "plan/taps.hpp"

namespace convt::core::cuda::sm90 {

inline constexpr int most_stride = 4, most_classes = most_stride * most_stride * most_stride;
inline constexpr int group_threads = 128, group_warps = group_threads / warp_threads;
inline constexpr int item_bytes = 32, share_bytes = 32;         // of shared memory: what a warp works on
inline constexpr int vector_round = warp_threads * 16;          // bytes that a warp exchanges at once: vectors.cuh
inline constexpr int warp_place_bytes = 128;                    // where each of 16 warps' results go
inline constexpr int step_bytes = 32;                           // of a row, for one matrix instruction
inline constexpr int group_channels = 8;                        // that threads load at once where tiles march
inline constexpr int block_rows = 64;                           // of one matrix instruction
inline constexpr int most_blocks = 4;                           // of a tile
inline constexpr int wide_positions = 128, wide_channels = 64;  // of one matrix instruction where positions are columns
inline constexpr int joined_taps = 3;                           // of the axis that tiles march along; see march.cuh
inline constexpr int most_taps = 4096;                          // of a kernel
inline constexpr int shared_slack = 1024;                       // to begin at a multiple of it
inline constexpr int most_placed = 512;                         // taps whose places are listed
inline constexpr int most_stages = 8, most_slots = 8;
inline constexpr int most_staged = 4;  // parts of results on their way, each with barriers of its own
inline constexpr int barrier_bytes = 2 * (most_slots + most_stages + most_staged) * 8;
inline constexpr int most_shared = 232448 - barrier_bytes;  // of a block, beside barriers

// A block that packs has so many rows of weights, neighbours in the kernel's tensor, of a chunk of input channels.
inline constexpr int packed_rows = 32;
// It leaves a byte, not 0 where some weight of them is not finite, or not what f16 must have in place of tf32, and the
// last block zeros behind its own, as many as make whole loads.

// Results on their way to the output, [channel][position] (staged.cuh): lines are so far apart that a warp's stores
// meet all banks.
inline constexpr int wide_pitch = 2 * wide_positions + 8;
constexpr int wide_staged_bytes(int element) { return wide_channels * wide_pitch * element; }
CONVT_FN constexpr int march_pitch(int rows, int element) { return rows + 16 / element; }
constexpr int march_staged_bytes(int rows, int columns) {  // floats, whatever the tensors are
  constexpr int element = sizeof(float);
  return columns * march_pitch(rows, element) * element;
}

// Results whose rows are no whole sectors (rows.cuh), of a few columns of a tile: [column][output], as far apart.
inline constexpr int row_columns = 8, row_outputs = 2 * most_blocks * block_rows;
CONVT_FN constexpr int row_pitch(int element) { return row_outputs + 16 / element; }
constexpr int rows_staged_bytes(int element) { return 2 * row_columns * row_pitch(element) * element; }

// What consumers hand on where tiles are pooled: floats, as their threads have them.
inline constexpr int pooled_buffers = 2;  // of warpgroups: one's is another's when writers have read it
CONVT_FN constexpr int pooled_staged_bytes(int columns) {  // floats, of one warpgroup
  return columns / 2 * group_threads * static_cast<int>(sizeof(float));
}

// Of a line of a halo tile that is there twice, in pixels of each: whole rows of two.
CONVT_FN constexpr int twin_line(int pixels) { return (pixels + 1) / 2 * 2; }

// Of a matrix instruction's operand (operand.cuh): the upper half of its descriptor.
constexpr std::uint32_t operand_layout(int group_bytes, int row_bytes) {
  return (row_bytes == 128 ? 1U : 2U) << 30 | static_cast<std::uint32_t>(group_bytes) >> 4;
}

// Bytes that kernels leave for others, one for each that had something to tell, in whole loads of 16 bytes.
struct Flags {
  const void* data = nullptr;
  int loads = 0;
};
CONVT_FN constexpr int flag_loads(int count) { return (count + 15) / 16; }

// f16 in place of tf32 (halved.cuh; docs/numerics.md derives these). From beyond_f16 on f16 is infinite. An input below
// tiny_input, or a scaled weight below tiny_weight, is tiny: f16 may keep fewer digits of it than tf32.
inline constexpr float beyond_f16 = 65520, tiny_input = 0x1p-16F, tiny_weight = 0x1p-14F;
// Filters are scaled by a power of two, so that the largest weight of each is in [2^14, 2^15). Where a norm over
// channels follows, all filters have the same scale, and the norm's eps scales along.
inline constexpr int filter_exponent = 14;
inline constexpr float common_scale = 0x1p8F;
// The range guard's rule, of values that share a channel or a filter: `some` are not 0, of which `tiny` are tiny. A few
// tiny ones among others are noise; where they are a quarter of all, f16 does not do.
CONVT_FN constexpr bool loses_digits(int tiny, int some) { return 4 * tiny >= some && (tiny >= 2 || some == 1); }

// Of numbers below 2^15 by a divisor that the host knows, which is none above 2^15.
struct Divisor {
  std::uint32_t times = std::uint32_t{1} << 31;

  Divisor() = default;
  constexpr explicit Divisor(int by) : times(((std::uint32_t{1} << 31) - 1) / static_cast<std::uint32_t>(by) + 1) {}
  CONVT_FN constexpr int quotient(int x) const {
    return static_cast<int>(static_cast<std::uint64_t>(static_cast<std::uint32_t>(x)) * times >> 31);
  }
};

// One axis of a slab. Output o of its box is in phase (lead + o) % stride, at position (lead + o) / stride.
struct ConvAxis {
  TapAxis taps;
  int stride = 1, lead = 0;
  int size = 1;                // outputs
  int tile = 1, tiles = 1;     // positions of a tile; tiles of the box
  int halo = 1;                // inputs of the halo tile
  int first = 0;               // the halo tile begins so far from the tile's first position
  int lowest = 0, inputs = 1;  // position `lowest` is input 0; so many inputs follow
  std::int64_t step = 0;       // from one input to the next, in elements
};

// 4 bits for each axis, and the same 16 bits higher: store.cuh has both rows of a thread in one number.
CONVT_FN constexpr int phase_bits(int d, int h, int w) { return (d + (h << 4) + (w << 8)) * 0x10001; }
CONVT_FN constexpr int phase_along(int bits, int axis) { return bits >> 4 * axis & 15; }

// One phase of every axis. Places are in the halo tile, in units of 16 bytes.
struct alignas(16) Class {
  int taps = 0;
  int listed = 0;                // its first tap, in ConvParams::places; not where tiles are pooled
  int weights = 0;               // from all weights' place to its own, where all of them stay
  int first = 0;                 // of its taps, among all
  int along_h = 0, along_w = 0;  // taps
  int phase = 0;                 // its numbers along d, h and w, as phase_bits() has them
  int place = 0;                 // that the tile's first position meets through the first tap
  int line = 0, plane = 0;       // from a line's last tap on to the next one's first, and so from plane to plane
  std::int64_t result = 0;       // from the first phase's outputs to its own, in elements
};

// How products of a class are made. On a short route there is one chunk, which stays, every class has taps, and joint
// phases are all there: consumers ask for nothing of it.
struct Route {
  enum Kind : int {
    any,
    two_steps,         // two matrix instructions along a row; weights come in stages
    four_steps,        // four; the same
    two_steps_whole,   // two; the same, and all stages are whole, pairs of taps
    four_steps_whole,  // four; the same
    two_steps_stay,    // two; all weights stay
    four_steps_stay,   // four; all weights stay
  };
};

// What a block adds to an item's numbers to have its next one's.
struct ItemStep {
  int tile[3] = {}, image = 0;
};

// A chain that runs on accumulators in registers, in this order; every part of it may be missing.
struct ShortChain {
  enum Place : int { before_norm, behind_norm, last, places };  // of lines
  // gelu_of_norm: the norm, or a pool of norms, and GELU make the whole chain but for a line before them
  // (gelu_fit.hpp).
  enum Activation : int { none, gelu, gelu_of_norm, relu };
  static constexpr int gelu_degree = 5;
  // a_times*a[c]*x + b_times*b[c]; without a and b, a_times*x. One that is not there is x.
  struct Line {
    bool there = false;
    const float *a = nullptr, *b = nullptr;
    float a_times = 1, b_times = 1;
  };
  Line lines[places];
  int norm = 0;                       // over channels
  bool bare = false;                  // it is the chain's first part, and all columns are channels
  bool missing = false;               // all of it but the first line, and results have the type of inputs
  bool only_gelu = false;             // the chain is GELU, and a line before it
  bool only_relu = false;             // the same of ReLU
  float each = 1, eps = 0, gain = 1;  // each: 1 / channels; gain: all that its result is times
  Activation activation = none;
  // GELU's result is times s. It takes s/2 of its argument, as what stands before it hands on; q: its fit in such
  // terms.
  float q[gelu_degree + 1] = {};
};

// Of shared memory, for a short chain's lines of one band.
CONVT_FN constexpr int lines_bytes(int columns) {
  return ShortChain::places * columns * 2 * static_cast<int>(sizeof(float));
}

// A pool whose windows are the phases of a position.
struct Fold {
  enum Kind : int {
    none,
    sum,
    sum_of_norm,       // the same, where its chain ends with a norm: one multiply-add does both
    sum_of_bare_norm,  // the same in one pass: offsets of rows are kept apart and added at the end
    max,
    max_of_sums,  // the same, where it has no chain
  };
  Kind kind = none;
};

// Elements of the output, from one to the next: tiles along each axis, positions along w, bands; and from the tile's
// first position to a block's. Of short chains (has_near_results()): groups of 8 positions, channels, neighbours along
// w.
struct ResultSteps {
  std::int64_t tile[3] = {}, position = 0, band = 0, block[most_blocks] = {};
  std::uint32_t group = 0, channel = 0, neighbour = 0;
};

struct ConvParams {
  const void* input = nullptr;  // at the slab's first image and the first output's position
  const void* there = nullptr;  // a pixel of the input: read where there is none
  std::int64_t image_step = 0, channel_step = 0;
  bool units = false;  // a pixel's channels are neighbours, in whole units of 16 bytes, at addresses that divide by 16
  bool pairs = false;  // of 2 bytes: lines along w are dense, and begin and end at addresses that divide by 4
  ConvAxis axis[3];
  Flags careful;                // not 0 somewhere: some weight is not finite
  const int* shifts = nullptr;  // by tap, along d, h and w
  // [band][class][chunk][tap][output channel][row_bytes], swizzled; where tiles march, the taps along their axis are
  // joined: [chunk][tap of the other axes][joined tap][output channel][row_bytes].
  const void* weights = nullptr;
  int taps = 1;
  int in_channels = 1, out_channels = 1;
  int row_bytes = 128;  // 64 or 128: of a pixel's part of one chunk of input channels, and of an output channel's
  int chunks = 1;       // of input channels
  int steps = 1, last_steps = 1;  // matrix instructions along a chunk, along the last one
  // Of 8 channels: in half a chunk, in half of the last one, in halves of all (planes.cuh).
  int groups = 1, last_groups = 1, plane_groups = 1;
  int bands = 1;          // of output channels
  int items = 1;          // tiles of all images x bands
  int whole_items = 0;    // the first ones: as many for each block,
  int whole_each = 0;     // so many
  int share_classes = 1;  // of a share, where items are cut
  int item_shares = 1;    // of an item
  int shares = 0;         // of all items that are cut, for each block;
  int more_shares = 0;    // so many blocks have one more
  int grid = 1;           // blocks; from a block's whole item to its next
  // Whether blocks change places, by one in each round of items (Item::place): else each would have the same tile of
  // every row, those at the end of rows, of which less is stored, would run ahead, and neighbours would write their
  // parts of a sector at different times.
  bool turns = false;
  // From a block's item to its next; and the same where it passes the round's end.
  int band_steps[2] = {};
  ItemStep item_steps[2][2];     // the second ones where the bands' number passes its end
  int phases[3] = {1, 1, 1};     // of each axis, that occur; counted from that of the box's first output
  int class_count = 1;           // all of them
  Class classes[most_classes];   // [d][h][w] of them
  int route = Route::any;        // a short one only where places of taps are listed
  int places[most_placed] = {};  // of taps, on a short route; of a pooled tile before each class's: taps, weights
  int tap_step = 0;              // from one tap along w to the next, in units of 16 bytes
  int slot_units = 0, tile_units = 0, stage_units = 0;  // of a slot, of a tile and a stage of weights: the same
  // Apart: loaded as one pair, they would have to be moved for every product.
  std::uint32_t input_layout = 0;
  int halo_rows = 1;
  int line_rows = 1;        // from one line of the halo tile to the next
  Divisor parts[3], lines;  // of a line of the halo tile, as HaloLines has them: pixels, pairs by `before`; of a plane
  std::uint32_t weight_layout = 0;
  // Of blocks: groups of 8 positions along w, 8 of them, or 16 where positions are columns.
  int group_step[3] = {0, 0, 0};  // from one group to the next, in positions; of twins, from every other one
  // Where tiles are runs, rows of all blocks are neighbours in the halo tile instead, and some are no positions: row r
  // is at r / axis[2].halo along h and at what is left along w. 2^16 / axis[2].halo and 1 more; 0 where they are not.
  int run = 0;
  int blocks = 1;                     // of a tile
  int block_size[3] = {1, 1, 1};      // of each block, in positions
  int origin[most_blocks][3] = {};    // of each block, in positions of the tile
  int block_place[most_blocks] = {};  // the same in units of 16 bytes of the halo tile
  int slots = 1, slot_bytes = 0;      // of halo chunks
  int stages = 1, stage_tiles = 1;    // of weights; weight tiles of one stage
  bool resident = true;               // slots hold all chunks of a tile until its last phase
  bool all_weights = false;           // all weights are one stage, and stay
  bool paired = false;                // outputs of two neighbouring phases are stored as one
  bool vectors = false;               // folded results are stored 16 bytes at a time: vectors.cuh
  int missing = 0;                    // not 0: of every row, as store.cuh has it; all tiles are whole
  View to;
  ResultSteps results;
  bool lines_by_channel = false;  // of short chains: else they are the same for all bands
  ShortChain quick;
  Fold fold;
  ShortChain behind;  // the fold
  Chain chain;        // where it is no short one
  // At the end: kernels are a few percent slower where others have other places, as the compiler loads neighbours at
  // once.
  unsigned char* seen = nullptr;  // of f16 in place of tf32: where blocks leave flags of their range guards
  // Range guards' flags: of packed weights, of sampled inputs, of loaded inputs. Where one is set, f16 in place of tf32
  // need not run, and tf32 behind it must; none: it must.
  Flags guards[3];
  const float* undo = nullptr;  // by output channel, what takes the scale of filters away: times the first line
  bool undo_behind = false;     // of the chain behind the fold, instead of the one before it
};

// One phase of an axis, as PhaseTaps has it: found by the host, as divisions take long.
struct PackPhase {
  int count = 0, first = 0, step = 1, first_shift = 0, shift_step = 1;
};

// From (in_channels, out_channels, taps) to what ConvParams::weights is, and the taps' shifts in the same order; of
// joined taps, the first one's.
struct PackParams {
  const void* kernel = nullptr;
  bool halved = false;            // floats, to f16 in place of tf32
  const float* scales = nullptr;  // of these, by output channel; else `scale`, for all
  float scale = 1;
  void* weights = nullptr;
  unsigned char* careful = nullptr;  // as ConvParams has it
  int* shifts = nullptr;
  PackPhase phases[3][most_stride];
  int extent[3] = {1, 1, 1};  // of the kernel, without joined taps
  int in_channels = 1, out_channels = 1, band = 8, bands = 1, row_bytes = 128, chunks = 1;
  int taps = 1;    // without joined ones
  int joined = 1;  // taps of axis 0
  int pieces = 1;  // of packed_rows, of a band's rows: [output channel][tap], joined ones too
};

// From (in_channels, out_channels, taps) floats to each filter's scale, and behind all of them to what undoes it.
struct ScaleParams {
  const float* kernel = nullptr;
  float* scales = nullptr;
  int in_channels = 1, out_channels = 1, taps = 1;
};

// A sample of the inputs of a slab: each warp of so many blocks looks at 32 neighbouring pixels and 8 channels, and
// each block leaves a flag of its own, as packing does. Of more than 2^31 pixels, the first ones.
inline constexpr int sample_blocks = 128;
struct SampleParams {
  const float* input = nullptr;  // at the slab's first image
  unsigned char* flags = nullptr;
  unsigned images = 1, channels = 1, pixels = 1, size[3] = {1, 1, 1};
  std::int64_t image_step = 0, channel_step = 0, step[3] = {};
};

}  // namespace convt::core::cuda::sm90
