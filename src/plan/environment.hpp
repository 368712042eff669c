// SPDX-License-Identifier: Apache-2.0
// The environment variables that planning depends on. Whoever reads one reads it here: the plan cache's keys hold all.
#pragma once

#include <cstdlib>
#include <string_view>

namespace convt::core {

// "" where a variable is not set. The views last until somebody changes the environment.
struct Environment {
  std::string_view engine;  // CONVT_ENGINE, of plans whose options name none
  std::string_view isa;     // CONVT_ISA, of the CPU engine
  std::string_view tile;    // CONVT_TILE, of the Hopper engine
  std::string_view tf32;    // CONVT_TF32, of tensor cores: "native" keeps f16 from taking the place of tf32
  std::string_view ieee;    // CONVT_IEEE, of GPUs: "plain" keeps tensor cores from computing float32
};

inline Environment environment() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string_view() : std::string_view(value);
  };
  return {variable("CONVT_ENGINE"), variable("CONVT_ISA"), variable("CONVT_TILE"), variable("CONVT_TF32"),
          variable("CONVT_IEEE")};
}

}  // namespace convt::core
