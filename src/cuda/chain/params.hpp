// SPDX-License-Identifier: Apache-2.0
// What kernels are told about tensors and steps of a chain, by value. T is the type computed in: double for f64, float
// for every other element type. Places are counted within a slab: a box of one image's space, for some images; whatever
// is large has gone into the pointers, so that 32 bits do inside.
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

// A tensor, from the slab's first image and pixel on.
struct View {
  void* data = nullptr;  // not written through where it is an input
  Strides step;
  convt_dtype dtype = CONVT_F32;
};

// A pixel of a slab. n < 0: none, a place in a strip that is left over.
struct Pixel {
  int n, d, h, w;
};

// Bytes of shared memory that a strip of pixels (chain/strip.cuh) needs beside its values.
template <class T>
CONVT_FN constexpr int strip_shared(int pixels) {
  return pixels * static_cast<int>(sizeof(Pixel)) + (2 * block_threads + 2 * pixels) * static_cast<int>(sizeof(T));
}

// An op's data members, by whatever type; its math is chosen by its place in ops.def.
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
  int op = 0;                  // its place in ops.def
  OpBytes<40> params{};        // affine: what planning knows, a Line (plan/algebra.hpp)
  const void* data[2] = {};    // affine: a, b; combine: the tensor, or null for its number; map_space: centre, scale
  Strides step;                // combine, map_space (c: from one region of channels to the next)
  const void* weight[2] = {};  // map_space: weight, bias
  Strides weight_step;
  convt_dtype dtype = CONVT_F32;  // combine: the tensor's; map_space: weight's and bias'
  int channels_each = 1;          // map_space: channels of one region
};

struct Chain {
  static constexpr int most_steps = 16;  // of one launch: parameters are at most 4 KiB
  int count = 0;
  ChainStep steps[most_steps];
};

// One axis of a pool, seen from a slab of its results.
struct PoolAxis {
  std::int64_t start = 0;  // of the first window, in the image; windows are `stride` apart
  std::int64_t stride = 1, size = 1, in = 1, padding = 0;
  std::int64_t origin = 0;  // of the box that holds the pool's inputs
};
struct PoolParams {
  int op = -1;  // its place in ops.def; -1: there is none
  bool whole_window = false;
  OpBytes<112> params{};
  PoolAxis axis[3];
};

// Values of a slab, perhaps pooled, through a chain.
struct ChainParams {
  View from, to;
  PoolParams pool;
  int size[3] = {1, 1, 1};  // of the slab's box, behind the pool
  int images = 1, channels = 1;
  int strip_channels = 1;  // of one strip: all of them where steps mix channels
  int strip_pixels = 1;    // a power of 2, at most 256
  void* strips = nullptr;  // in global memory, one per block, where shared memory is too small
  Chain chain;
};

// One run of parts of an Affine; see plan/program.hpp.
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
  int channels = 1;  // of its first part
  bool first = true, last = true;
  double* lines = nullptr;          // a and b of each channel, kept between runs
  void *a = nullptr, *b = nullptr;  // of type T, written by the last run
  Part parts[most_parts];
};

// Statistics of one region of a norm, or a part of it: elements, their mean, the sum of their squared deviations.
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
  int size[3] = {1, 1, 1};       // of the box along axes that tell regions apart; 1 along the others
  Strides step;                  // regions of the whole image: from one to the next
  void* partials = nullptr;      // Moments, or doubles: [image][region][chunk]
  void* sums = nullptr;          // by image and region of the whole image, from the slab's first on
  bool first = true;             // sums hold nothing yet
  int op = 0;
  OpBytes<112> params{};
};

// Sums of regions to a norm's statistics, or to a pool's results.
struct FinishParams {
  const void* sums = nullptr;
  std::int64_t count = 0;
  double elements = 1;                       // that a pool's op divides by
  std::int64_t each = 1, step = 1;           // results of one image, and from one image to the next
  void *first = nullptr, *second = nullptr;  // T: centre and scale, or results
  int op = 0;
  OpBytes<112> params{};
};

}  // namespace convt::core::cuda
