// SPDX-License-Identifier: Apache-2.0
// The data that kernels work on: tensors in the caller's memory, and tiles of them in cache. T is the type computed in:
// double for f64, float for every other element type.
#pragma once

#include <cstdint>

#include "base/dtype.hpp"
#include "base/extents.hpp"
#include "plan/passes.hpp"
#include "plan/program.hpp"

namespace convt::core::cpu {

template <class T>
inline constexpr convt_dtype real_dtype = sizeof(T) == sizeof(double) ? CONVT_F64 : CONVT_F32;

// One image of a tensor in the caller's memory.
struct ImageView {
  void* data = nullptr;  // of this image; not written through where it is an operand
  convt_dtype dtype = CONVT_F32;
  convt_layout layout = CONVT_CHANNELS_FIRST;
  std::int64_t channels = 0;
  Axes space{1, 1, 1};
  bool stream = false;      // written past the caches: nobody reads it soon
  std::int64_t within = 0;  // channels of the tensor in memory, where `channels` are a range of them; 0: they are all

  // Channels last: elements from pixel to pixel.
  std::int64_t pixel_step() const { return within == 0 ? channels : within; }
};

// Channels [first_channel, first_channel + channels) of a box of one image: element (c, pixel) at
// data[c*channel_step + pixel], where c counts from first_channel and pixels are row-major in the box. Any place and
// step will do; best, data and every channel begin a cache line, and channels are no multiple of 4 KiB apart: a channel
// norm of 64 channels then takes 2 ns per 16 floats, with channels across lines 3, a multiple of 4 KiB apart 7.
template <class T>
struct Tile {
  T* data = nullptr;
  std::int64_t channel_step = 0;
  std::int64_t first_channel = 0, channels = 0;
  Box box;
};

// Statistics of one region of a norm, or a part of it.
struct Moments {
  double count = 0, centre = 0, total = 0;  // elements, their mean, the sum of their squared deviations from it
};
// Of two parts together.
Moments merge(const Moments& a, const Moments& b);

// A step with the operands of one call and one image.
template <class T>
struct BoundStep {
  const Step* step = nullptr;
  const T* a = nullptr;  // Affine: one per channel of the image; Combine with a channel: its values
  const T* b = nullptr;
  const double* wide = nullptr;                 // Affine: where T does not hold them, a and then b of every channel
  ImageView tensor{};                           // Combine with a tensor
  Tile<T> kept{};                               // Combine with a kept value, of the running value's box
  const T *weight = nullptr, *bias = nullptr;   // affine of a norm over trailing axes, over those axes, row-major
  Regions regions{};                            // norms over space
  const T *centre = nullptr, *scale = nullptr;  // their statistics, by region
};

}  // namespace convt::core::cpu
