// SPDX-License-Identifier: Apache-2.0
// Element types as options name them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "convt/convt.hpp"

namespace convt::cli {

inline constexpr DType all_dtypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16};

// Their names, behind those of `others`.
inline std::vector<std::string> dtype_names(std::vector<std::string> others = {}) {
  for (const DType dtype : all_dtypes) others.push_back(to_string(dtype));
  return others;
}

// Nothing for any other name.
inline std::optional<DType> dtype_named(const std::string& name) {
  for (const DType dtype : all_dtypes)
    if (to_string(dtype) == name) return dtype;
  return std::nullopt;
}

}  // namespace convt::cli
