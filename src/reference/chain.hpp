// SPDX-License-Identifier: Apache-2.0
// One op on one image of doubles, by family.
#pragma once

#include <cstdint>
#include <span>

#include "base/dtype.hpp"
#include "problem/descriptor.hpp"

namespace convt::core {

// A chain operand, read as doubles from whatever it is stored as.
struct OperandView {
  const void* data = nullptr;
  convt_dtype dtype = CONVT_F32;
  // Element (channel, pixel) of a whole tensor lies at channel*channel_step + pixel*pixel_step; others use at().
  std::int64_t channel_step = 0, pixel_step = 0;

  double at(std::int64_t index) const {
    return visit_dtype(dtype, [&]<class T>(T*) { return to_double(static_cast<const T*>(data)[index]); });
  }
  double at(std::int64_t channel, std::int64_t pixel) const { return at(channel * channel_step + pixel * pixel_step); }
};

struct Image {
  const double* value;  // the running value, [channel][pixel]
  const double* other;  // what the stage uses of what was kept, where it does
  std::span<const OperandView> operands;
  double* result;
  Shape other_shape{};
};

void run_stage(const Stage& stage, const Image& image);

}  // namespace convt::core
