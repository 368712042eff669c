// SPDX-License-Identifier: Apache-2.0
// The kernels, as one table per instruction set and type. What each does is said here; how, in src/cpu/simd.
#pragma once

#include <span>

#include "cpu/tile.hpp"

namespace convt::core::cpu {

// What to read of an image: channels [first_channel, first_channel + channels) of a box that may reach outside the
// image, where zeros are read. Element (c, d, h, w) of the box goes to
// to[c*channel_step + d*plane_step + h*row_step + w].
struct Window {
  std::int64_t first_channel = 0, channels = 0;
  Box box;
  std::int64_t channel_step = 0, plane_step = 0, row_step = 0;
};

// A tile broadcast to a box: element (c, d, h, w) of the box is data[c*channel_step + d*plane_step + h*row_step + w],
// or, where a row has one element, without w.
template <class T>
struct Broadcast {
  const T* data = nullptr;
  std::int64_t channel_step = 0, plane_step = 0, row_step = 0;
  bool one_in_row = false;
};

// Images are stored as T is computed for: f32, f16 and bf16 for float; f64, and f32 operands, for double.
template <class T>
struct ChainKernels {
  // Nothing between or behind the rows is written.
  void (*read)(const ImageView& image, const Window& window, T* to);
  // The tile into its place in the image, rounded once to the image's element type.
  void (*write)(const Tile<T>& tile, const ImageView& image);
  // Steps that work pixel by pixel (Affine, Pointwise, Combine, norms and reductions over channels, norms over space
  // whose statistics are given), in place. A reduction leaves its result in channel 0, and the steps behind it see one
  // channel. `conv` has the convolution's own result, in the same box, for Combine steps that use it; kept values are
  // in their steps, in the same box too. The tile has all channels of the image, unless no step mixes channels. With
  // `to`, the result goes there as by write(), and what is in the tile then is of no use.
  void (*run)(std::span<const BoundStep<T>> steps, const Tile<T>& tile, const Tile<T>& conv, const ImageView* to);
  // One pool: from.box holds every pixel inside the image that the windows of to.box cover.
  void (*pool)(const Step& step, const Tile<T>& from, const Tile<T>& to);
  // A pool over the whole image: the fold of this tile's pixels, one per channel of the tile. Folds of several tiles
  // are joined by join(), and result() makes the pool's value of `count` pixels.
  void (*fold)(const Step& step, const Tile<T>& tile, T* folded);
  void (*join)(const Step& step, const T* other, T* folded, std::int64_t channels);
  void (*result)(const Step& step, T* folded, std::int64_t channels, double count);
  // A norm over space: moments of the tile's share of each region it touches. Regions are numbered within the tile:
  // (c/channels_each) * (product of the box's sizes of the first `axes` axes) + row-major index in those. The tile's
  // first channel begins a region, its last ends one.
  void (*measure)(const BoundStep<T>& step, const Tile<T>& tile, Moments* moments);
  // A Combine of the running value with another one, for every element of a tile that is neither.
  void (*expand)(const Step& step, const Broadcast<T>& x, const Broadcast<T>& other, const Tile<T>& to);
};

// Steps of depth that the product looks ahead.
inline constexpr int gemm_ahead = 8;

// A product: rows of packed weights, [depth][rows], with vectors of the input at x + starts[i] + offsets[k], i <
// vectors and k < depth, into c[row*c_step + i*lanes].
template <class T>
struct Gemm {
  const T* x = nullptr;
  const std::int32_t* starts = nullptr;
  std::int64_t vectors = 0;
  const std::int32_t* offsets = nullptr;  // with gemm_ahead more behind the last, of places that may be read
  std::int64_t depth = 0;
  const T* w = nullptr;
  int rows = 0;  // at most ConvKernels::most_rows
  T* c = nullptr;
  std::int64_t c_step = 0;
  bool accumulate = false;  // add to what c holds
};

// Rows of positions, one source per phase of W, to rows of outputs. Output x of a row is in phase p = (x + lead) %
// phases and comes from from[p*phase_step + row*from_step + position], where the position counts from the phase's own
// first output in the row or, if the phases have their positions in common, is (x + lead) / phases. The same for every
// channel, `from` and `to` moved on by their channels' steps.
template <class T>
struct Interleave {
  std::int64_t channels = 1, from_channel = 0, to_channel = 0;
  const T* from = nullptr;
  std::int64_t phases = 1, phase_step = 0, lead = 0;
  bool common = false;
  bool stream = false;  // past the caches
  std::int64_t rows = 0, from_step = 0;
  T* to = nullptr;
  std::int64_t to_step = 0, width = 0;
  T* scratch = nullptr;  // of 4*lanes elements
};

// Short rows, gathered to one dense run: element x of row y of plane p of image i comes from
// from[i*image_step + p*plane_step + y*row_step + x].
template <class T>
struct Gather {
  const T* from = nullptr;
  std::int64_t images = 1, image_step = 0;
  std::int64_t planes = 1, plane_step = 0;
  std::int64_t rows = 1, row_step = 0;
  std::int64_t width = 0;
  T* to = nullptr;  // up to lanes - 1 elements behind the run are overwritten
};

// Rows of a kernel, of some input channels, to packed weights: tap t of row r of channel c, at
// from[c*channel_step + r*taps + t], to places[t].at[c*places[t].step + r].
template <class T>
struct PackTaps {
  struct Place {
    T* at;
    std::int64_t step;
  };
  const T* from = nullptr;
  std::int64_t channels = 0, channel_step = 0, rows = 0, taps = 0;
  const Place* places = nullptr;
};

template <class T>
struct ConvKernels {
  int lanes, most_rows;
  int most_vectors[16];  // of a block, by its rows
  void (*gemm)(const Gemm<T>&);
  void (*interleave)(const Interleave<T>&);
  void (*gather)(const Gather<T>&);
  bool (*pack_taps)(const PackTaps<T>&);  // whether all of it is finite
  void (*flush)();                        // behind it, other threads see what was streamed before
};

}  // namespace convt::core::cpu
