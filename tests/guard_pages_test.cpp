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

// The output's bytes.
std::vector<std::byte> run(const std::string& text, const Inputs& inputs, std::size_t output_bytes, At at) {
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
  const auto input = place(inputs.input), kernel = place(inputs.kernel);
  const Guarded output(output_bytes, 2, at), workspace(workspace_bytes, 64, at);
  std::vector<std::unique_ptr<Guarded>> operands;
  std::vector<const void*> pointers;
  for (const Tensor& operand : inputs.operands) {
    operands.push_back(place(operand));
    pointers.push_back(operands.back()->data());
  }
  std::memset(output.data(), 0x5a, output_bytes);
  if (workspace_bytes != 0) std::memset(workspace.data(), 0xff, workspace_bytes);
  convt_tensors tensors = CONVT_TENSORS_INIT;
  tensors.input = input->data();
  tensors.kernel = kernel->data();
  tensors.output = output.data();
  tensors.operands = pointers.data();
  tensors.operand_count = pointers.size();
  tensors.workspace = workspace.data();
  tensors.workspace_size = workspace_bytes;
  EXPECT_EQ(convt_plan_execute(plan.get(), &tensors), CONVT_OK) << convt_last_error();
  return {output.data(), output.data() + output_bytes};
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
    const std::size_t bytes = plan.output_info().bytes;
    EXPECT_EQ(run(plan.text(), inputs, bytes, At::begin), run(plan.text(), inputs, bytes, At::end));
  }
}

}  // namespace
}  // namespace convt::cli
