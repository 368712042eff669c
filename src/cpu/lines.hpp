// SPDX-License-Identifier: Apache-2.0
// Constants of an Affine step, evaluated in double, on their way to the type computed in.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace convt::core::cpu {

// Whether T holds a number that came as a double: not past its largest, and not rounded to nothing, or to few digits.
template <class T>
bool holds(double number) {
  const double size = std::abs(number);
  return size <= static_cast<double>(std::numeric_limits<T>::max()) &&
         (size == 0 || size >= static_cast<double>(std::numeric_limits<T>::min()));
}

// y = a*x + b of every channel as T. Where it does not hold some a or b, as products of several operands can be, the
// step is computed in double: `wide` then has all a and then all b.
template <class T>
struct Lines {
  T *a = nullptr, *b = nullptr;
  double* wide = nullptr;

  // Whether they are wide.
  bool fill(std::span<const double> from_a, std::span<const double> from_b) const {
    const auto narrow = [](double number) { return static_cast<T>(number); };
    std::transform(from_a.begin(), from_a.end(), a, narrow);
    std::transform(from_b.begin(), from_b.end(), b, narrow);
    const bool all = std::all_of(from_a.begin(), from_a.end(), holds<T>) &&
                     std::all_of(from_b.begin(), from_b.end(), [](double number) {
                       return std::abs(number) <= static_cast<double>(std::numeric_limits<T>::max());
                     });
    if (all) return false;
    std::copy(from_a.begin(), from_a.end(), wide);
    std::copy(from_b.begin(), from_b.end(), wide + from_a.size());
    return true;
  }
};

}  // namespace convt::core::cpu
