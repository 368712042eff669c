// SPDX-License-Identifier: Apache-2.0
// Random choices that depend on the seed alone: the standard fixes std::mt19937_64 to the bit, but not its
// distributions, which differ between libraries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <vector>

namespace convt::cli {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  // In [0, count). The modulo favours small values by less than count/2^64.
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(engine_() % count); }
  // In [low, high].
  std::size_t between(std::size_t low, std::size_t high) { return low + below(high - low + 1); }
  bool chance(std::size_t percent) { return below(100) < percent; }

  // Repeat a choice to weight it.
  template <class T>
  T pick(std::initializer_list<T> choices) {
    return choices.begin()[below(choices.size())];
  }
  template <class T>
  const T& pick(const std::vector<T>& choices) {
    return choices[below(choices.size())];
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace convt::cli
