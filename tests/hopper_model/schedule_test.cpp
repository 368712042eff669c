// SPDX-License-Identifier: Apache-2.0
// How schedules cut slabs, for a convolution whose time is known.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

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
  Rounds(int multiprocessors, bool pools) : multiprocessors_(multiprocessors), pools_(pools) {}

  std::int64_t mixed_channels() const override { return 64; }
  std::optional<std::size_t> pools(std::size_t, std::size_t pool, std::size_t) const override {
    return pools_ && pool == 0 ? std::optional<std::size_t>(0) : std::nullopt;
  }
  Blocks blocks(const Axes&) const override { return {}; }
  double seconds(std::int64_t images, const Axes& box, bool) const override {
    const std::int64_t tiles = images * ceil_div(volume(box), tile_pixels);
    return static_cast<double>(ceil_div(tiles, multiprocessors_)) * round_seconds;
  }
  std::string explain(bool pools) const override { return pools ? "pools" : "does not pool"; }
  double packed_bytes() const override { return 0; }
  void pack(const void*, convt_dtype, void*, cudaStream_t, bool) const override {}
  void convolve(const ConvJob&) const override {}

 private:
  std::int64_t multiprocessors_;
  bool pools_;
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

Candidate candidate_for(const std::string& text, int multiprocessors, bool pools, std::size_t limit = 0) {
  const auto program =
      std::make_shared<const Program>(rewrite(std::make_shared<const Descriptor>(validate(parse_problem(text)))));
  Request request;
  request.program = program;
  request.workspace_limit = limit;
  const auto convolver = std::make_shared<const Rounds>(multiprocessors, pools);
  return candidate_of("rounds", {program, convolver, device_of(multiprocessors), Between::store, 0, 0}, request);
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

}  // namespace
}  // namespace convt::core::cuda::schedule
