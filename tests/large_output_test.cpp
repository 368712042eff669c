// SPDX-License-Identifier: Apache-2.0
// Outputs past 2^31 elements, on the CPU.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "convt/convt.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CONVT_SANITIZED 1
#endif
#endif

namespace {

// Bytes that the machine can give away now; 0 where it does not say.
std::size_t available() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  for (std::size_t number = 0; file >> word;)
    if (word == "MemAvailable:" && file >> number) return number * 1024;
  return 0;
}

struct Free {
  void operator()(void* data) const { std::free(data); }
};

// Output i is input i/64 times tap i%64, plus 1: every element is known.
TEST(LargeOutput, PastTwoToThe31) {
#ifdef CONVT_SANITIZED
  GTEST_SKIP() << "too slow under a sanitizer";
#endif
  constexpr std::size_t taps = 64, inputs = (std::size_t{1} << 25) + 3, outputs = inputs * taps;
  static_assert(outputs > std::numeric_limits<std::int32_t>::max());
  if (available() < outputs * sizeof(convt_bf16) * 3 / 2)
    GTEST_SKIP() << "needs 6.5 GB of memory, " << available() / 1000000 << " MB are there";
  const std::unique_ptr<convt_bf16, Free> output(static_cast<convt_bf16*>(std::malloc(outputs * sizeof(convt_bf16))));
  ASSERT_NE(output, nullptr);
  std::vector<convt_bf16> input(inputs), kernel(taps);
  for (std::size_t i = 0; i < inputs; ++i) input[i] = convt_bf16_from_double(static_cast<double>(i % 13) - 6);
  for (std::size_t k = 0; k < taps; ++k) kernel[k] = convt_bf16_from_double(static_cast<double>(k % 11) - 5);
  convt_plan* plan = nullptr;
  const std::string text =
      "conv_transpose1d dtype=bf16 channels=1->1 input=" + std::to_string(inputs) + " kernel=64 stride=64 | add(1)";
  convt_plan_options options = CONVT_PLAN_OPTIONS_INIT;
  options.engine = "cpu";
  ASSERT_EQ(convt_plan_create_from_text(&plan, text.c_str(), &options), CONVT_OK) << convt_last_error();
  convt_tensors tensors = CONVT_TENSORS_INIT;
  tensors.input = input.data();
  tensors.kernel = kernel.data();
  tensors.output = output.get();
  EXPECT_EQ(convt_plan_execute(plan, &tensors), CONVT_OK) << convt_last_error();
  convt_plan_destroy(plan);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < outputs; ++i) {
    const int x = static_cast<int>(i / taps % 13) - 6, w = static_cast<int>(i % taps % 11) - 5;
    static const auto expected = [] {  // every product is a small integer: exact
      std::vector<std::uint16_t> table(64);
      for (int sum = -30; sum <= 31; ++sum)
        table[static_cast<std::size_t>(sum + 30)] = convt_bf16_from_double(sum).bits;
      return table;
    }();
    wrong += output.get()[i].bits != expected[static_cast<std::size_t>(x * w + 1 + 30)] ? 1 : 0;
  }
  EXPECT_EQ(wrong, 0U);
}

}  // namespace
