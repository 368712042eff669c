// SPDX-License-Identifier: Apache-2.0
// Work that is made once and enqueued with other addresses.
#include "cuda/common/recording.hpp"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "convt/convt.hpp"
#include "hopper_model/cases.hpp"
#include "hopper_model/contexts.hpp"

namespace convt::core::cuda {
namespace {

struct Params {
  std::uintptr_t first, second;
  std::uint64_t number;
  std::int32_t small, distance;
};
std::vector<Params> enqueued;

// Stands for a launch.
void keep(const StreamWork&, const void* params) { enqueued.push_back(*static_cast<const Params*>(params)); }

void submit_params(const Params& params, unsigned grid = 1) {
  StreamWork work;
  work.enqueue = keep;
  work.how.grid = grid;
  submit(work, &params, sizeof params);
}

using Numbers = std::vector<std::uintptr_t>;

TEST(Recording, FillsInAddresses) {
  enqueued.clear();
  int runs = 0;
  const auto run = [&](Addresses a) {
    ++runs;
    // Numbers that look like the addresses of one recording are none.
    submit_params({a[0] + 40, a[1] - 8, std::uint64_t{0x5a} << 56 | 3, 7, static_cast<int>(a[0] % 16)});
    submit_params({a[3], a[2], std::bit_cast<std::uint64_t>(1e281), -1, 0});
  };
  Recordings recordings;
  for (const std::uintptr_t base : {std::uintptr_t{0x1000}, std::uintptr_t{0x7fffff000}}) {
    const Numbers at{base + 4, base + 256, 0, base + 512};
    const auto recording = recordings.find(at, run);
    ASSERT_NE(recording, nullptr);
    EXPECT_EQ(runs, 2);
    EXPECT_TRUE(enqueued.empty());
    recording->enqueue(at, nullptr);
    ASSERT_EQ(enqueued.size(), 2U);
    EXPECT_EQ(enqueued[0].first, base + 44);
    EXPECT_EQ(enqueued[0].second, base + 248);
    EXPECT_EQ(enqueued[0].number, std::uint64_t{0x5a} << 56 | 3);
    EXPECT_EQ(enqueued[0].small, 7);
    EXPECT_EQ(enqueued[0].distance, 4);
    EXPECT_EQ(enqueued[1].first, base + 512);
    EXPECT_EQ(enqueued[1].second, 0U);
    EXPECT_EQ(enqueued[1].number, std::bit_cast<std::uint64_t>(1e281));
    enqueued.clear();
  }
}

TEST(Recording, DependsOnAlignmentAndNulls) {
  Recordings recordings;
  int runs = 0;
  const auto run = [&](Addresses) { ++runs; };
  const auto find = [&](const Numbers& at) { return recordings.find(at, run); };
  const auto first = find({0x1000, 0x2000});
  EXPECT_EQ(find({0x5010, 0x7770}), first);
  EXPECT_EQ(runs, 2);
  EXPECT_NE(find({0x1004, 0x2000}), first);
  EXPECT_NE(find({0, 0x2000}), first);
  EXPECT_EQ(runs, 6);
  // Those that were there longest go.
  for (std::uintptr_t i = 1; i < 16; ++i) find({i, i});
  EXPECT_EQ(find({0x5010, 0x7770}) == first, false);
}

TEST(Recording, LeavesLongAndUnevenCallsAlone) {
  const Numbers at{0x1000};
  EXPECT_EQ(Recording::make(at,
                            [](Addresses a) {
                              for (std::size_t i = 0; i <= Recording::most_works; ++i)
                                submit_params({a[0], 0, 0, 0, 0});
                            }),
            nullptr);
  EXPECT_EQ(Recording::make(at,
                            [](Addresses a) {
                              submit_params({a[0], 0, 0, 0, 0}, a[0] >> 60 == 5 ? 1 : 2);
                            }),
            nullptr);
  EXPECT_EQ(Recording::make(Numbers(most_addresses + 1, 16), [](Addresses) {}), nullptr);
  EXPECT_EQ(Recording::make(at,
                            [](Addresses a) {
                              submit_params({a[0] + (std::uintptr_t{1} << 45), 0, 0, 0, 0});
                            }),
            nullptr);
  // A call that fails leaves nothing behind.
  EXPECT_THROW(Recording::make(at, [](Addresses) { throw 1; }), int);
  enqueued.clear();
  submit_params({});
  EXPECT_EQ(enqueued.size(), 1U);
}

// Padding is not initialised: it may hold a part of an address that was there before.
TEST(Recording, TakesNoNumberBesidePaddingForAnAddress) {
  for (const int bytes : {1, 2, 4, 6}) {
    const auto run = [&](Addresses a) {
      const std::uint64_t own = (std::uint64_t{1} << 8 * bytes) - 1;
      submit_params({a[1], 0, (a[0] & ~own) | 7, 0, 0});
    };
    enqueued.clear();
    const Numbers at{0x1004, 0x2000};
    const auto recording = Recording::make(at, run);
    ASSERT_NE(recording, nullptr);
    recording->enqueue(at, nullptr);
    ASSERT_EQ(enqueued.size(), 1U);
    EXPECT_EQ(enqueued[0].first, 0x2000U);
    EXPECT_EQ(enqueued[0].number & 0xff, 7U) << bytes;
  }
}

// Plans whose calls lie elsewhere each time, aligned in other ways, packed and not, against the reference.
TEST(Recording, OfPlansServesOtherTensors) {
  constexpr std::size_t room = 1 << 16;
  for (const std::string chain : {" | bias | add(tensor) | tanh", " | bias | add(tensor) | instance_norm | relu"}) {
    const std::string text = "conv_transpose2d batch=2 channels=8->12 input=5x9 kernel=3 stride=2" + chain;
    const Plan expected = Plan::from_text(text, {.engine = "reference"});
    Plan plan = Plan::from_text(text, testing::on_model);
    const auto elements = [](const auto& info) { return info.elements(); };
    const std::size_t sizes[] = {elements(plan.input_info()), elements(plan.kernel_info()),
                                 elements(plan.operand_infos()[0]), elements(plan.operand_infos()[1]),
                                 elements(plan.output_info())};
    float* block = nullptr;
    ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&block), 5 * room * sizeof(float)), cudaSuccess);
    std::minstd_rand random(1);
    for (const std::size_t shift : {0U, 1U, 2U, 0U, 37U, 4096U, 3U}) {
      if (shift == 37) {
        for (std::size_t i = 0; i < sizes[1]; ++i) block[room + i] = static_cast<float>(random() % 17) / 16 - 0.5F;
        plan.pack_kernel(std::span<const float>(block + room, sizes[1]));
      }
      std::vector<float> host[5];
      std::span<float> at[5];
      for (std::size_t t = 0; t < 5; ++t) {
        const bool keeps = t == 1 && shift > 2;  // packed before
        at[t] = {block + t * room + (keeps ? 0 : t == 2 ? 2 * shift : shift), sizes[t]};
        if (t != 4 && !keeps)
          for (float& x : at[t]) x = static_cast<float>(random() % 17) / 16 - 0.5F;
        host[t].assign(at[t].begin(), at[t].end());
      }
      plan.execute<float>({.input = at[0], .kernel = at[1], .output = at[4], .operands = {at[2], at[3]}});
      expected.execute<float>({.input = host[0], .kernel = host[1], .output = host[4], .operands = {host[2], host[3]}});
      for (std::size_t i = 0; i < sizes[4]; ++i) ASSERT_NEAR(at[4][i], host[4][i], 2e-3) << chain << ' ' << shift;
    }
    EXPECT_EQ(cudaFree(block), cudaSuccess);
  }
}

void first_kernel() {}
void second_kernel() {}
std::vector<int> limits;

// A kernel's limit of shared memory is set at its first launch in a context, if that succeeds, and not again.
TEST(Launches, SetTheLimitOfSharedMemoryOnce) {
  const auto limit_at = [](void (*kernel)(), int limit, bool fails = false) {
    StreamWork work;
    work.kernel = kernel;
    work.how.shared_limit = limit;
    work.enqueue = [](const StreamWork& own, const void* params) {
      limits.push_back(own.how.shared_limit);
      if (params != nullptr) throw 1;
    };
    const auto enqueue = [&] { submit(work, fails ? &work : nullptr, 0); };
    if (fails)
      EXPECT_THROW(enqueue(), int);
    else
      enqueue();
    return limits.back();
  };
  for (int context = 0; context < 3; ++context) {
    hopper_model::change_context();
    EXPECT_EQ(limit_at(first_kernel, 1000, true), 1000);
    EXPECT_EQ(limit_at(first_kernel, 1000), 1000);
    EXPECT_EQ(limit_at(second_kernel, 2000), 2000);
    EXPECT_EQ(limit_at(first_kernel, 1000), 0);
    EXPECT_EQ(limit_at(second_kernel, 2000), 0);
    EXPECT_EQ(limit_at(first_kernel, 0), 0);
  }
}

TEST(Launches, OfPlansSetLimitsOnce) {
  const std::string text = "conv_transpose2d dtype=bf16 channels=16->24 input=5x9 kernel=3 stride=2 | bias";
  EXPECT_EQ(testing::defect_of(text, 2, nullptr, {true}), "");
  const int before = hopper_model::limits_set();
  EXPECT_GT(before, 0);
  EXPECT_EQ(testing::defect_of(text, 2, nullptr, {true}), "");
  EXPECT_EQ(hopper_model::limits_set(), before);
  hopper_model::change_context();
  EXPECT_EQ(testing::defect_of(text, 2, nullptr, {true}), "");
  EXPECT_GT(hopper_model::limits_set(), before);
}

}  // namespace
}  // namespace convt::core::cuda
