// SPDX-License-Identifier: Apache-2.0
// Does an engine compute a case right?
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compare.hpp"
#include "convt/convt.hpp"
#include "tensor.hpp"

namespace convt::cli {

// The oracle of a case: the reference engine in f64, channels-first.
struct Reference {
  Problem problem;
  Inputs inputs;
  std::vector<double> output;
};

// For the first `images` of a plan's inputs.
Reference run_reference(const Plan& plan, const Inputs& inputs, std::size_t images);

struct CaseReport {
  std::string defect;  // "": the case passed
  std::string engine;
  DType dtype = DType::f32;
  double error = 0;  // largest |a - b| over largest |b|
};

// Draws data from the seed, and from the seed too whether the kernel is packed, who supplies the workspace and how
// tensors are aligned. Checks, for the engine that `options` choose:
//   - the case against the reference engine in f64, whose layout is always channels-first;
//   - its convolution alone against gather_convolution(), so that a mistake of the reference shows as well;
//   - that all of the output is written, and nothing else.
// The tolerance is that of tolerance_of(), and what rounding errors may grow to in this chain: some chains (a norm of
// values that are almost equal) are ill-conditioned. Throws what Plan's constructors throw.
// On a GPU everything is ordered by `stream`.
CaseReport check_case(const std::string& text, std::uint64_t seed, const PlanOptions& options, void* stream = nullptr);

}  // namespace convt::cli
