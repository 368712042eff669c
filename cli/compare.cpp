// SPDX-License-Identifier: Apache-2.0
#include "compare.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "print.hpp"

namespace convt::cli {
namespace {

// Position in a tensor, as "n,c,...".
std::string position(std::size_t element, const Sizes& shape) {
  Sizes index(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0; element /= shape[axis]) index[axis] = element % shape[axis];
  return joined(index, ",");
}

double largest_of(std::span<const double> values) {
  double largest = 0;
  for (const double value : values)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  return largest;
}

// |a - b|; 0 and infinity for the special values that match and those that do not.
double difference(double a, double b, double limit) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b) ? 0 : infinity;
  if (std::isinf(b)) return a == b ? 0 : infinity;
  return std::abs(std::clamp(a, -limit, limit) - std::clamp(b, -limit, limit));
}

}  // namespace

Tolerance tolerance_of(DType dtype, Float32Precision precision) {
  const bool tf32 = precision == Float32Precision::tf32;
  switch (dtype) {
    case DType::f64:
      return {.of_largest = 1e-12, .limit = std::numeric_limits<double>::max(), .unit = 0x1p-53};
    case DType::f32:
      return {.of_largest = tf32 ? 2e-3 : 1e-5,
              .limit = std::numeric_limits<float>::max(),
              .unit = tf32 ? 0x1p-11 : 0x1p-24};
    case DType::f16:
      return {.of_largest = 1e-5, .of_element = 0x1p-10, .absolute = 0x1p-24, .limit = 65504, .unit = 0x1p-24};
    case DType::bf16:
      break;
  }
  return {.of_largest = 1e-5, .of_element = 0x1p-7, .limit = 0x1.fep127, .unit = 0x1p-24};
}

Comparison compare(std::span<const double> got, std::span<const double> expected, const Sizes& shape,
                   const Tolerance& tolerance, double scale, std::span<const std::size_t> elements) {
  Comparison result;
  if (got.size() != expected.size())
    return {.ok = false, .text = formatted("has {} elements, expected {}", got.size(), expected.size())};
  result.largest = largest_of(expected);
  const double common = tolerance.of_largest * std::max(result.largest, scale) + tolerance.absolute;
  std::size_t wrong = 0, first = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (tolerance.any_for_nan && std::isnan(expected[i])) continue;
    if (!tolerance.doubtful.empty() && tolerance.doubtful[i]) continue;
    const double off = difference(got[i], expected[i], tolerance.limit);
    if (std::isfinite(off)) result.error = std::max(result.error, off);
    const double allowed = std::isfinite(expected[i]) ? common + tolerance.of_element * std::abs(expected[i]) : 0;
    if (off <= allowed) continue;
    if (wrong++ == 0) first = i;
  }
  if (result.largest > 0) result.error /= result.largest;
  if (wrong == 0) return result;
  result.ok = false;
  result.text = formatted("[{}] is {:.9g}, expected {:.9g}; {} of {} elements are wrong, error {:.3g} of the largest",
                          position(elements.empty() ? first : elements[first], shape), got[first], expected[first],
                          wrong, got.size(), result.error);
  return result;
}

}  // namespace convt::cli
