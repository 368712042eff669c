// SPDX-License-Identifier: Apache-2.0
// Memory that runs out at any moment: the n-th allocation of a call fails, for every n. The call says so, has written
// nothing and lost nothing, and the next one is right.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "convt/convt.h"
#include "support/golden.hpp"

namespace {

std::atomic<long> left{-1};  // allocations until one fails; below 0: none does
std::atomic<long> alive{0};  // blocks that operator new gave
std::atomic<bool> failed{false};

bool fails() {
  if (left.load(std::memory_order_relaxed) < 0) return false;
  const long before = left.fetch_sub(1, std::memory_order_relaxed);
  if (before == 0) failed.store(true, std::memory_order_relaxed);
  return before == 0;
}

void* allocate(std::size_t size, std::size_t alignment) {
  if (fails()) return nullptr;
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  void* const data = alignment <= alignof(std::max_align_t) ? std::malloc(size == 0 ? 1 : size)
                                                            : std::aligned_alloc(alignment, rounded);
  if (data != nullptr) alive.fetch_add(1, std::memory_order_relaxed);
  return data;
}
void* allocate_or_throw(std::size_t size, std::size_t alignment) {
  void* const data = allocate(size, alignment);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}
void release(void* data) {
  if (data == nullptr) return;
  alive.fetch_sub(1, std::memory_order_relaxed);
  std::free(data);
}
constexpr std::size_t usual = alignof(std::max_align_t);

}  // namespace

// The library's too: it takes them from whoever the program does.
void* operator new(std::size_t size) { return allocate_or_throw(size, usual); }
void* operator new[](std::size_t size) { return allocate_or_throw(size, usual); }
void* operator new(std::size_t size, std::align_val_t a) {
  return allocate_or_throw(size, static_cast<std::size_t>(a));
}
void* operator new[](std::size_t size, std::align_val_t a) {
  return allocate_or_throw(size, static_cast<std::size_t>(a));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size, usual); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return allocate(size, usual); }
void operator delete(void* data) noexcept { release(data); }
void operator delete[](void* data) noexcept { release(data); }
void operator delete(void* data, std::size_t) noexcept { release(data); }
void operator delete[](void* data, std::size_t) noexcept { release(data); }
void operator delete(void* data, std::align_val_t) noexcept { release(data); }
void operator delete[](void* data, std::align_val_t) noexcept { release(data); }
void operator delete(void* data, std::size_t, std::align_val_t) noexcept { release(data); }
void operator delete[](void* data, std::size_t, std::align_val_t) noexcept { release(data); }

namespace convt::testing {
namespace {

// A call whose n-th allocation fails.
template <class F>
convt_status failing(long n, const F& call) {
  failed = false;
  left = n;
  const convt_status status = call();
  left = -1;
  return status;
}

// Calls `body` for the first allocation, the second, and so on until none fails any more; it returns a status.
template <class Body>
void with_failures(const Body& body) {
  for (long n = 0;; ++n) {
    ASSERT_LT(n, 100000);
    const long before = alive.load();
    const convt_status status = body(n);
    if (!failed) {
      EXPECT_EQ(status, CONVT_OK) << convt_last_error();
      EXPECT_GT(n, 0) << "no allocation was seen";
      return;
    }
    ASSERT_EQ(status, CONVT_OUT_OF_MEMORY) << "allocation " << n << ": " << convt_last_error();
    ASSERT_EQ(alive.load(), before) << "allocation " << n << " failed, and something was lost";
  }
}

struct Case {
  std::string text;
  convt_plan* plan = nullptr;
  std::vector<Buffer> inputs;
  std::vector<const void*> operands;
  convt_tensor_info output{};

  explicit Case(const std::string& of) : text(of) {
    EXPECT_EQ(convt_plan_create_from_text(&plan, text.c_str(), nullptr), CONVT_OK) << convt_last_error();
    const GoldenCase data{1, "signed", text, {}};
    convt_tensor_info info;
    convt_plan_input_info(plan, &info);
    inputs.push_back(golden_tensor(data, 0, info));
    convt_plan_kernel_info(plan, &info);
    inputs.push_back(golden_tensor(data, 1, info));
    for (std::size_t i = 0; i < convt_plan_operand_count(plan); ++i) {
      convt_plan_operand_info(plan, i, &info);
      inputs.push_back(golden_tensor(data, 2 + i, info));
    }
    for (std::size_t i = 2; i < inputs.size(); ++i) operands.push_back(inputs[i].data());
    convt_plan_output_info(plan, &output);
  }
  Case(const Case&) = delete;
  ~Case() { convt_plan_destroy(plan); }

  Buffer poisoned() const {
    Buffer to(output.dtype, element_count(output));
    std::memset(to.data(), 0x5a, to.storage.size() * sizeof to.storage[0]);
    return to;
  }
  convt_status execute(Buffer& to) const {
    convt_tensors tensors = CONVT_TENSORS_INIT;
    tensors.input = inputs[0].data();
    tensors.kernel = inputs[1].data();
    tensors.output = to.data();
    tensors.operands = operands.data();
    tensors.operand_count = operands.size();
    return convt_plan_execute(plan, &tensors);
  }
};

class Allocation : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { convt_set_num_threads(3); }
  void TearDown() override { convt_set_num_threads(0); }
};
INSTANTIATE_TEST_SUITE_P(
    Problems, Allocation,
    ::testing::Values(
        "conv_transpose2d batch=2 channels=16->24 input=9 kernel=3 stride=2 | bias | gelu",
        "conv_transpose2d channels=8->8 input=12 kernel=3 | instance_norm(affine=true) | max_pool(2) | mul(channel)",
        "conv_transpose1d dtype=bf16 channels=64->64 input=5 kernel=4 stride=2 layout=channels_last",
        "conv_transpose2d channels=32->64 input=4 kernel=4 stride=4 | add(tensor)",
        "conv_transpose3d dtype=f64 channels=4->6 groups=2 input=4 kernel=3 | sum | mul(0.5)"));

TEST_P(Allocation, OfAPlan) {
  with_failures([&](long n) {
    convt_plan* plan = nullptr;
    const convt_status status =
        failing(n, [&] { return convt_plan_create_from_text(&plan, GetParam().c_str(), nullptr); });
    EXPECT_EQ(status == CONVT_OK, plan != nullptr);
    convt_plan_destroy(plan);
    return status;
  });
}

TEST_P(Allocation, OfAnExplanation) {
  const Case one(GetParam());
  const char* text = nullptr;
  with_failures([&](long n) {
    return failing(n, [&] {
      text = convt_plan_explain(one.plan);
      return text != nullptr ? CONVT_OK : CONVT_OUT_OF_MEMORY;
    });
  });
  ASSERT_NE(text, nullptr);
  EXPECT_NE(std::strstr(text, "chosen"), nullptr);
}

TEST_P(Allocation, OfAnExecution) {
  const Case one(GetParam());
  Buffer expected = one.poisoned();
  ASSERT_EQ(one.execute(expected), CONVT_OK);
  with_failures([&](long n) {
    Buffer output = one.poisoned();
    const Buffer before = output;
    const convt_status status = failing(n, [&] { return one.execute(output); });
    EXPECT_TRUE(status == CONVT_OK || output.storage == before.storage) << "something was written";
    Buffer again = one.poisoned();
    EXPECT_EQ(one.execute(again), CONVT_OK);
    EXPECT_EQ(again.storage, expected.storage) << "the next call is wrong";
    return status;
  });
}

// Execution is what it was before, packed or not.
TEST_P(Allocation, OfAPackedKernel) {
  const Case one(GetParam());
  Buffer expected = one.poisoned();
  ASSERT_EQ(one.execute(expected), CONVT_OK);
  convt_status status = CONVT_OUT_OF_MEMORY;
  for (long n = 0; status != CONVT_OK; ++n) {
    ASSERT_LT(n, 100000);
    status = failing(n, [&] { return convt_plan_pack_kernel(one.plan, one.inputs[1].data(), nullptr); });
    ASSERT_TRUE(status == CONVT_OK || status == CONVT_OUT_OF_MEMORY) << convt_last_error();
    Buffer again = one.poisoned();
    ASSERT_EQ(one.execute(again), CONVT_OK);
    ASSERT_EQ(again.storage, expected.storage);
  }
}

TEST(Allocations, OfDescriptions) {
  with_failures([](long n) {
    return failing(n, [] {
      convt_op_description op;
      return convt_op_describe(3, &op);
    });
  });
  with_failures([](long n) {
    return failing(n, [] {
      convt_named_problem_description named;
      return convt_named_problem_describe(1, &named);
    });
  });
}

}  // namespace
}  // namespace convt::testing
