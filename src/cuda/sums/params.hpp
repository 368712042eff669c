// SPDX-License-Identifier: Apache-2.0
// Parameters of the kernels of sums, by value.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/chain/span.hpp"

namespace convt::core::cuda::sums {

// One axis of the input. The inputs that a tap takes to the output are a box. Segments begin where the box of some tap
// begins or ends.
struct Axis {
  static constexpr int most_taps = 32, most_segments = 16;
  int taps = 1, segments = 1;
  int size = 1;                      // inputs
  int ends[most_segments + 1] = {};  // the first input of each segment, then the end of the last
  unsigned char first[most_taps] = {}, last[most_taps] = {};  // the segments of a tap: [first, last)
};
inline constexpr int most_cells = 1024;  // cells (segments of three axes), and taps of a kernel

struct BoxParams {
  const void* input = nullptr;
  convt_dtype dtype = CONVT_F32;
  std::int64_t n = 0, c = 0, d = 0, h = 0;  // elements from one image, channel, plane and row to the next
  int images = 1, channels = 1;
  Axis axis[3];
  double* sums = nullptr;  // [image][channel][tap]
};

struct PackParams {
  const void* kernel = nullptr;
  convt_dtype dtype = CONVT_F32;
  void* weights = nullptr;  // of type T: [output channel][input channel of its group][tap]
  int outs = 1, depth = 1;  // output and input channels of a group
  int groups = 1;
  Axis axis[3];  // taps that take no input get the weight 0
};

struct ProductParams {
  const void* weights = nullptr;
  const double* sums = nullptr;
  double factor = 1;
  int outs = 1, depth = 1, groups = 1, taps = 1;
  int first = 0, images = 1;  // the images of `results` to which `sums` belong
  SpanParams results;         // one pixel for each image and channel
};

void launch_boxes(const BoxParams& params, cudaStream_t stream);
template <class T>
void launch_pack(const PackParams& params, cudaStream_t stream);
template <class T>
void launch_products(const ProductParams& params, cudaStream_t stream);

}  // namespace convt::core::cuda::sums
