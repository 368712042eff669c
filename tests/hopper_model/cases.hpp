// SPDX-License-Identifier: Apache-2.0
// One case on the model of the hardware (machine.hpp), against the reference.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convt/convt.hpp"

namespace convt::testing {

inline const std::string engine_name = "cuda-sm90";
inline const PlanOptions on_model{.device = Device::cuda, .engine = engine_name};

inline const std::vector<bool> both_schedules = {true, false};  // whether they are late

// "", or what is wrong.
std::string defect_of(const std::string& text, std::uint64_t seed, double* error = nullptr,
                      const std::vector<bool>& schedules = both_schedules);

// The same on another engine, by one schedule.
std::string engine_defect_of(const std::string& engine, const std::string& text, std::uint64_t seed);

inline const std::vector<std::string> modes = {"dtype=f32 precision=tf32", "dtype=f16", "dtype=bf16"};

// "2d channels=8->8 ..." in one of them.
std::string in_mode(const std::string& shape, const std::string& mode);

// Names of all tiles that a plan would have.
std::vector<std::string> tiles_of(const std::string& text);

// Names of all candidates that the plan's engine accepts.
std::vector<std::string> candidates_of(const std::string& text);
// What the plan's explanation says of a candidate: "accepts, ..." or "rejects: ..."; "" if there is none of that name.
std::string verdict_of(const std::string& text, const std::string& candidate);

}  // namespace convt::testing
