// SPDX-License-Identifier: Apache-2.0
// Makes the parameters of the chain's kernels from a program's steps and a call's pointers.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>

#include "cuda/chain/params.hpp"
#include "plan/passes.hpp"

namespace convt::core::cuda {

// What one launch works on: a box of space in some images.
struct Slab {
  Interval images;
  Box box;
};

// What a step reads beside the running value, for one call. Constants are in the workspace and have type T.
struct StepData {
  void *a = nullptr, *b = nullptr;           // of an Affine, by channel
  void *centre = nullptr, *scale = nullptr;  // of a norm over space, by image and region
  std::int64_t first_image = 0;              // the image with which `centre` and `scale` begin
  const void* conv = nullptr;                // the convolution's own result in this slab, dense in `conv_box`
  Box conv_box{};
  const void* kept = nullptr;  // the kept value that the step uses, dense in `kept_box`; null: it is in registers
  Box kept_box{};
  convt_dtype kept_type = CONVT_F32;
};

// The strides of a tensor of the whole problem, in either layout. within: the channels of a wider tensor of which it is
// a range; 0: it is no range.
Strides strides_of(convt_layout layout, const Shape& shape, std::int64_t within = 0);
// The strides of values that are dense in a slab's box: [image][channel][pixel].
Strides dense_strides(std::int64_t channels, const Box& box);
// The strides of a value that is broadcast from one shape to another: 0 along axes where it has one element.
Strides broadcast(Strides step, const Shape& from, const Shape& to);
// From a tensor's first element to a slab's first element. first_image: the tensor's first image.
std::int64_t offset_of(const Strides& step, const Slab& slab, std::int64_t first_image = 0);
// The slab's part of a tensor.
View view_of(void* data, convt_dtype dtype, const Strides& step, const Slab& slab, std::int64_t first_image = 0);

// Binds a step that works pixel by pixel to a slab of its values.
ChainStep bind_step(const Program& program, std::size_t step, const Call& call, const StepData& data, const Slab& slab);
// Whether a step mixes the channels of a pixel.
bool mixes_channels(const Step& step);

// Binds a pool to a box of its inputs and a box of its results.
PoolParams bind_pool(const Step& step, const Box& in, const Box& out);

// Regions of a norm over space, or of a pool over the whole image, in values that are dense in the slab's box. `sums`
// are of the whole image.
struct RegionSums {
  const void* values = nullptr;
  std::int64_t image_step = 0;
  void *partials = nullptr, *sums = nullptr;
  std::int64_t element = 1;      // bytes of a sum
  std::int64_t first_image = 0;  // the image with which `sums` begin
  bool first = true;             // no slab was added before
};
RegionParams bind_regions(const Step& step, const RegionSums& sums, const Slab& slab);
std::int64_t region_count(const Step& step);                     // of one image
std::int64_t partial_count(const Step& step, const Slab& slab);  // for a slab

// Binds the kernel that turns the sums of `count` regions into centres and scales, or into a whole-image pool's
// results.
FinishParams bind_finish(const Step& step, const void* sums, std::int64_t count);

// Evaluates an Affine's constants on the stream. `lines`: 2 doubles per channel of its first part.
struct AffinePlaces {
  double* lines;
  void *a, *b;
};
template <class T>
void evaluate_affine(const Program& program, const Affine& affine, const Call& call, const AffinePlaces& places);

}  // namespace convt::core::cuda
