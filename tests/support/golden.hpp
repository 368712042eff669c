// SPDX-License-Identifier: Apache-2.0
// The golden cases of tests/golden: how their data are made and their results compared. generate.py makes the same data
// in Python; what the two share is written in tests/golden/README.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convt/convt.h"

namespace convt::testing {

struct GoldenCase {
  std::uint64_t seed;
  std::string fill;
  std::string text;
  std::vector<double> expected;  // float64, in the output's memory order
};

// Where they are: what the environment variable CONVT_GOLDEN_DIR says or, without it, in the source tree.
std::string golden_folder();

// Every case of the folder; throws when a file is missing or their lengths disagree.
std::vector<GoldenCase> load_golden(const std::string& folder);

// A tensor of raw elements.
struct Buffer {
  convt_dtype dtype;
  std::vector<std::uint64_t> storage;  // 8-byte aligned
  std::size_t count;

  Buffer(convt_dtype dtype, std::size_t count);
  void* data() { return storage.data(); }
  const void* data() const { return storage.data(); }
  double get(std::size_t i) const;
  void set(std::size_t i, double value);  // rounds to nearest
};

// Tensor `index` of a case: 0 input, 1 kernel, 2 + i operand i.
Buffer golden_tensor(const GoldenCase& golden, std::size_t index, const convt_tensor_info& info);

// What an engine may be off by.
struct Tolerance {
  double f64, f32;   // of the largest magnitude that is expected
  double small;      // the same for f16 and bf16,
  int ulps;          // or this many units in the last place
  bool any_for_nan;  // where NaN is expected, anything will do
};
// Accumulates in doubles and rounds once.
inline constexpr Tolerance of_reference{1e-12, 1e-6, 1e-12, 1, false};
// Accumulates in the type of the tensors, or in floats for 16 bits.
inline constexpr Tolerance of_engine{1e-11, 1e-5, 1e-5, 1, false};

// "" or what is wrong: the first element out of tolerance.
std::string compare(const Buffer& got, const std::vector<double>& expected, const Tolerance& tolerance);

std::size_t element_count(const convt_tensor_info& info);

}  // namespace convt::testing
