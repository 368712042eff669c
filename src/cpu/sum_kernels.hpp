// SPDX-License-Identifier: Apache-2.0
// The kernels of sums over space, as one table per instruction set and type. They add in double, whatever T is.
#pragma once

#include <cstdint>

namespace convt::core::cpu {

template <class T>
struct SumKernels {
  // Adds `rows` rows of `width` elements, `step` apart, to `width` sums of columns.
  void (*add_rows)(const T* from, std::int64_t rows, std::int64_t step, std::int64_t width, double* sums);
  void (*add_columns)(const double* from, std::int64_t width, double* sums);
  // Adds weights[i] * factors[i % period] to sums[i], i < count. `period` is a multiple of `lanes`.
  void (*add_products)(const T* weights, std::int64_t count, const double* factors, std::int64_t period, double* sums);
  std::int64_t lanes;  // doubles of a vector
};

}  // namespace convt::core::cpu
