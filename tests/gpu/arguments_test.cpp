// SPDX-License-Identifier: Apache-2.0
// Bad arguments get the same status and the same message on a GPU as on the CPU, and nothing is written.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <regex>

#include "gpu/support.hpp"
#include "support/named_functions.hpp"

namespace convt::testing {
namespace {

using GpuArguments = GpuTest;

// Room for the tensors of any call here, and for the workspace of one thread.
constexpr std::size_t block = std::size_t{1} << 16;
constexpr std::size_t input = 0, kernel = block, bias = 2 * block, output = 3 * block, workspace = 4 * block;
constexpr std::size_t room = 8 * block;

class Memory {
 public:
  explicit Memory(Device device) : memory_({{"all", room}}, poison, {.device = device}), device_(device) {
    memory_.update_device();
  }
  std::byte* at(std::size_t offset) const { return memory_.address(0) + offset; }
  Device device() const { return device_; }
  bool is_untouched() {
    memory_.update_host();
    std::vector<std::uint64_t> words(room / sizeof poison);
    std::ranges::copy(memory_.contents(0), std::as_writable_bytes(std::span(words)).begin());
    return memory_.defect().empty() && std::ranges::count(words, poison) == std::ssize(words);
  }

 private:
  static inline const std::uint64_t poison = cli::poison_of(DType::f32);
  cli::WatchedMemory memory_;
  Device device_;
};

// "" for a call that was accepted. Addresses, which differ, are taken out.
std::string answer_of(convt_status status) {
  if (status == CONVT_OK) return "";
  const std::string text = std::string(convt_status_name(status)) + ": " + convt_last_error();
  return std::regex_replace(text, std::regex("0x[0-9a-f]+"), "ADDRESS");
}

// Where the host refuses, so does the GPU, in the same words.
class Both {
 public:
  void expect_same(const std::function<convt_status(const Memory&)>& call) {
    const std::string expected = answer_of(call(host_));
    if (expected.empty()) {
      host_ = Memory(Device::cpu);
      return;
    }
    ++refused_;
    EXPECT_EQ(answer_of(call(gpu_)), expected);
  }
  ~Both() {
    EXPECT_GT(refused_, 0);
    EXPECT_TRUE(host_.is_untouched());
    EXPECT_TRUE(gpu_.is_untouched());
  }

 private:
  Memory host_{Device::cpu}, gpu_{Device::cuda};
  int refused_ = 0;
};

TEST_F(GpuArguments, SizesOfNamedProblems) {
  for (const NamedFunction& function : named_functions()) {
    SCOPED_TRACE(function.slug);
    Both both;
    for (std::size_t i = 0; i < function.parameters.size(); ++i)
      for (const std::size_t bad : {std::size_t{0}, std::size_t{7}, std::numeric_limits<std::size_t>::max()}) {
        auto sizes = function.example();
        sizes[i] = bad;
        std::vector<std::size_t> shape(function.dims + 2);
        if (function.output_shape(sizes, shape.data()) == CONVT_OK) continue;  // legal, and perhaps large
        both.expect_same([&](const Memory& memory) {
          return function.run[CONVT_F32](memory.at(input), memory.at(kernel), memory.at(bias), memory.at(output), sizes,
                                         1);
        });
      }
  }
}

TEST_F(GpuArguments, PointersOfNamedProblems) {
  constexpr std::size_t null = std::numeric_limits<std::size_t>::max();
  for (const NamedFunction& function : named_functions()) {
    SCOPED_TRACE(function.slug);
    Both both;
    const std::size_t good[4] = {input, kernel, bias, output};
    for (std::size_t tensor = 0; tensor < 4; ++tensor) {
      if (tensor == 2 && !function.has_bias) continue;
      for (const std::size_t bad : {null, good[tensor] + 2, tensor == 3 ? input + 4 : output + 4})
        both.expect_same([&](const Memory& memory) {
          std::byte* pointers[4];
          for (std::size_t i = 0; i < 4; ++i) {
            const std::size_t offset = i == tensor ? bad : good[i];
            pointers[i] = offset == null ? nullptr : memory.at(offset);
          }
          return function.run[CONVT_F32](pointers[0], pointers[1], pointers[2], pointers[3], function.example(), 1);
        });
    }
  }
}

TEST_F(GpuArguments, Plans) {
  const std::string text = "conv_transpose2d batch=2 channels=3->4 input=8x9 kernel=3 stride=2 | bias | instance_norm";
  const std::vector<std::function<void(convt_tensors&, std::vector<const void*>&, const Memory&)>> mistakes{
      [](auto& tensors, auto&, auto&) { tensors.struct_size = 1; },
      [](auto& tensors, auto&, auto&) { tensors.input = nullptr; },
      [](auto& tensors, auto&, auto&) { tensors.kernel = nullptr; },
      [](auto& tensors, auto&, auto&) { tensors.output = nullptr; },
      [](auto& tensors, auto&, auto&) { tensors.operand_count = 0; },
      [](auto& tensors, auto&, auto&) { tensors.operand_count = 2; },
      [](auto& tensors, auto&, auto&) { tensors.input_bytes = 5; },
      [](auto& tensors, auto&, auto&) { tensors.output_bytes = 5; },
      [](auto&, auto& operands, auto&) { operands[0] = nullptr; },
      [](auto&, auto& operands, auto& memory) { operands[0] = memory.at(bias + 1); },
      [](auto&, auto& operands, auto& memory) { operands[0] = memory.at(output + 4); },
      [](auto& tensors, auto&, auto& memory) { tensors.workspace = memory.at(workspace + 32); },
      [](auto& tensors, auto&, auto& memory) { tensors.workspace = memory.at(output); },
  };
  set_num_threads(1);
  Both both;
  for (const auto& mistake : mistakes)
    both.expect_same([&](const Memory& memory) {
      const Plan plan = Plan::from_text(text, {.device = memory.device()});
      std::vector<const void*> operands{memory.at(bias), nullptr};
      convt_tensors tensors = CONVT_TENSORS_INIT;
      tensors.input = memory.at(input);
      tensors.kernel = memory.at(kernel);
      tensors.output = memory.at(output);
      tensors.operand_count = 1;
      tensors.workspace_size = room - workspace - 64;
      mistake(tensors, operands, memory);
      tensors.operands = operands.data();
      return convt_plan_execute(plan.get(), &tensors);
    });
  set_num_threads(0);
}

TEST_F(GpuArguments, WorkspacesThatAreTooSmall) {
  for (const std::string& text : chain_cases()) {
    GpuRun run(text, 1, {.own_workspace = true, .place = place_of(nullptr)});
    const std::size_t needed = run.plan.workspace_size();
    if (needed == 0) continue;
    EXPECT_THROW(Plan::from_text(text, {.device = Device::cuda, .workspace_limit = 1}), Error) << text;
    EXPECT_LE(Plan::from_text(text, {.device = Device::cuda, .workspace_limit = needed}).workspace_size(), needed);
  }
}

TEST_F(GpuArguments, EmptyBatches) {
  const Plan plan = gpu_plan("conv_transpose2d batch=0 channels=3->4 input=8 kernel=3 | bias");
  convt_tensors tensors = CONVT_TENSORS_INIT;
  const void* operands[] = {nullptr};
  const cli::GpuMemory memory(0, block);
  operands[0] = tensors.kernel = memory.data();
  tensors.operands = operands;
  tensors.operand_count = 1;
  EXPECT_EQ(convt_plan_execute(plan.get(), &tensors), CONVT_OK) << convt_last_error();
}

TEST_F(GpuArguments, EnginesOfTheHostDecline) {
  for (const char* engine : {"reference", "cpu"}) try {
      Plan::from_text("conv_transpose1d channels=1->1 input=3 kernel=2", {.device = Device::cuda, .engine = engine});
      ADD_FAILURE() << engine;
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::unsupported) << error.what();
    }
}

}  // namespace
}  // namespace convt::testing
