// SPDX-License-Identifier: Apache-2.0
#include "plan/taps.hpp"

#include <numeric>
#include <utility>

namespace convt::core {
namespace {

// x with a*x = 1 (mod m), for a and m without a common divisor.
std::int64_t inverse_of(std::int64_t a, std::int64_t m) {
  std::int64_t r = m, next_r = a % m, x = 0, next_x = 1;
  while (next_r != 0) {
    const std::int64_t q = r / next_r;
    r = std::exchange(next_r, r - q * next_r);
    x = std::exchange(next_x, x - q * next_x);
  }
  return (x % m + m) % m;
}

}  // namespace

TapAxis tap_axis(std::int64_t kernel, std::int64_t stride, std::int64_t dilation) {
  const std::int64_t common = std::gcd(stride, dilation);
  return {kernel,
          stride,
          dilation,
          common,
          stride / common,
          dilation / common,
          inverse_of(dilation / common, stride / common)};
}

}  // namespace convt::core
