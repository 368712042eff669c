// SPDX-License-Identifier: Apache-2.0
// When a result counts as right.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "convt/convt.hpp"

namespace convt::cli {

// A result a is right where the exact value is b when
//   |a - b| <= of_largest * (largest |b| of the tensor) + of_element * |b| + absolute.
// NaN equals NaN alone; an infinity equals itself, or what lies beyond `limit`. Where b is NaN and `any_for_nan`, every
// a is right.
struct Tolerance {
  double of_largest = 0;
  double of_element = 0;
  double absolute = 0;
  double limit = 0;  // the dtype's largest finite number
  bool any_for_nan = false;
  std::vector<bool> doubtful{};  // elements for which anything is right; none where it is empty

  double unit = 0;  // roundoff of the arithmetic: half the gap after 1
};

// f64: 1e-12 of the largest. f32: 1e-5 of it; 2e-3 where TF32 products are allowed. f16, bf16: accumulated as f32 and
// rounded once, so 1e-5 of the largest and 1 to 2 units in the last place of the element.
Tolerance tolerance_of(DType dtype, Float32Precision precision);

struct Comparison {
  bool ok = true;
  double error = 0;    // largest |a - b| where both are finite, over largest |b|
  double largest = 0;  // |b| that is finite
  std::string text;    // what is wrong, for people; "" when ok
};

// `shape` says how to name an element. The largest |b| counts as at least `scale`. Where not all elements of the tensor
// are given, `elements` says which.
Comparison compare(std::span<const double> got, std::span<const double> expected, const Sizes& shape,
                   const Tolerance& tolerance, double scale = 0, std::span<const std::size_t> elements = {});

}  // namespace convt::cli
