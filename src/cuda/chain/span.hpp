// SPDX-License-Identifier: Apache-2.0
// Spans: runs of pixels that are contiguous in memory, which chains of steps that see one element each process 16 bytes
// at a time. Norms over space with contiguous regions take one launch for their statistics and everything after them.
#pragma once

#include <cstdint>

#include "cuda/chain/params.hpp"
#include "cuda/common/launch.hpp"
#include "epilogue/families.hpp"

namespace convt::core::cuda {

// A tensor whose pixels are contiguous within a channel, or share one element.
struct SpanView {
  void* data = nullptr;
  convt_dtype dtype = CONVT_F32;
  bool along = true;          // pixels are contiguous
  std::int64_t n = 0, c = 0;  // elements from one image to the next, and from one channel to the next
};

struct SpanStep {
  ChainStep::Kind kind = ChainStep::affine;  // neither map_channels nor reduce_channels
  int op = 0;
  OpBytes<40> params{};
  SpanView data;                 // affine: a; combine: the operand, or none if the op has a number; map_space: centres
  const void* second = nullptr;  // affine: b; map_space: scales
  int channels_each = 1;         // map_space: channels of a region
  int inner = 0;                 // map_space: pixels of a region in one channel
  const void* weight[2] = {};    // map_space: weight and bias, by pixel of the region
  std::int64_t weight_c = 0;     // map_space: from one channel's weights to the next
};
struct SpanChain {
  int count = 0;
  SpanStep steps[Chain::most_steps];
};

struct SpanParams {
  SpanView from, to;
  int images = 1, channels = 1, pixels = 1;
  SpanChain chain;
};

// Division of ints that are not negative by a positive int, in two instructions: x * times / 2^(31 + shift).
struct FastDivisor {
  std::uint32_t times = std::uint32_t{1} << 31, shift = 0;

  FastDivisor() = default;
  explicit FastDivisor(std::int64_t by) {
    while (std::int64_t{1} << shift < by) ++shift;
    times = static_cast<std::uint32_t>(((std::uint64_t{1} << (31 + shift)) - 1) / static_cast<std::uint64_t>(by) + 1);
  }
  // by: the same divisor.
  CONVT_FN int quotient(int x, std::int64_t) const {
    return static_cast<int>(std::uint64_t{2 * static_cast<std::uint32_t>(x)} * times >> 32 >> shift);
  }
  CONVT_FN std::int64_t quotient(std::int64_t x, std::int64_t by) const { return x / by; }
};

// A norm over space and the steps after it. `from` is dense within an image; region r of an image begins at element
// r * elements.
struct NormaliseParams {
  SpanParams span;            // its first step is the norm, unless it only measures
  std::int64_t elements = 1;  // of a region
  std::int64_t regions = 1;   // of an image
  double each = 1;            // 1 / elements, set by launch_normalise()
  double eps = 0;
  bool small = false;  // indices of regions, chunks and an image's elements are ints. Set by launch_normalise()
  FastDivisor regions_divisor, pixels_divisor, chunks_divisor;
  bool applies = true;  // false: only centres and scales are computed
  // [image][region], of type T.
  void *centre = nullptr, *scale = nullptr;
  int lanes = 0;  // lanes that share a region; 0: a block does
  // For regions that are cut into chunks.
  int chunks = 1;            // of a region
  void* partials = nullptr;  // Moments: [image][region][chunk]
  int* counters = nullptr;   // the next item; then, for each image and region, the number of measured chunks
  int lag = 0;               // items between measuring a chunk and normalising it
};

// A pool, and the chain on its results.
struct PoolSpanParams {
  struct Axis {
    int start = 0, stride = 1, size = 1;  // of windows; `start` is counted in the box of inputs
    int begin = 0, end = 1;               // of the image, counted in the box of inputs
    int padding = 0;
    int out = 1;  // windows
  };
  SpanParams span;            // of results, but `from` is of inputs
  std::int64_t d = 0, h = 0;  // of inputs: elements from one plane to the next, and from one row to the next
  Axis axis[3];
  int op = 0;
  bool whole_window = false;
  OpBytes<112> params{};
};

// Makes spans of a slab's chain; returns whether it can run as spans.
bool make_spans(const ChainParams& params, SpanParams& spans);

// make_spans() for a chain after a pool.
bool make_pool_spans(const ChainParams& params, PoolSpanParams& spans);

// The number of chunks of a norm's region: 1 if a block can hold all elements.
std::int64_t chunks_of(std::int64_t elements, convt_dtype dtype);

template <class T>
void launch_spans(const SpanParams& params, cudaStream_t stream);
template <class T>
void launch_pool(const PoolSpanParams& params, cudaStream_t stream);
// Sets what does not depend on the tensors, `lanes`, `chunks` and `lag`, and clears the counters.
template <class T>
void launch_normalise(NormaliseParams params, int multiprocessors, cudaStream_t stream);

}  // namespace convt::core::cuda
