// SPDX-License-Identifier: Apache-2.0
// Parameters of kernels: tensors and steps of a chain, by value. T is the type that is computed in: double for f64,
// float for every other element type. Indices are relative to a slab, that is, a box of space in some images. Large
// offsets are in the pointers, so that 32 bits suffice for indices.
#pragma once

#include <cstdint>

#include "convt/convt.h"
#include "cuda/common/block.hpp"
#include "epilogue/value.hpp"

namespace convt::core::cuda {

// Elements from one image, channel, plane, row and pixel to the next.
struct Strides {
  std::int64_t n = 0, c = 0, d = 0, h = 0, w = 0;
};

// A tensor from the slab's first image and pixel on.
struct View {
  void* data = nullptr;  // not written if it is an input
  Strides step;
  convt_dtype dtype = CONVT_F32;
};

// A pixel of a slab. n < 0: no pixel; the last strip may have such entries.
struct Pixel {
  int n, d, h, w;
};

// Bytes of shared memory that a strip of pixels (chain/strip.cuh) needs beside its values.
template <class T>
CONVT_FN constexpr int strip_shared(int pixels) {
  return pixels * static_cast<int>(sizeof(Pixel)) + (2 * block_threads + 2 * pixels) * static_cast<int>(sizeof(T));
}

// The data members of an op. Its index in ops.def says which op they belong to.
template <int size>
struct OpBytes {
  alignas(8) unsigned char bytes[size];
};

// A step that works pixel by pixel.
struct ChainStep {
  enum Kind : int {
    affine,           // a[c]*x + b[c]
    pointwise,        // an op of that family
    combine,          // with a tensor
    map_channels,     // a norm over channels
    reduce_channels,  // to one channel
    map_space,        // a norm over space, with its statistics, then perhaps a weight and a bias
  };
  Kind kind = affine;
  int op = 0;                  // index in ops.def
  OpBytes<40> params{};        // affine: a Line (plan/algebra.hpp) with what planning knows of a and b
  const void* data[2] = {};    // affine: a, b; combine: the tensor, or null for its number; map_space: centre, scale
  Strides step;                // combine, map_space: of `data` (map_space: c counts regions of channels)
  const void* weight[2] = {};  // map_space: weight, bias
  Strides weight_step;
  convt_dtype dtype = CONVT_F32;  // combine: the tensor's; map_space: weight's and bias'
  int channels_each = 1;          // map_space: channels of a region
};

struct Chain {
  static constexpr int most_steps = 16;  // of a launch, whose parameters have at most 4 KiB
  int count = 0;
  ChainStep steps[most_steps];
};

// One axis of a pool, for a slab of its results.
struct PoolAxis {
  std::int64_t start = 0;  // of the first window, in the image; windows are `stride` apart
  std::int64_t stride = 1, size = 1, in = 1, padding = 0;
  std::int64_t origin = 0;  // of the box that holds the pool's inputs
};
struct PoolParams {
  int op = -1;  // index in ops.def; -1: no pool
  bool whole_window = false;
  OpBytes<112> params{};
  PoolAxis axis[3];
};

// A chain on values of a slab, which may be pooled first.
struct ChainParams {
  View from, to;
  PoolParams pool;
  int size[3] = {1, 1, 1};  // of the slab's box, after the pool
  int images = 1, channels = 1;
  int strip_channels = 1;  // of one strip: all channels, if steps mix channels
  int strip_pixels = 1;    // a power of 2, at most 256
  void* strips = nullptr;  // strips in global memory, one per block, if shared memory is too small
  Chain chain;
};

// Some consecutive parts of an Affine (plan/program.hpp).
struct AffineParams {
  struct Part {
    enum Role : int { combine, norm, norm_given, reduction };
    Role role = combine;
    int op = 0;
    OpBytes<40> params{};
    double factor = 1;  // of a reduction
    const void* operands[4] = {};
    convt_dtype dtypes[4] = {};
    int operand_count = 0;
  };
  static constexpr int most_parts = 24;
  int count = 0;
  int channels = 1;  // of the first part
  bool first = true, last = true;
  double* lines = nullptr;          // a and b of each channel, kept between runs
  void *a = nullptr, *b = nullptr;  // of type T, written by the last launch
  Part parts[most_parts];
};

// Statistics of a region of a norm, or of a part of it: the number of elements, their mean, the sum of squared
// deviations.
struct Moments {
  double count, centre, total;
};

// Regions of a norm over space, or channels of a pool over the whole image, in values that are dense within a slab's
// box: [image][region][element]. They are cut into chunks; a warp takes one.
struct RegionParams {
  static constexpr int chunk = 4096;
  const void* values = nullptr;
  std::int64_t image_step = 0;   // elements
  std::int64_t elements = 1;     // of a region, in the box
  int chunks = 1;                // of a region
  int images = 1, channels = 1;  // regions of channels
  int size[3] = {1, 1, 1};       // of the box along axes that separate regions; 1 along the others
  Strides step;                  // between regions of the whole image
  void* partials = nullptr;      // Moments, or doubles: [image][region][chunk]
  void* sums = nullptr;          // [image][region of the whole image], from the slab's first image and region on
  bool first = true;             // sums hold nothing yet
  int op = 0;
  OpBytes<112> params{};
};

// Turns sums of regions into a norm's statistics, or into a pool's results.
struct FinishParams {
  const void* sums = nullptr;
  std::int64_t count = 0;
  double elements = 1;                       // what a pool's op divides by
  std::int64_t each = 1, step = 1;           // results of an image; from one image's results to the next
  void *first = nullptr, *second = nullptr;  // T: centre and scale, or results
  int op = 0;
  OpBytes<112> params{};
};

}  // namespace convt::core::cuda
