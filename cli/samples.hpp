// SPDX-License-Identifier: Apache-2.0
// Some outputs of a problem, computed in double: a check for problems that are too large to compute twice.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "convt/convt.hpp"
#include "tensor.hpp"

namespace convt::cli {

// A pixel of the output, with all its channels. Missing axes lead, and are 0.
struct Pixel {
  std::size_t image = 0;
  std::array<std::size_t, 3> at{};
};

// All, where there are no more than `count`. Else the corners of the first and the last image, then as many as there
// are to be: of each axis half of them near an end, and in turn of every phase of the convolution's stride.
std::vector<Pixel> sample_pixels(const Plan& plan, std::size_t count, std::uint64_t seed);

struct Samples {
  std::vector<std::size_t> elements;  // of the output, in memory order
  std::vector<double> values;         // what they are
};

// What the pixels' outputs are. The convolution is computed here, product by product, where the chain needs it; the
// chain then by the reference engine in f64, on those values alone. For channels-first problems whose chain is made of
// ops on pixels and channels and of pools without padding or overlap.
Samples compute_samples(const Plan& plan, const Inputs& inputs, const std::vector<Pixel>& pixels);

}  // namespace convt::cli
