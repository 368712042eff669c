// SPDX-License-Identifier: Apache-2.0
// How schedules cut slabs, for a convolution whose time is known.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/division.hpp"
#include "cuda/schedule/candidate.hpp"
#include "epilogue/text.hpp"
#include "plan/plan.hpp"

namespace convt::core::cuda::schedule {
namespace {

constexpr double round_seconds = 60e-6;
constexpr std::int64_t tile_pixels = 16 * 16 * 16;

// Tiles of 16x16x16 results, each multiprocessor one at a time. It pools by 2 as well, or not.
class Rounds : public Convolver {
 public:
  Rounds(int multiprocessors, bool pools, double packed = 0)
      : multiprocessors_(multiprocessors), pools_(pools), packed_(packed) {}

  std::int64_t mixed_channels() const override { return 64; }
  std::optional<std::size_t> pools(std::size_t, std::size_t pool, std::size_t) const override {
    return pools_ && pool == 0 ? std::optional<std::size_t>(0) : std::nullopt;
  }
  Blocks blocks(const Axes&) const override { return {}; }
  Prediction predict(const PlannedJob& job) const override {
    const std::int64_t tiles = job.images * ceil_div(volume(job.box), tile_pixels);
    Prediction p;
    p.add(Prediction::products, static_cast<double>(ceil_div(tiles, multiprocessors_)) * round_seconds);
    return p;
  }
  std::string explain(const PlannedJob& job) const override {
    return job.pool != PlannedJob::no_pool ? "pools" : "does not pool";
  }
  double packed_bytes() const override { return packed_; }
  void pack(const void*, convt_dtype, void*, cudaStream_t, bool) const override {}
  void convolve(const ConvJob&) const override {}

 private:
  std::int64_t multiprocessors_;
  bool pools_;
  double packed_;
};

DeviceProperties device_of(int multiprocessors) {
  DeviceProperties device;
  device.multiprocessors = multiprocessors;
  device.l2_bytes = 60 << 20;
  device.memory_bytes = std::size_t{140} << 30;
  device.clock = 1.98e9;
  device.bandwidth = 4.8e12;
  return device;
}

std::vector<Candidate> candidates_for(const std::string& text, const std::shared_ptr<const Convolver>& convolver,
                                      int multiprocessors, std::size_t limit = 0) {
  const auto program =
      std::make_shared<const Program>(rewrite(std::make_shared<const Descriptor>(validate(parse_problem(text)))));
  Request request;
  request.program = program;
  request.workspace_limit = limit;
  return candidates_of("rounds", {program}, convolver, device_of(multiprocessors), request);
}
Candidate candidate_for(const std::string& text, int multiprocessors, bool pools, std::size_t limit = 0) {
  return candidates_for(text, std::make_shared<const Rounds>(multiprocessors, pools), multiprocessors, limit).front();
}

std::string details_of(const Candidate& candidate) {
  std::string all;
  for (const std::string& line : candidate.details) all += line + "\n";
  return all;
}

constexpr std::size_t mega = 1 << 20;
// 60x60x60 of the convolution's 63x63x63 are needed: 53 tiles an image. Pooled, they are 6.9 MB.
const std::string pooled =
    "conv_transpose3d batch=16 channels=32->64 input=32 kernel=5 stride=2 padding=2 | max_pool(2) | max_pool(3) | sum";

TEST(Slabs, PassTheCacheWhereThatSavesRounds) {
  // 4 images stay in half of the cache. For 106 multiprocessors they are 2 rounds, and all 16 are 8.
  EXPECT_NE(details_of(candidate_for(pooled, 106, true)).find("slabs of 4 images"), std::string::npos);
  // For 200 they are 2 rounds as well, and all 16 are 5.
  const Candidate whole = candidate_for(pooled, 200, true);
  EXPECT_EQ(details_of(whole).find("slabs of"), std::string::npos) << details_of(whole);
  EXPECT_NE(details_of(whole).find("-> memory ->"), std::string::npos) << details_of(whole);
  EXPECT_GT(whole.workspace, 100 * mega);
}

// Slabs go back into the cache before they shrink further.
TEST(Slabs, KeepToLimits) {
  for (const std::size_t limit : {100 * mega, 40 * mega, 10 * mega, mega}) {
    const Candidate limited = candidate_for(pooled, 200, true, limit);
    EXPECT_EQ(limited.rejection, "");
    EXPECT_LE(limited.workspace, limit);
    EXPECT_NE(details_of(limited).find("slabs of"), std::string::npos) << details_of(limited);
    EXPECT_NE(details_of(limited).find("-> L2 ->"), std::string::npos) << details_of(limited);
  }
  // However many images there are, they take a small share of the memory.
  std::string many = pooled;
  many.replace(many.find("batch=16"), 8, "batch=160000");
  EXPECT_LE(candidate_for(many, 7, true).workspace, (std::size_t{140} << 30) / 200);
}

// An image that passes half of the cache is cut in space where that takes no more rounds: 63x63x63 are 62 tiles, and
// 33x63x63, of which there are two, 32 each.
TEST(Slabs, CutImagesWhereThatTakesNoMoreRounds) {
  const std::string large = "conv_transpose3d channels=32->64 input=32 kernel=5 stride=2 padding=2 | max_pool(3) | sum";
  const Candidate cut = candidate_for(large, 32, false);
  EXPECT_NE(details_of(cut).find("slabs of 1 images x 11x21x21 pixels, 2 per image"), std::string::npos)
      << details_of(cut);
  const Candidate whole = candidate_for(large, 62, false);
  EXPECT_EQ(details_of(whole).find("slabs of"), std::string::npos) << details_of(whole);
}

// Values wait in the output, their statistics in the workspace.
TEST(Flights, OfStatisticsKeepToLimits) {
  const std::string normed =
      "conv_transpose1d dtype=f16 batch=20000 channels=2->16 input=8 kernel=1 | relu | layer_norm(trailing=1)";
  for (const std::size_t limit : {10 * mega, mega}) {
    const Candidate limited = candidate_for(normed, 132, false, limit);
    EXPECT_EQ(limited.rejection, "");
    EXPECT_LE(limited.workspace, limit);
  }
  const std::string many =
      "conv_transpose1d dtype=f16 batch=1000000 channels=8->64 input=8 kernel=1 | relu | layer_norm(trailing=1)";
  EXPECT_LT(candidate_for(many, 132, false).workspace, std::size_t{1} << 30);
}

// Keeps the jobs that it is asked about.
class Asked : public Rounds {
 public:
  Asked() : Rounds(132, false) {}
  Prediction predict(const PlannedJob& job) const override {
    jobs.push_back(job);
    return Rounds::predict(job);
  }
  mutable std::vector<PlannedJob> jobs;
};

// 16 images of 64 channels and 62^2 results.
const std::string layer = "conv_transpose2d batch=16 channels=8->64 input=60 kernel=3";
constexpr double results = 16.0 * 64 * 62 * 62, memory_rate = 0.8 * 4.8e12;

TEST(Predictions, CountWhatTensorsTake) {
  const double alone = candidate_for(layer, 132, false).seconds;
  const double with_tensor = candidate_for(layer + " | add(tensor)", 132, false).seconds;
  EXPECT_NEAR(with_tensor - alone, 4 * results / memory_rate, 1e-7);
  const double halved = candidate_for(layer + " dtype=bf16 | add(tensor, dtype=f32)", 132, false).seconds;
  const double halved_alone = candidate_for(layer + " dtype=bf16", 132, false).seconds;
  EXPECT_NEAR(halved - halved_alone, 4 * results / memory_rate, 1e-7);
}

TEST(Predictions, CountPackingAndConstants) {
  const auto seconds = [](const std::string& chain, double packed) {
    return candidates_for(layer + chain, std::make_shared<const Rounds>(132, false, packed), 132).front().seconds;
  };
  EXPECT_NEAR(seconds("", 1e8) - seconds("", 0), 1e8 / memory_rate, 1e-7);
  // Constants of a linear step take a launch; a step without constants takes none.
  EXPECT_NEAR(seconds(" | bias", 0) - seconds("", 0), launch_seconds, 1e-8);
  EXPECT_NEAR(seconds(" | relu", 0) - seconds("", 0), 0, 1e-8);
}

// Steps of a strip take their time, and those that read kept values the bytes of these.
TEST(Predictions, GrowWithTheStepsOfAStage) {
  const std::string pooled = layer + " | max_pool(3, stride=1, padding=1)";
  const auto seconds = [&](const std::string& chain) { return candidate_for(pooled + chain, 132, false).seconds; };
  EXPECT_GT(seconds(" | softmax | softmax"), seconds(" | softmax") + 1.5 * results / (132 * 1.98e9));
  EXPECT_GE(seconds(" | tanh | sigmoid | tanh | sigmoid | tanh | sigmoid | tanh | sigmoid | tanh"), seconds(" | tanh"));
}

TEST(Predictions, SayWhatBinds) {
  const std::string slow = details_of(candidate_for(layer, 2, false));
  EXPECT_NE(slow.find("bound by products; microseconds, which overlap: products "), std::string::npos) << slow;
  const std::string fast = details_of(candidate_for(layer + " | max_pool(3) | tanh | add(1)", 1000000, false));
  EXPECT_NE(fast.find("bound by products"), std::string::npos) << fast;
  const std::string tiny =
      details_of(candidate_for("conv_transpose1d channels=1->1 input=1 kernel=1 | softmax | "
                               "instance_norm | softmax | instance_norm | max_pool(1) | tanh | "
                               "instance_norm | bias | sigmoid | batch_norm(affine) | instance_norm",
                               132, false));
  EXPECT_NE(tiny.find("bound by"), std::string::npos) << tiny;
}

// A convolver learns which steps its launch runs, and where their results go.
TEST(Predictions, AskForTheJobThatRuns) {
  const auto asked = [](const std::string& chain) {
    const auto convolver = std::make_shared<Asked>();
    candidates_for(layer + chain, convolver, 132);
    return convolver->jobs.front();
  };
  const PlannedJob direct = asked(" layout=channels_first->channels_last | bias | tanh");
  EXPECT_EQ(direct.begin, 0U);
  EXPECT_EQ(direct.end, 2U);
  EXPECT_EQ(direct.to.step.c, 1);
  EXPECT_EQ(direct.to.step.w, 64);
  const PlannedJob staged = asked(" dtype=bf16 | relu | max_pool(2) | tanh");
  EXPECT_EQ(staged.end, 1U);
  EXPECT_EQ(staged.pool, PlannedJob::no_pool);
  EXPECT_EQ(staged.to.dtype, CONVT_BF16);
  EXPECT_EQ(staged.to.step.w, 1);
  EXPECT_EQ(staged.to.step.c, 62 * 62);
  const PlannedJob normed = asked(" dtype=bf16 | tanh | instance_norm");
  EXPECT_EQ(normed.end, 1U);
  EXPECT_EQ(normed.to.step.c, 62 * 62);
}

}  // namespace
}  // namespace convt::core::cuda::schedule
