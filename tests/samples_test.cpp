// SPDX-License-Identifier: Apache-2.0
// The outputs that `convt demo` checks: which, and what they are.
#include "samples.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "case_text.hpp"
#include "check.hpp"

namespace convt::cli {
namespace {

TEST(Samples, HaveEveryPhaseAndCorner) {
  for (const char* text : {"conv_transpose1d batch=3 channels=1->2 input=900 kernel=4 stride=3",
                           "conv_transpose2d batch=2 channels=1->2 input=40x7 kernel=3 stride=2x5",
                           "conv_transpose3d batch=2 channels=1->2 input=9 kernel=3 stride=2x3x2 padding=1"}) {
    const Plan plan = Plan::from_text(text);
    const Problem problem = plan.problem();
    const Sizes& shape = plan.output_info().shape;
    std::size_t all_phases = 1;
    for (const std::size_t stride : problem.stride) all_phases *= stride;
    std::set<std::string> phases;
    std::set<std::size_t> images;
    std::vector<std::set<std::size_t>> places(problem.dims);
    std::set<std::pair<std::size_t, std::string>> corners;
    for (const Pixel& pixel : sample_pixels(plan, 500, 1)) {
      std::string phase, corner;
      for (std::size_t i = 0; i < problem.dims; ++i) {
        const std::size_t at = pixel.at[3 - problem.dims + i], size = shape[2 + i];
        ASSERT_LT(at, size);
        phase += std::to_string(at % problem.stride[i]) + " ";
        corner += at == 0 ? "low " : at == size - 1 ? "high " : "no ";
        places[i].insert(at);
      }
      ASSERT_LT(pixel.image, problem.batch_size);
      images.insert(pixel.image);
      phases.insert(phase);
      if (corner.find("no") == std::string::npos) corners.insert({pixel.image, corner});
    }
    EXPECT_EQ(phases.size(), all_phases) << text;
    EXPECT_EQ(images.size(), problem.batch_size) << text;
    for (const std::size_t image : {std::size_t{0}, problem.batch_size - 1})
      EXPECT_EQ(std::count_if(corners.begin(), corners.end(), [&](const auto& one) { return one.first == image; }),
                std::ptrdiff_t{1} << problem.dims)
          << text;
    for (std::size_t i = 0; i < problem.dims; ++i)  // everywhere that the kernel overlaps an end, and in the middle
      for (std::size_t k = 0; k < problem.kernel[i]; ++k) {
        EXPECT_TRUE(places[i].contains(k)) << text;
        EXPECT_TRUE(places[i].contains(shape[2 + i] - 1 - k)) << text;
      }
  }
}

TEST(Samples, AreWhatTheReferenceComputes) {
  for (const char* text :
       {"conv_transpose1d batch=2 channels=4->6 input=9 kernel=4 stride=3 dilation=2 groups=2",
        "conv_transpose2d dtype=bf16 channels=3->5 input=7x4 kernel=3x2 stride=2 output_padding=1 padding=1 | bias | "
        "gelu",
        "conv_transpose3d batch=2 channels=3->4 input=8 kernel=5 stride=2 padding=2 | bias | max_pool(2) | max_pool(3) "
        "| sum",
        "conv_transpose3d channels=3->4 input=4x5x6 kernel=3 stride=2 padding=1 output_padding=1 | add(1) | "
        "layer_norm(channels) | avg_pool(2) | gelu"}) {
    const Plan plan = Plan::from_text(text);
    const Inputs inputs = make_inputs(plan, 7, Fill::signed_unit);
    const Reference reference = run_reference(plan, inputs, plan.problem().batch_size);
    const Samples samples = compute_samples(plan, inputs, sample_pixels(plan, 100, 3));
    ASSERT_EQ(samples.values.size(), std::min<std::size_t>(100 * plan.output_info().shape[1], reference.output.size()));
    for (std::size_t i = 0; i < samples.values.size(); ++i)
      ASSERT_NEAR(samples.values[i], reference.output.at(samples.elements[i]), 1e-12) << text;
  }
}

}  // namespace
}  // namespace convt::cli
