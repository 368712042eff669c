// SPDX-License-Identifier: Apache-2.0
// What tests of the CPU's kernels share.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "cpu/isa.hpp"

namespace convt::core::cpu {

// Calls f(isa, T()) for every instruction set that this machine has, and each type computed in.
template <class F>
void for_each_isa(F f) {
  for (const Isa& isa : isas())
    if (isa.runs_here()) {
      SCOPED_TRACE(isa.name);
      f(isa, float());
      f(isa, double());
    }
}

// The same numbers every run.
inline std::mt19937& engine() {
  static std::mt19937 engine(7);
  return engine;
}
inline std::int64_t draw(std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(engine());
}
template <class T>
std::vector<T> random_values(std::int64_t count, double low = -3, double high = 3) {
  std::uniform_real_distribution<double> distribution(low, high);
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values) value = static_cast<T>(distribution(engine()));
  return values;
}

}  // namespace convt::core::cpu
