// SPDX-License-Identifier: Apache-2.0
// The parameters of the Hopper convolution's kernels, passed by value.
//
// A block computes work tiles, one after the other. A tile has `tile` positions along each axis. These are tile*stride
// outputs: all phases (plan/phases.hpp) of these positions. All taps of a tile read one box of inputs, the halo tile,
// which lies in shared memory as [pixel][channel].
#pragma once

#include "cuda/chain/gelu_fit.hpp"
#include "cuda/chain/params.hpp"
#include "cuda/sm90/config/program.hpp"
#include "plan/taps.hpp"

namespace convt::core::cuda::sm90 {

inline constexpr int most_stride = 64;
// Phases of one launch: along an axis, where their numbers have 3 bits (Missing in store/writer.cuh), and in all.
inline constexpr int most_axis_phases = 8, most_phases = 64;
inline constexpr int group_threads = 128, group_warps = group_threads / warp_threads;
inline constexpr int work_tile_bytes = 32, partial_tile_bytes = 32;  // in shared memory
inline constexpr int vector_round = warp_threads * 16;  // bytes that a warp exchanges at once: store/vectors.cuh
inline constexpr int warp_offset_bytes = 128;           // output offsets of 16 warps
inline constexpr int step_bytes = 32;                   // of a row, read by one matrix instruction
inline constexpr int group_channels = 8;                // loaded at once by the loader of planes
inline constexpr int m_tile_rows = 64;                  // of one matrix instruction
inline constexpr int most_m_tiles = 4;                  // of a tile
inline constexpr int swapped_positions = 128,
                     swapped_channels = 64;    // of a matrix instruction with swapped operands
inline constexpr int joined_taps = 3;          // along the axis of sliding planes: kernel/sliding.cuh
inline constexpr int most_taps = 4096;         // of a kernel
inline constexpr int shared_alignment = 1024;  // of the first halo stage
inline constexpr int most_tap_offsets = 512;   // taps whose offsets are listed
inline constexpr int most_weight_stages = 8, most_halo_stages = 8;
inline constexpr int most_staged = 4;  // buffers of staged results, each with its own barriers
inline constexpr int barrier_bytes = 2 * (most_halo_stages + most_weight_stages + most_staged) * 8;
inline constexpr int split_scale_bytes = 16;  // loader/element.cuh
inline constexpr int static_bytes = barrier_bytes + split_scale_bytes;
inline constexpr int most_shared = 232448 - static_bytes;                  // dynamic bytes of a block
inline constexpr int shared_slack = shared_alignment - split_scale_bytes;  // dynamic memory begins after the static

// A block of the packing kernel takes this many rows of weights, neighbours in the kernel's tensor, of one chunk of
// input channels.
inline constexpr int packed_rows = 32;
// It writes one flag byte: not 0 if a weight is not finite, or if f16 loses digits of these rows that tf32 keeps. The
// last block pads the flags with zeros to whole loads.

// Staged results, [channel][position] (store/staging.cuh). The pitch spreads a warp's stores over all banks.
inline constexpr int swapped_pitch = 2 * swapped_positions + 8;
constexpr int swapped_staged_bytes(int element) { return swapped_channels * swapped_pitch * element; }
CONVT_FN constexpr int plane_pitch(int rows, int element) { return rows + 16 / element; }
constexpr int plane_staged_bytes(int rows, int columns) {  // floats, whatever the tensors are
  constexpr int element = sizeof(float);
  return columns * plane_pitch(rows, element) * element;
}

// Staged rows (store/rows.cuh), [column][output] for a few columns of a tile. The pitch spreads stores over all banks.
inline constexpr int row_columns = 8, row_outputs = 2 * most_m_tiles * m_tile_rows;
CONVT_FN constexpr int row_pitch(int element) { return row_outputs + 16 / element; }
constexpr int rows_staged_bytes(int element) { return 2 * row_columns * row_pitch(element) * element; }

// Folded results that consumers hand over to the epilogue warpgroup: floats, in the order of their threads.
inline constexpr int folded_buffers =
    2;  // two warpgroups share each: one writes when the writers have read the other's
CONVT_FN constexpr int folded_staged_bytes(int columns) {  // of one warpgroup
  return columns / 2 * group_threads * static_cast<int>(sizeof(float));
}

// Rows of a line of the duplicated halo, in pixels: a whole number of pairs.
CONVT_FN constexpr int duplicated_line(int pixels) { return (pixels + 1) / 2 * 2; }

// The upper half of an operand's shared-memory descriptor (operand.cuh).
constexpr std::uint32_t operand_layout(int group_bytes, int row_bytes) {
  return (row_bytes == 128 ? 1U : 2U) << 30 | static_cast<std::uint32_t>(group_bytes) >> 4;
}

// Flag bytes that a kernel leaves for a later one, padded to whole loads of 16 bytes.
struct Flags {
  const void* data = nullptr;
  int loads = 0;
};
CONVT_FN constexpr int flag_loads(int count) { return (count + 15) / 16; }

// tf32-as-f16 (loader/range_guard.cuh; docs/numerics.md derives these limits). Magnitudes from beyond_f16 on are
// infinite in f16. Below `tiny`, f16 may keep fewer digits of an input or a scaled weight than tf32.
inline constexpr float beyond_f16 = 65520, tiny = 0x1p-15F;
// f16x3: below this, the two parts of a scaled float may keep fewer digits than float32.
inline constexpr float tiny_split = 0x1p-3F;
// Each filter is scaled by a power of two that puts its largest weight into [2^14, 2^15). If a norm over channels
// follows the convolution, all filters have a common scale, and the norm's eps is scaled along.
inline constexpr int filter_exponent = 14;
inline constexpr float common_scale = 0x1p8F;
// The range guard's rule for values of one channel or filter: `some` are not 0, and `few` of these are tiny. f16 loses
// digits if a quarter are tiny, and at least two or the only one. Fewer tiny values are noise.
CONVT_FN constexpr bool loses_digits(int few, int some) { return 4 * few >= some && (few >= 2 || some == 1); }

// How a launch assigned work tiles to its blocks, for the fallback kernel after it (scheduler/fallback.cuh). Members
// without a comment are those of ConvParams.
struct TileAssignment {
  const unsigned char* flags = nullptr;  // by block: not 0 if its work tiles must be recomputed
  int grid = 1, work_tiles = 1, whole_work_tiles = 0, whole_each = 0, tile_partials = 1, partials = 0,
      more_partials = 0;
  bool rotates = false;
  int planes = 0;  // of sliding planes: outputs along their axis
  int bands = 1, tiles[3] = {1, 1, 1};
  int extent[3] = {1, 1, 1};  // of a tile, in outputs, by axis of that launch,
  int axis[3] = {0, 1, 2};    // which is this axis of the fallback kernel
};
inline constexpr unsigned char recompute_all = 2;  // a flag: every work tile must be recomputed
// Header of a block's list of work tiles: the number of tiles listed for all blocks, or -1 without a list; the number
// of this block's tiles; the first partial tile of its first one; the number of its partial tiles.
inline constexpr int list_header = 4;
// What the fallback kernel (tf32, tf32x3) recomputes after the first kernel (tf32-as-f16, f16x3).
struct Fallback {
  TileAssignment first;  // its flags are null if there was no first kernel
  int* list = nullptr;   // [block][pitch]: work tiles by number
  int pitch = 0;
  int most_work_tiles = 0;  // listed at most; if there are more, all are recomputed

  CONVT_FN int* of_block(int block) const { return list + static_cast<std::int64_t>(block) * pitch; }
};
// An upper bound of a block's work tiles.
CONVT_FN constexpr int most_rounds(int work_tiles, int grid) { return work_tiles / grid + 3; }

// Division of numbers below 2^15 by a divisor of at most 2^15 that the host knows.
struct Divisor {
  std::uint32_t times = std::uint32_t{1} << 31;

  Divisor() = default;
  constexpr explicit Divisor(int by) : times(((std::uint32_t{1} << 31) - 1) / static_cast<std::uint32_t>(by) + 1) {}
  CONVT_FN constexpr int quotient(int x) const {
    return static_cast<int>(static_cast<std::uint64_t>(static_cast<std::uint32_t>(x)) * times >> 31);
  }
};

// One axis of a slab. Output o of its box has phase (lead + o) % stride and position (lead + o) / stride. If a launch
// has a window of the phases (host/phase_window.hpp), `stride` is the number of its phases, and outputs of other phases
// are not counted.
struct ConvAxis {
  TapAxis taps;
  int stride = 1, lead = 0;
  int size = 1;                // outputs
  int tile = 1, tiles = 1;     // positions of a tile; tiles of the box
  int halo = 1;                // inputs of the halo tile
  int first = 0;               // from the tile's first position to the halo tile's
  int lowest = 0, inputs = 1;  // the position of input 0; the number of inputs
  std::int64_t step = 0;       // from one input to the next, in elements
};

// A phase's number along each axis, 4 bits each, and the same 16 bits higher: store/writer.cuh tests both rows of a
// thread at once.
CONVT_FN constexpr int phase_bits(int d, int h, int w) { return (d + (h << 4) + (w << 8)) * 0x10001; }
CONVT_FN constexpr int phase_along(int bits, int axis) { return bits >> 4 * axis & 15; }

// One phase: a residue along each axis. Offsets are in the halo tile, in units of 16 bytes.
struct alignas(16) Phase {
  int taps = 0;
  int listed = 0;                // index of its first tap in ConvParams::tap_offsets
  int weights = 0;               // offset of its weights, if all weights are resident
  int first_tap = 0;             // index among all taps
  int along_h = 0, along_w = 0;  // taps
  int bits = 0;                  // phase_bits() of its numbers along d, h and w
  int offset = 0;                // of the input that the tile's first position reads through the first tap
  int line = 0, plane = 0;       // added at the end of a line of taps, and of a plane of taps
  std::int64_t result = 0;       // from the first phase's outputs to its own, in elements
};

// The main loop's variant. Specialised ones need one resident chunk, taps in every phase, and whole groups of joint
// phases, so that consumers need not test for these.
struct MainloopVariant {
  enum Which : int {
    general,
    two_steps_streamed,         // two matrix instructions along a row; weights are streamed
    four_steps_streamed,        // four; streamed
    two_steps_streamed_whole,   // two; streamed, and all stages of weights are whole and hold pairs of taps
    four_steps_streamed_whole,  // four; streamed likewise
    two_steps_resident,         // two; all weights are resident
    four_steps_resident,        // four; resident
  };
};

// What a block adds to a work tile's indices to reach its next one.
struct WorkStep {
  int tile[3] = {}, image = 0;
};

// A register epilogue: scale and bias, a norm, scale and bias, an activation, scale and bias. Every part may be
// missing.
struct RegisterEpilogue {
  enum Position : int { before_norm, after_norm, last, positions };  // of scale and bias
  // gelu_of_norm: the chain is a norm (or a pool of norms) and GELU, perhaps with a scale and bias before them
  // (chain/gelu_fit.hpp).
  enum Activation : int { none, gelu, gelu_of_norm, relu };
  // x becomes a_times*a[c]*x + b_times*b[c]; without a and b, a_times*x.
  struct ScaleBias {
    bool present = false;
    const float *a = nullptr, *b = nullptr;
    float a_times = 1, b_times = 1;
  };
  ScaleBias scale_bias[positions];
  int norm = 0;                       // over channels
  bool without_affine = false;        // the norm comes first, and all columns are channels
  bool empty = false;                 // nothing but the first scale and bias; results have the input's dtype
  bool only_gelu = false;             // GELU, perhaps after a scale and bias
  bool only_relu = false;             // likewise ReLU
  float each = 1, eps = 0, gain = 1;  // each: 1 / channels; gain: a factor of the norm's result
  Activation activation = none;
  // GELU's result is scaled by s, and its argument arrives scaled by s/2. q is the fit for the scaled argument.
  float q[gelu_degree + 1] = {};
};

// Shared memory for the scale and bias of one band.
CONVT_FN constexpr int scale_bias_bytes(int columns) {
  return RegisterEpilogue::positions * columns * 2 * static_cast<int>(sizeof(float));
}

// A pool whose windows are the phases of a position.
struct Fold {
  enum Mode : int {
    none,
    sum,
    sum_of_norm,                 // its chain ends with a norm: one multiply-add scales and sums
    sum_of_norm_without_affine,  // the norm takes one pass; row offsets are summed apart and added at the end
    max,
    max_of_sums,  // of raw accumulators: there is no chain before the pool
  };
  Mode mode = none;
};

// Distances in the output, in elements: between tiles along each axis, positions along w, and bands; from the tile's
// first position to each row tile. Stores count three distances in 32 bits (has_near_results()): between groups of 8
// positions, channels, and neighbours along w.
struct ResultSteps {
  std::int64_t tile[3] = {}, position = 0, band = 0, m_tile[most_m_tiles] = {};
  std::uint32_t group = 0, channel = 0, neighbour = 0;
};

struct ConvParams {
  const void* input = nullptr;      // at the slab's first image and the first output's position
  const void* any_pixel = nullptr;  // a valid address, read in place of pixels outside the image
  std::int64_t image_step = 0, channel_step = 0;
  bool units = false;  // channels are innermost, in whole aligned units of 16 bytes
  bool pairs = false;  // elements of 2 bytes; lines along w are dense and aligned to 4 bytes
  ConvAxis axis[3];
  Flags nonfinite;              // not all 0: some weight is not finite
  const int* shifts = nullptr;  // by tap, along d, h and w
  // [band][phase][chunk][tap][output channel][row_bytes], swizzled. For sliding planes, taps along their axis are
  // joined: [chunk][tap of the other axes][joined tap][output channel][row_bytes].
  const void* weights = nullptr;
  int taps = 1;
  int in_channels = 1, out_channels = 1;
  int row_bytes = 128;            // 64 or 128: one chunk of input channels of a pixel, or of an output channel
  int chunks = 1;                 // of input channels
  int steps = 1, last_steps = 1;  // matrix instructions along a chunk, along the last one
  // Groups of 8 channels: in half a chunk, in half of the last chunk, in the halves of all chunks (loader/planes.cuh).
  int groups = 1, last_groups = 1, plane_groups = 1;
  int bands = 1;             // of output channels
  int work_tiles = 1;        // tiles of all images, times bands
  int whole_work_tiles = 0;  // dealt out in whole rounds
  int whole_each = 0;        // whole rounds
  int partial_phases = 1;    // phases of a partial tile
  int tile_partials = 1;     // partial tiles of a work tile
  int partials = 0;          // partial tiles of each block
  int more_partials = 0;     // blocks that have one more
  int grid = 1;              // blocks
  // Rotated rasterisation: blocks shift by one in each round. Otherwise each block would have the same tile of every
  // row. Blocks at the ends of rows store less and would run ahead, and neighbours would write their parts of a sector
  // at different times.
  bool rotates = false;
  // From a block's work tile to its next one. [1]: if rotation wraps around to the first tile of a round.
  int band_steps[2] = {};
  WorkStep work_steps[2][2];               // [1]: the band index wraps around
  int axis_phases[3] = {1, 1, 1};          // phases that occur along each axis, from that of the first output on
  int phase_count = 1;                     // their product
  Phase phases[most_phases];               // [d][h][w]
  int variant = MainloopVariant::general;  // specialised only if tap_offsets are listed
  int tap_offsets[most_tap_offsets] =
      {};            // for the epilogue warpgroup, each phase's taps and weights precede its offsets
  int tap_step = 0;  // from one tap along w to the next, in units of 16 bytes
  int halo_stage_units = 0, tile_units = 0,
      weight_stage_units = 0;  // units of 16 bytes: halo stage, weight tile, weight stage
  // input_layout and weight_layout are not neighbours: loaded as a pair, they would have to be moved for every product.
  std::uint32_t input_layout = 0;
  int halo_rows = 1;
  int line_rows = 1;  // from one line of the halo tile to the next
  Divisor parts[3],
      plane_lines;  // parts of a line (HaloLines): pixels, pairs, pairs after an odd pixel; lines of a plane
  std::uint32_t weight_layout = 0;
  // A row tile is 8 groups of 8 positions along w, or 16 with swapped operands.
  int group_step[3] = {0, 0, 0};  // between groups, in positions; with a duplicated halo, between every other one
  // 2^16 / axis[2].halo + 1 if tiles are runs, else 0. The rows of a run are consecutive rows of the halo tile, and
  // some are no positions: row r is at r / axis[2].halo along h, and at the remainder along w.
  int run = 0;
  int m_tiles = 1;                                // of a tile
  int m_tile_size[3] = {1, 1, 1};                 // of each row tile, in positions
  int origin[most_m_tiles][3] = {};               // of each row tile, in positions of the tile
  int m_tile_offset[most_m_tiles] = {};           // the same, in units of 16 bytes of the halo tile
  int halo_stages = 1, halo_stage_bytes = 0;      // each holds one chunk of a halo tile
  int weight_stages = 1, weight_stage_tiles = 1;  // each holds so many weight tiles
  bool resident = true;                           // all chunks of a tile stay until its last phase
  bool all_weights = false;                       // all weights are resident, in one stage
  bool paired = false;                            // outputs of two neighbouring phases are stored as one
  bool vectors = false;                           // folded results are stored 16 bytes at a time: store/vectors.cuh
  int missing = 0;  // not 0: all tiles are whole, and this is Missing (store/writer.cuh) of every row
  View to;
  ResultSteps results;
  bool scale_bias_by_channel = false;  // else the same for all bands
  RegisterEpilogue epilogue;
  Fold fold;
  RegisterEpilogue after_fold;
  Chain chain;  // in a strip, if it is no register epilogue
  // Later members come at the end: the compiler loads neighbouring parameters at once, and kernels were a few percent
  // slower with these among the others.
  Flags weight_guard;  // kernels with a range guard, and their fallback: what packing found about weights
  unsigned char* range_flags = nullptr;  // kernels with a range guard: one flag for each block
  Fallback fallback;                     // of the fallback kernel
  const float* undo = nullptr;           // by output channel: undoes the filters' scale, in the first scale and bias
  bool undo_after_fold = false;          // whether `undo` goes into the epilogue after the fold instead
  RegisterProgram program;               // of kernels that run one, in place of `epilogue`
  const float* weight_undo = nullptr;    // f16x3: undoes the scale of weights
};

// PhaseTaps of one phase of an axis. The host computes them, as divisions are slow.
struct PackPhase {
  int count = 0, first = 0, step = 1, first_shift = 0, shift_step = 1;
};

// Packs a kernel (in_channels, out_channels, taps) as ConvParams::weights, and writes the shifts of taps in that order.
// Of joined taps, it writes the first one's shift.
struct PackParams {
  const void* kernel = nullptr;
  const float* scales = nullptr;  // by output channel; if null, all have `scale`. With f16x3, all have the least one
  float* undo = nullptr;          // f16x3: receives the inverse of that least scale
  float scale = 1;
  void* weights = nullptr;
  unsigned char* nonfinite = nullptr;  // ConvParams::nonfinite
  int* shifts = nullptr;
  PackPhase phases[3][most_stride];
  int extent[3] = {1, 1, 1};  // of the kernel; joined taps count as one
  int in_channels = 1, out_channels = 1, band = 8, bands = 1, row_bytes = 128, chunks = 1;
  int taps = 1;    // joined ones count as one
  int joined = 1;  // taps of axis 0 that are joined
  int pieces = 1;  // of packed_rows rows, of a band's [output channel][tap]
};

// The scale of each filter; then, for each, its inverse.
struct ScaleParams {
  const float* kernel = nullptr;
  float* scales = nullptr;
  int in_channels = 1, out_channels = 1, taps = 1;
};

}  // namespace convt::core::cuda::sm90
