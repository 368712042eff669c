// SPDX-License-Identifier: Apache-2.0
// Every tensor and the workspace between pages that may not be touched: once each begins right behind one, and once
// each ends right before one, aligned to its elements and no more. A read outside, too, ends the test.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "convt/convt.hpp"
#include "execution.hpp"
#include "random_case.hpp"
#include "runs.hpp"
#include "support/environment.hpp"
#include "support/isas.hpp"
#include "tensor.hpp"

namespace convt::cli {
namespace {

enum class At { begin, end };

class Guarded {
 public:
  Guarded(std::size_t bytes, std::size_t alignment, At at) : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    const std::size_t inside = (bytes + page_ - 1) / page_ * page_;
    size_ = inside + 2 * page_;
    void* const all = mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) throw std::bad_alloc();
    all_ = static_cast<std::byte*>(all);
    if (inside != 0) mprotect(all_ + page_, inside, PROT_READ | PROT_WRITE);
    data_ = at == At::begin ? all_ + page_ : all_ + page_ + (inside - bytes) / alignment * alignment;
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { munmap(all_, size_); }

  std::byte* data() const { return data_; }
  // Whole pages of [begin, end) may not be touched either. Returns how many.
  std::size_t close(std::size_t begin, std::size_t end) const {
    const auto offset = static_cast<std::size_t>(data_ - all_);
    const std::size_t first = (offset + begin + page_ - 1) / page_ * page_, last = (offset + end) / page_ * page_;
    if (first >= last) return 0;
    mprotect(all_ + first, last - first, PROT_NONE);
    return (last - first) / page_;
  }

 private:
  std::size_t page_, size_ = 0;
  std::byte *all_ = nullptr, *data_ = nullptr;
};

std::span<const std::byte> bytes_of(const Tensor& tensor) {
  return std::visit([](const auto& elements) { return std::as_bytes(std::span(elements)); }, tensor);
}

struct Destroy {
  void operator()(convt_plan* plan) const { convt_plan_destroy(plan); }
};

struct Result {
  std::vector<std::byte> output;  // its elements
  std::size_t closed = 0;         // pages between images, of other channels

  bool operator==(const Result&) const = default;
};

// Calls f(begin, end) for what lies between the runs of a tensor's elements, in bytes.
template <class F>
void each_gap(const TensorInfo& info, F f) {
  std::size_t end = 0;
  each_run(info, [&](std::size_t, std::size_t place, std::size_t count) {
    if (place > end) f(end * info.element_size(), place * info.element_size());
    end = place + count;
  });
}

Result run(const Plan& planned, const Inputs& inputs, At at) {
  const std::string text = planned.text();
  const TensorInfo &input_info = planned.input_info(), &output_info = planned.output_info();
  Result result;
  convt_plan* made = nullptr;
  convt_plan_options options = CONVT_PLAN_OPTIONS_INIT;
  options.engine = "cpu";
  EXPECT_EQ(convt_plan_create_from_text(&made, text.c_str(), &options), CONVT_OK) << convt_last_error();
  const std::unique_ptr<convt_plan, Destroy> plan(made);
  const auto place = [&](const Tensor& tensor) {
    const auto from = bytes_of(tensor);
    const std::size_t element = std::visit([](const auto& elements) { return sizeof elements[0]; }, tensor);
    auto guarded = std::make_unique<Guarded>(from.size(), element, at);
    if (!from.empty()) std::memcpy(guarded->data(), from.data(), from.size());
    return guarded;
  };
  std::size_t workspace_bytes = 0;
  convt_plan_workspace_size(plan.get(), &workspace_bytes);
  const auto kernel = place(inputs.kernel);
  const Guarded input(input_info.bytes, input_info.element_size(), at), workspace(workspace_bytes, 64, at);
  const Guarded output(output_info.bytes, output_info.element_size(), at);
  const std::size_t element = input_info.element_size();
  each_run(input_info, [&](std::size_t first, std::size_t to, std::size_t count) {
    std::memcpy(input.data() + to * element, bytes_of(inputs.input).data() + first * element, count * element);
  });
  std::vector<std::unique_ptr<Guarded>> operands;
  std::vector<const void*> pointers;
  for (const Tensor& operand : inputs.operands) {
    operands.push_back(place(operand));
    pointers.push_back(operands.back()->data());
  }
  const auto filler = static_cast<std::byte>(at == At::begin ? 0x3c : 0xff);  // of other channels: numbers, or NaN
  std::memset(output.data(), 0x5a, output_info.bytes);
  each_gap(input_info, [&](std::size_t begin, std::size_t end) {
    std::fill(input.data() + begin, input.data() + end, filler);
    result.closed += input.close(begin, end);
  });
  each_gap(output_info, [&](std::size_t begin, std::size_t end) { result.closed += output.close(begin, end); });
  if (workspace_bytes != 0) std::memset(workspace.data(), 0xff, workspace_bytes);
  convt_tensors tensors = CONVT_TENSORS_INIT;
  tensors.input = input.data();
  tensors.kernel = kernel->data();
  tensors.output = output.data();
  tensors.operands = pointers.data();
  tensors.operand_count = pointers.size();
  tensors.workspace = workspace.data();
  tensors.workspace_size = workspace_bytes;
  EXPECT_EQ(convt_plan_execute(plan.get(), &tensors), CONVT_OK) << convt_last_error();
  each_run(output_info, [&](std::size_t, std::size_t from, std::size_t count) {
    const std::byte* const begin = output.data() + from * output_info.element_size();
    result.output.insert(result.output.end(), begin, begin + count * output_info.element_size());
  });
  return result;
}

class GuardPages : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { set_num_threads(3); }
  void TearDown() override { set_num_threads(0); }

 private:
  const convt::testing::WithVariable isa_{"CONVT_ISA", GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Isas, GuardPages, ::testing::ValuesIn(convt::testing::isas()),
                         [](const auto& info) { return info.param; });

TEST_P(GuardPages, NothingOutsideIsTouched) {
  for (std::uint64_t seed = 0; seed < 250; ++seed) {
    const Plan plan(random_case(seed + 5000), {.engine = "cpu"});
    SCOPED_TRACE(plan.text());
    const Inputs inputs = make_inputs(plan, seed, Fill::signed_unit);
    EXPECT_EQ(run(plan, inputs, At::begin).output, run(plan, inputs, At::end).output);
  }
}

// Other channels, between images, on pages of their own.
TEST_P(GuardPages, NothingOfOtherChannelsIsTouched) {
  for (const std::string text :
       {"conv_transpose2d batch=3 channels=2->3 within=5->7 input=41x43 kernel=3",
        "conv_transpose2d dtype=f16 batch=3 channels=3->2 within=9->9 input=47x41 kernel=2 stride=2 | relu",
        "sigmoid | conv_transpose2d dtype=bf16 batch=2 channels=3->3 within=9->9 input=47x41 kernel=3 | instance_norm",
        "bias | conv_transpose2d dtype=f64 batch=2 channels=3->5 within=5->9 input=31 kernel=3 stride=2 | max_pool(2)",
        "conv_transpose2d batch=2 channels=3->5 within=9->8 input=31 kernel=3 stride=2 | group_norm(1) | relu"}) {
    SCOPED_TRACE(text);
    const Plan plan = Plan::from_text(text, {.engine = "cpu"});
    const Inputs inputs = make_inputs(plan, 1, Fill::signed_unit);
    const Result begin = run(plan, inputs, At::begin), end = run(plan, inputs, At::end);
    EXPECT_EQ(begin.output, end.output);
    EXPECT_GT(begin.closed, 1U);
    EXPECT_GT(end.closed, 1U);
  }
}

}  // namespace
}  // namespace convt::cli
