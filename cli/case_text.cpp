// SPDX-License-Identifier: Apache-2.0
#include "case_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iostream>
#include <sstream>
#include <utility>

namespace convt::cli {
namespace {

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

// "a->b", or one value for both.
std::pair<std::string, std::string> both(const std::string& value) {
  const std::size_t arrow = value.find("->");
  if (arrow == std::string::npos) return {value, value};
  return {value.substr(0, arrow), value.substr(arrow + 2)};
}

std::size_t to_size(const std::string& text) { return std::stoull(text); }

Sizes to_sizes(const std::string& text) {
  Sizes sizes;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, 'x');) sizes.push_back(to_size(part));
  return sizes;
}

Layout to_layout(const std::string& text) {
  return text == "channels_last" ? Layout::channels_last : Layout::channels_first;
}

void set_field(Problem& problem, const std::string& key, const std::string& value) {
  for (const auto& [name, sizes] : {std::pair{"input", &problem.input},
                                    {"kernel", &problem.kernel},
                                    {"stride", &problem.stride},
                                    {"padding", &problem.padding},
                                    {"output_padding", &problem.output_padding},
                                    {"dilation", &problem.dilation}})
    if (key == name) *sizes = to_sizes(value);
  if (key == "batch") problem.batch_size = to_size(value);
  if (key == "groups") problem.groups = to_size(value);
  if (key == "precision") problem.precision = value == "tf32" ? Float32Precision::tf32 : Float32Precision::ieee;
  if (key == "channels") {
    problem.in_channels = to_size(both(value).first);
    problem.out_channels = to_size(both(value).second);
  }
  if (key == "layout") {
    problem.input_layout = to_layout(both(value).first);
    problem.output_layout = to_layout(both(value).second);
  }
}

}  // namespace

Problem problem_of(const Plan& plan) {
  const std::string text = plan.text();
  const std::size_t bar = text.find('|');
  Problem problem;
  problem.dims = plan.input_info().shape.size() - 2;
  problem.dtype = plan.output_info().dtype;
  if (bar != std::string::npos) problem.chain = trimmed(text.substr(bar + 1));
  std::istringstream fields(text.substr(0, bar));
  for (std::string field; fields >> field;)
    if (const std::size_t equals = field.find('='); equals != std::string::npos)
      set_field(problem, field.substr(0, equals), field.substr(equals + 1));
  return problem;
}

std::vector<std::string> split_chain(const std::string& chain) {
  std::vector<std::string> ops;
  std::istringstream parts(chain);
  for (std::string op; std::getline(parts, op, '|');) ops.push_back(trimmed(op));
  return ops;
}

std::string join_sizes(const Sizes& sizes) { return fmt::format("{}", fmt::join(sizes, "x")); }

std::vector<GivenCase> expand_cases(const std::vector<std::string>& arguments) {
  std::vector<GivenCase> cases;
  for (const std::string& argument : arguments) {
    if (argument != "-") {
      cases.push_back({argument});
      continue;
    }
    std::string line;
    for (std::size_t number = 1; std::getline(std::cin, line); ++number)
      if (const std::string text = trimmed(line); !text.empty() && text[0] != '#') cases.push_back({line, number});
  }
  if (cases.empty()) throw Error(Status::invalid_argument, "standard input has no case");
  return cases;
}

}  // namespace convt::cli
