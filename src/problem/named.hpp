// SPDX-License-Identifier: Apache-2.0
// The named problems: each is one row, a parameter list and a chain. Engines never see their names.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "problem/problem.hpp"

namespace convt::core {

struct NamedProblem {
  std::string_view slug;
  std::size_t dims;
  std::string_view parameters;  // the C functions' sizes in order, then their scalars, separated by spaces
  std::string_view chain;       // a scalar's name stands where its value goes
  std::span<const std::string_view> operands = {};  // the C functions' names of the chain's operands
  std::string_view benchmark;                       // the fields of a case: the benchmark's
  std::string_view demo;  // the same with batch and image reduced, so that the reference executor takes a second
  double scalar = 0;      // value of the scalar in benchmark and demo
};

std::span<const NamedProblem> named_problems();
const NamedProblem& named_problem(std::string_view slug);  // one that exists

// The row with its parameters filled in; `sizes` in the row's order. Whoever has no scalar ignores it.
Problem instantiate(const NamedProblem& row, std::span<const std::size_t> sizes, double scalar);

// A whole case: the row's `benchmark` or `demo` fields and its chain with the example scalar in it.
std::string example_case(const NamedProblem& row, std::string_view fields);

}  // namespace convt::core
