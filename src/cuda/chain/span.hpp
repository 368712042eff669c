// SPDX-License-Identifier: Apache-2.0
// Chains of steps that see one element each, over tensors whose pixels follow each other in memory: 16 bytes at a time.
// Norms over space whose regions follow each other likewise: moments and everything behind them in one launch.
#pragma once

#include <cstdint>

#include "cuda/chain/params.hpp"
#include "cuda/common/launch.hpp"
#include "epilogue/families.hpp"

namespace convt::core::cuda {

// One image's channels and pixels, by the image and the channel; pixels follow each other, or all share one element.
struct SpanView {
  void* data = nullptr;
  convt_dtype dtype = CONVT_F32;
  bool along = true;          // pixels follow each other
  std::int64_t n = 0, c = 0;  // elements from one image, and one channel, to the next
};

struct SpanStep {
  ChainStep::Kind kind = ChainStep::affine;  // neither map_channels nor reduce_channels
  int op = 0;
  OpBytes<40> params{};
  SpanView data;                 // combine: without data, the op's number; map_space: centres, by region
  const void* second = nullptr;  // affine: b (data has a); map_space: scales
  int channels_each = 1;         // map_space: channels of a region, ...
  int inner = 0;                 // ... and its pixels of one channel
  const void* weight[2] = {};    // map_space: weight and bias, by pixel of the region
  std::int64_t weight_c = 0;     // and by channel
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

// A norm over space and what follows it. Region r of an image is elements [r, r + 1) * elements of `from`, which is
// dense within an image.
struct NormaliseParams {
  SpanParams span;            // its first step is the norm, unless it only measures
  std::int64_t elements = 1;  // of a region
  std::int64_t regions = 1;   // of an image
  double eps = 0;
  bool applies = true;  // else centres and scales are all that is wanted
  // By image and region: centre and scale, of type T.
  void *centre = nullptr, *scale = nullptr;
  int lanes = 0;  // that share a region; 0: a block's threads
  // Where a region is more than a block's: the chunks' moments, and counters.
  int chunks = 1;            // of a region
  void* partials = nullptr;  // Moments, by image, region and chunk
  int* counters = nullptr;   // the next item, then the chunks measured of each image and region
  int lag = 0;               // items between measuring a chunk and normalising it
};

// A pool of values, and the chain behind it on its results.
struct PoolSpanParams {
  struct Axis {
    int start = 0, stride = 1, size = 1;  // of the first window, in the box of inputs, and from one to the next
    int begin = 0, end = 1;               // the image, in the box
    int padding = 0;
    int out = 1;  // windows
  };
  SpanParams span;            // from: images and channels of inputs; the rest is of results
  std::int64_t d = 0, h = 0;  // elements from one plane, and one row, of inputs to the next
  Axis axis[3];
  int op = 0;
  bool whole_window = false;
  OpBytes<112> params{};
};

// A slab's chain as spans; whether it is one. Places are by the slab's box.
bool make_spans(const ChainParams& params, SpanParams& spans);

// The same behind a pool.
bool make_pool_spans(const ChainParams& params, PoolSpanParams& spans);

// Chunks of a norm's region of so many elements of this type: 1 where a block has all of it in registers.
std::int64_t chunks_of(std::int64_t elements, convt_dtype dtype);

template <class T>
void launch_spans(const SpanParams& params, cudaStream_t stream);
template <class T>
void launch_pool(const PoolSpanParams& params, cudaStream_t stream);
// Sets `lanes`, `chunks` and `lag`, and clears the counters.
template <class T>
void launch_normalise(NormaliseParams params, int multiprocessors, cudaStream_t stream);

}  // namespace convt::core::cuda
