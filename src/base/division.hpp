// SPDX-License-Identifier: Apache-2.0
// Divisions that round one way, whatever the sign of a; b is positive.
#pragma once

#include <cstdint>

namespace convt::core {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a > 0 ? (a - 1) / b + 1 : a / b; }
constexpr std::int64_t floor_div(std::int64_t a, std::int64_t b) { return -ceil_div(-a, b); }

}  // namespace convt::core
