// SPDX-License-Identifier: Apache-2.0
#include "hopper_model/cases.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

#include "check.hpp"
#include "hopper_model/machine.hpp"
#include "support/environment.hpp"

namespace convt::testing {

std::string defect_of(const std::string& text, std::uint64_t seed, double* error, const std::vector<bool>& schedules) {
  for (const bool late : schedules) {
    hopper_model::set_schedule({late, seed});
    std::string defect;
    try {
      const cli::CaseReport report = cli::check_case(text, seed, on_model);
      defect = report.engine == engine_name ? report.defect : "it ran on " + report.engine;
      if (error != nullptr) *error = std::max(*error, report.error);
    } catch (const Error& failure) {
      defect = failure.what();
    }
    if (!defect.empty()) return (late ? "late: " : "early: ") + defect;
  }
  return "";
}

// The convolution alone, which is checked too, is none of its cases.
const std::string sums_engine = "cuda-sums";

std::string engine_defect_of(const std::string& engine, const std::string& text, std::uint64_t seed) {
  hopper_model::set_schedule({seed % 2 == 0, seed});
  const cli::CaseReport report =
      cli::check_case(text, seed, {.device = Device::cuda, .engine = engine == sums_engine ? "" : engine});
  return report.engine == engine ? report.defect : "it ran on " + report.engine;
}

std::string in_mode(const std::string& shape, const std::string& mode) {
  return "conv_transpose" + shape.substr(0, 2) + " " + mode + shape.substr(2);
}

// What a plan explains names them, if one is asked for that there is not.
std::vector<std::string> tiles_of(const std::string& text) {
  const WithVariable all("CONVT_TILE", "none");
  std::istringstream lines(Plan::from_text(text, {.device = Device::cuda}).explain());
  std::vector<std::string> tiles;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string engine, tile;
    words >> engine >> tile;
    if (engine == engine_name && line.find("CONVT_TILE asks") != std::string::npos) tiles.push_back(tile);
  }
  return tiles;
}

namespace {

// Rows of an explanation's part "engines": a name, spaces, a verdict.
std::vector<std::pair<std::string, std::string>> verdicts_of(const std::string& text) {
  std::istringstream lines(Plan::from_text(text, {.device = Device::cuda}).explain());
  std::vector<std::pair<std::string, std::string>> verdicts;
  for (std::string line; std::getline(lines, line);)
    for (const std::string verb : {" accepts, ", " rejects: "})
      if (const std::size_t at = line.find(verb); at != std::string::npos && line.starts_with("  ")) {
        const std::size_t end = line.find_last_not_of(' ', at);
        verdicts.emplace_back(line.substr(2, end - 1), line.substr(at + 1));
      }
  return verdicts;
}

}  // namespace

std::vector<std::string> candidates_of(const std::string& text) {
  std::vector<std::string> names;
  for (const auto& [name, verdict] : verdicts_of(text))
    if (verdict.starts_with("accepts")) names.push_back(name);
  return names;
}

std::string verdict_of(const std::string& text, const std::string& candidate) {
  for (const auto& [name, verdict] : verdicts_of(text))
    if (name == candidate) return verdict;
  return "";
}

}  // namespace convt::testing
