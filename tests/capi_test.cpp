// SPDX-License-Identifier: Apache-2.0
// The C ABI beyond the named problems' arguments: settings, errors, plans and their life.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "convt/convt.h"

namespace {

const char* const text = "conv_transpose2d dtype=f32 batch=2 channels=2->3 input=4x5 kernel=3 stride=2 | bias | relu";

struct PlanHolder {
  convt_plan* plan = nullptr;
  explicit PlanHolder(const char* source, const convt_plan_options* options = nullptr) {
    EXPECT_EQ(convt_plan_create_from_text(&plan, source, options), CONVT_OK) << convt_last_error();
  }
  ~PlanHolder() { convt_plan_destroy(plan); }
  PlanHolder(const PlanHolder&) = delete;
};

// Tensors for `text`, and a call that uses them.
struct Call {
  std::vector<float> input = std::vector<float>(2 * 2 * 4 * 5), kernel = std::vector<float>(2 * 3 * 3 * 3),
                     bias{0.5F, -1.0F, 2.0F}, output = std::vector<float>(2 * 3 * 9 * 11, -77.0F);
  const void* operands[1];
  convt_tensors tensors = CONVT_TENSORS_INIT;
  Call() {
    for (std::size_t i = 0; i < input.size(); ++i) input[i] = std::sin(static_cast<float>(i));
    for (std::size_t i = 0; i < kernel.size(); ++i) kernel[i] = std::cos(static_cast<float>(i));
    operands[0] = bias.data();
    tensors.input = input.data();
    tensors.kernel = kernel.data();
    tensors.output = output.data();
    tensors.operands = operands;
    tensors.operand_count = 1;
  }
  bool untouched() const { return output == std::vector<float>(output.size(), -77.0F); }
};

std::string last() { return convt_last_error(); }

TEST(Library, NamesAndVersion) {
  EXPECT_STREQ(convt_status_name(CONVT_OK), "ok");
  EXPECT_STREQ(convt_status_name(CONVT_INVALID_ARGUMENT), "invalid_argument");
  EXPECT_STREQ(convt_status_name(CONVT_UNSUPPORTED), "unsupported");
  EXPECT_STREQ(convt_status_name(CONVT_OUT_OF_MEMORY), "out_of_memory");
  EXPECT_STREQ(convt_status_name(CONVT_DEVICE_ERROR), "device_error");
  EXPECT_STREQ(convt_status_name(CONVT_INTERNAL_ERROR), "internal_error");
  EXPECT_STREQ(convt_status_name(static_cast<convt_status>(99)), "unknown");
  EXPECT_STREQ(convt_status_name(static_cast<convt_status>(-1)), "unknown");
  const std::string version = std::to_string(CONVT_VERSION_MAJOR) + "." + std::to_string(CONVT_VERSION_MINOR) + "." +
                              std::to_string(CONVT_VERSION_PATCH);
  EXPECT_EQ(version, convt_version());
  EXPECT_EQ(sizeof(convt_status), sizeof(int));
  EXPECT_EQ(sizeof(convt_f16), 2U);
  EXPECT_EQ(sizeof(convt_bf16), 2U);
}

TEST(Library, ThreadCount) {
  EXPECT_EQ(convt_set_num_threads(3), CONVT_OK);
  EXPECT_EQ(convt_get_num_threads(), 3U);
  std::thread([] { EXPECT_EQ(convt_get_num_threads(), 3U); }).join();  // of the process
  EXPECT_EQ(convt_set_num_threads(SIZE_MAX), CONVT_INVALID_ARGUMENT);
  EXPECT_EQ(convt_get_num_threads(), 3U);
  EXPECT_EQ(convt_set_num_threads(0), CONVT_OK);
  EXPECT_GE(convt_get_num_threads(), 1U);
}

TEST(Library, ThreadSettingsBelongToTheThread) {
  int somewhere = 0;
  EXPECT_EQ(convt_set_float32_precision(CONVT_FLOAT32_TF32), CONVT_OK);
  EXPECT_EQ(convt_set_stream(&somewhere), CONVT_OK);
  std::thread([] {
    EXPECT_EQ(convt_get_float32_precision(), CONVT_FLOAT32_IEEE);
    EXPECT_EQ(convt_get_stream(), nullptr);
  }).join();
  EXPECT_EQ(convt_get_float32_precision(), CONVT_FLOAT32_TF32);
  EXPECT_EQ(convt_get_stream(), &somewhere);
  EXPECT_EQ(convt_set_float32_precision(static_cast<convt_float32_precision>(2)), CONVT_INVALID_ARGUMENT);
  EXPECT_EQ(convt_get_float32_precision(), CONVT_FLOAT32_TF32);
  EXPECT_EQ(convt_set_float32_precision(CONVT_FLOAT32_IEEE), CONVT_OK);
  EXPECT_EQ(convt_set_stream(nullptr), CONVT_OK);
}

TEST(Library, ErrorsBelongToTheThread) {
  EXPECT_EQ(convt_plan_create_from_text(nullptr, text, nullptr), CONVT_INVALID_ARGUMENT);
  EXPECT_EQ(last(), "plan: must not be null");
  std::thread([] {
    EXPECT_STREQ(convt_last_error(), "");
    convt_plan* plan = nullptr;
    EXPECT_EQ(convt_plan_create_from_text(&plan, "nonsense", nullptr), CONVT_INVALID_ARGUMENT);
  }).join();
  EXPECT_EQ(last(), "plan: must not be null");
}

TEST(Library, TablesAreComplete) {
  EXPECT_GE(convt_op_count(), 31U);
  for (std::size_t i = 0; i < convt_op_count(); ++i) {
    convt_op_description op;
    ASSERT_EQ(convt_op_describe(i, &op), CONVT_OK);
    EXPECT_NE(std::string(op.signature).find(op.name), std::string::npos);
  }
  convt_op_description op;
  EXPECT_EQ(convt_op_describe(convt_op_count(), &op), CONVT_INVALID_ARGUMENT);
  EXPECT_EQ(convt_op_describe(0, nullptr), CONVT_INVALID_ARGUMENT);
  EXPECT_EQ(convt_named_problem_count(), 5U);
  for (std::size_t i = 0; i < convt_named_problem_count(); ++i) {
    convt_named_problem_description row;
    ASSERT_EQ(convt_named_problem_describe(i, &row), CONVT_OK);
    PlanHolder benchmark(row.benchmark_case), demo(row.demo_case);
    EXPECT_NE(std::string(convt_plan_explain(benchmark.plan)).find("engines"), std::string::npos);
  }
  EXPECT_EQ(convt_named_problem_describe(5, nullptr), CONVT_INVALID_ARGUMENT);
}

TEST(Plan, DescribesItsTensors) {
  PlanHolder p(text);
  convt_tensor_info info;
  ASSERT_EQ(convt_plan_input_info(p.plan, &info), CONVT_OK);
  EXPECT_STREQ(info.name, "input");
  EXPECT_EQ(info.rank, 4U);
  EXPECT_EQ(std::vector<std::size_t>(info.shape, info.shape + 5), (std::vector<std::size_t>{2, 2, 4, 5, 0}));
  EXPECT_EQ(info.bytes, 2U * 2 * 4 * 5 * 4);
  ASSERT_EQ(convt_plan_kernel_info(p.plan, &info), CONVT_OK);
  EXPECT_EQ(std::vector<std::size_t>(info.shape, info.shape + 5), (std::vector<std::size_t>{2, 3, 3, 3, 0}));
  ASSERT_EQ(convt_plan_output_info(p.plan, &info), CONVT_OK);
  EXPECT_EQ(std::vector<std::size_t>(info.shape, info.shape + 5), (std::vector<std::size_t>{2, 3, 9, 11, 0}));
  ASSERT_EQ(convt_plan_operand_count(p.plan), 1U);
  ASSERT_EQ(convt_plan_operand_info(p.plan, 0, &info), CONVT_OK);
  EXPECT_STREQ(info.name, "bias.other");
  EXPECT_EQ(info.rank, 1U);
  EXPECT_EQ(info.shape[0], 3U);
  EXPECT_EQ(convt_plan_operand_info(p.plan, 1, &info), CONVT_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(convt_plan_text(p.plan)), text);
  EXPECT_STREQ(convt_plan_engine(p.plan), "cpu");
  double needed = 0, scattered = 0;
  EXPECT_EQ(convt_plan_products(p.plan, &needed, &scattered), CONVT_OK);
  EXPECT_EQ(needed, 2.0 * 2 * 3 * 4 * 5 * 9);
  EXPECT_EQ(scattered, needed);
  double seconds = 0;
  EXPECT_EQ(convt_plan_predicted_seconds(p.plan, &seconds), CONVT_OK);
  EXPECT_GT(seconds, 0);
}

TEST(Plan, StructAndTextAgree) {
  convt_problem problem = CONVT_PROBLEM_INIT;
  problem.dims = 3;
  problem.dtype = CONVT_BF16;
  problem.input_layout = CONVT_CHANNELS_LAST;
  problem.precision = CONVT_FLOAT32_TF32;
  problem.batch_size = 3;
  problem.in_channels = 4;
  problem.out_channels = 6;
  problem.groups = 2;
  const std::size_t input[] = {5, 6, 7}, kernel[] = {1, 2, 3}, stride[] = {2, 1, 3}, dilation[] = {1, 2, 1};
  std::copy_n(input, 3, problem.input);
  std::copy_n(kernel, 3, problem.kernel);
  std::copy_n(stride, 3, problem.stride);
  std::copy_n(dilation, 3, problem.dilation);
  problem.padding[1] = 1;
  problem.output_padding[2] = 2;
  problem.chain = "layer_norm(channels, affine, dtype=f32)|avg_pool(2)";
  convt_plan* plan = nullptr;
  ASSERT_EQ(convt_plan_create(&plan, &problem, nullptr), CONVT_OK) << last();
  EXPECT_STREQ(convt_plan_text(plan),
               "conv_transpose3d dtype=bf16 layout=channels_last->channels_first precision=tf32 batch=3 channels=4->6 "
               "input=5x6x7 kernel=1x2x3 stride=2x1x3 padding=0x1x0 output_padding=0x0x2 dilation=1x2x1 groups=2 | "
               "layer_norm(channels, affine, dtype=f32) | avg_pool(2)");
  // And back: the struct the plan gives makes the same plan.
  convt_problem back = CONVT_PROBLEM_INIT;
  ASSERT_EQ(convt_plan_problem(plan, &back), CONVT_OK) << last();
  convt_plan* again = nullptr;
  ASSERT_EQ(convt_plan_create(&again, &back, nullptr), CONVT_OK) << last();
  EXPECT_STREQ(convt_plan_text(again), convt_plan_text(plan));
  convt_plan_destroy(again);
  convt_problem unset;
  std::memset(&unset, 0x5A, sizeof unset);
  EXPECT_EQ(convt_plan_problem(plan, &unset), CONVT_INVALID_ARGUMENT);
  EXPECT_EQ(convt_plan_problem(nullptr, &back), CONVT_INVALID_ARGUMENT);
  EXPECT_EQ(convt_plan_problem(plan, nullptr), CONVT_INVALID_ARGUMENT);
  convt_plan_destroy(plan);
}

TEST(Plan, SmallerProblemsUseTheFirstEntries) {
  convt_problem problem = CONVT_PROBLEM_INIT;
  problem.dims = 1;
  problem.in_channels = problem.out_channels = 1;
  problem.input[0] = 4;
  problem.kernel[0] = 2;
  problem.input[1] = problem.kernel[2] = problem.stride[1] = SIZE_MAX;  // ignored
  convt_plan* plan = nullptr;
  ASSERT_EQ(convt_plan_create(&plan, &problem, nullptr), CONVT_OK) << last();
  EXPECT_STREQ(convt_plan_text(plan), "conv_transpose1d dtype=f32 batch=1 channels=1->1 input=4 kernel=2");
  convt_plan_destroy(plan);
}

TEST(Plan, RefusesBadStructs) {
  convt_plan* plan = reinterpret_cast<convt_plan*>(&plan);
  EXPECT_EQ(convt_plan_create(&plan, nullptr, nullptr), CONVT_INVALID_ARGUMENT);
  EXPECT_EQ(plan, nullptr);
  const auto refused = [&](auto&& spoil, convt_status status, const char* argument) {
    convt_problem problem = CONVT_PROBLEM_INIT;
    problem.dims = 2;
    problem.in_channels = problem.out_channels = 1;
    std::fill_n(problem.input, 2, 3);
    std::fill_n(problem.kernel, 2, 3);
    spoil(problem);
    plan = reinterpret_cast<convt_plan*>(&plan);
    EXPECT_EQ(convt_plan_create(&plan, &problem, nullptr), status) << argument;
    EXPECT_EQ(last().rfind(argument, 0), 0U) << last();
    EXPECT_EQ(plan, nullptr);
  };
  refused([](auto& p) { p.struct_size = 0; }, CONVT_INVALID_ARGUMENT, "problem: has struct_size 0");
  refused([](auto& p) { p.struct_size -= 1; }, CONVT_INVALID_ARGUMENT, "problem: has struct_size");
  refused([](auto& p) { p.struct_size = SIZE_MAX; }, CONVT_INVALID_ARGUMENT, "problem: has struct_size");
  refused([](auto& p) { p.dims = 0; }, CONVT_INVALID_ARGUMENT, "dims: must be 1, 2 or 3 (got 0)");
  refused([](auto& p) { p.dims = 4; }, CONVT_INVALID_ARGUMENT, "dims: must be 1, 2 or 3 (got 4)");
  refused([](auto& p) { p.dtype = static_cast<convt_dtype>(4); }, CONVT_INVALID_ARGUMENT, "dtype:");
  refused([](auto& p) { p.dtype = static_cast<convt_dtype>(-1); }, CONVT_INVALID_ARGUMENT, "dtype:");
  refused([](auto& p) { p.input_layout = static_cast<convt_layout>(2); }, CONVT_INVALID_ARGUMENT, "input_layout:");
  refused([](auto& p) { p.output_layout = static_cast<convt_layout>(2); }, CONVT_INVALID_ARGUMENT, "output_layout:");
  refused([](auto& p) { p.precision = static_cast<convt_float32_precision>(7); }, CONVT_INVALID_ARGUMENT, "precision:");
  refused([](auto& p) { p.chain = "gelo"; }, CONVT_INVALID_ARGUMENT, "chain: column 1: unknown op 'gelo'");
  refused([](auto& p) { p.kernel[1] = 0; }, CONVT_INVALID_ARGUMENT, "kernel_w: must be at least 1 (got 0)");
}

// A caller compiled against a later header passes a longer struct: fine while the unknown fields are zero.
TEST(Plan, LaterStructs) {
  struct Later {
    convt_problem known = CONVT_PROBLEM_INIT;
    std::uint64_t unknown = 0;
  } later;
  later.known.struct_size = sizeof later;
  later.known.dims = 1;
  later.known.in_channels = later.known.out_channels = 1;
  later.known.input[0] = later.known.kernel[0] = 2;
  convt_plan* plan = nullptr;
  EXPECT_EQ(convt_plan_create(&plan, &later.known, nullptr), CONVT_OK) << last();
  convt_plan_destroy(plan);
  later.unknown = 1;
  EXPECT_EQ(convt_plan_create(&plan, &later.known, nullptr), CONVT_UNSUPPORTED);
  EXPECT_EQ(plan, nullptr);
}

TEST(Plan, Options) {
  convt_plan* plan = nullptr;
  convt_plan_options options = CONVT_PLAN_OPTIONS_INIT;
  options.engine = "reference";
  EXPECT_EQ(convt_plan_create_from_text(&plan, text, &options), CONVT_OK);
  EXPECT_STREQ(convt_plan_engine(plan), "reference");
  convt_plan_destroy(plan);
  options.engine = "warp drive";
  EXPECT_EQ(convt_plan_create_from_text(&plan, text, &options), CONVT_INVALID_ARGUMENT);
  EXPECT_NE(last().find("engine: names no engine of this build"), std::string::npos) << last();
  options.engine = nullptr;
  options.workspace_limit = 1;
  EXPECT_EQ(convt_plan_create_from_text(&plan, text, &options), CONVT_UNSUPPORTED);
  EXPECT_NE(last().find("over the limit of 1"), std::string::npos) << last();
  options.workspace_limit = 0;
  options.device = CONVT_DEVICE_CUDA;
  EXPECT_EQ(convt_plan_create_from_text(&plan, text, &options), CONVT_UNSUPPORTED);
  options.device_index = -1;
  EXPECT_EQ(convt_plan_create_from_text(&plan, text, &options), CONVT_INVALID_ARGUMENT);
  options.device = static_cast<convt_device>(5);
  EXPECT_EQ(convt_plan_create_from_text(&plan, text, &options), CONVT_INVALID_ARGUMENT);
  options = CONVT_PLAN_OPTIONS_INIT;
  options.struct_size = 3;
  EXPECT_EQ(convt_plan_create_from_text(&plan, text, &options), CONVT_INVALID_ARGUMENT);
}

TEST(Plan, EnvironmentForcesAnEngine) {
  convt_plan* plan = nullptr;
  setenv("CONVT_ENGINE", "reference", 1);
  EXPECT_EQ(convt_plan_create_from_text(&plan, text, nullptr), CONVT_OK);
  convt_plan_destroy(plan);
  setenv("CONVT_ENGINE", "none such", 1);
  EXPECT_EQ(convt_plan_create_from_text(&plan, text, nullptr), CONVT_INVALID_ARGUMENT);
  EXPECT_EQ(last().rfind("CONVT_ENGINE:", 0), 0U) << last();
  unsetenv("CONVT_ENGINE");
}

TEST(Plan, NullPlans) {
  convt_tensor_info info;
  std::size_t bytes = 0;
  double number = 0;
  EXPECT_EQ(convt_plan_input_info(nullptr, &info), CONVT_INVALID_ARGUMENT);
  EXPECT_EQ(convt_plan_kernel_info(nullptr, &info), CONVT_INVALID_ARGUMENT);
  EXPECT_EQ(convt_plan_output_info(nullptr, &info), CONVT_INVALID_ARGUMENT);
  EXPECT_EQ(convt_plan_operand_info(nullptr, 0, &info), CONVT_INVALID_ARGUMENT);
  EXPECT_EQ(convt_plan_operand_count(nullptr), 0U);
  EXPECT_EQ(convt_plan_workspace_size(nullptr, &bytes), CONVT_INVALID_ARGUMENT);
  EXPECT_EQ(convt_plan_products(nullptr, &number, &number), CONVT_INVALID_ARGUMENT);
  EXPECT_EQ(convt_plan_predicted_seconds(nullptr, &number), CONVT_INVALID_ARGUMENT);
  EXPECT_EQ(convt_plan_pack_kernel(nullptr, &number, nullptr), CONVT_INVALID_ARGUMENT);
  EXPECT_EQ(convt_plan_execute(nullptr, nullptr), CONVT_INVALID_ARGUMENT);
  EXPECT_EQ(convt_plan_text(nullptr), nullptr);
  EXPECT_EQ(convt_plan_explain(nullptr), nullptr);
  EXPECT_EQ(convt_plan_engine(nullptr), nullptr);
  convt_plan_destroy(nullptr);
  PlanHolder p(text);
  EXPECT_EQ(convt_plan_input_info(p.plan, nullptr), CONVT_INVALID_ARGUMENT);
  EXPECT_EQ(convt_plan_workspace_size(p.plan, nullptr), CONVT_INVALID_ARGUMENT);
  EXPECT_EQ(convt_plan_products(p.plan, &number, nullptr), CONVT_INVALID_ARGUMENT);
  EXPECT_EQ(convt_plan_predicted_seconds(p.plan, nullptr), CONVT_INVALID_ARGUMENT);
  convt_plan* none = nullptr;
  EXPECT_EQ(convt_plan_create_from_text(&none, nullptr, nullptr), CONVT_INVALID_ARGUMENT);
}

TEST(Plan, RefusesBadTensors) {
  PlanHolder p(text);
  std::size_t workspace = 0;
  ASSERT_EQ(convt_plan_workspace_size(p.plan, &workspace), CONVT_OK);
  struct alignas(64) Line {
    char bytes[64];
  };
  std::vector<Line> lines(workspace / sizeof(Line) + 2);
  char* const memory = lines.front().bytes;
  const auto refused = [&](auto&& spoil, const std::string& argument) {
    Call call;
    spoil(call);
    EXPECT_EQ(convt_plan_execute(p.plan, &call.tensors), CONVT_INVALID_ARGUMENT) << argument;
    EXPECT_EQ(last().rfind(argument, 0), 0U) << last();
    EXPECT_TRUE(call.untouched()) << argument;
  };
  refused([](Call& c) { c.tensors.struct_size = 8; }, "tensors:");
  refused([](Call& c) { c.tensors.input = nullptr; }, "input:");
  refused([](Call& c) { c.tensors.kernel = nullptr; }, "kernel:");
  refused([](Call& c) { c.tensors.output = nullptr; }, "output:");
  refused([](Call& c) { c.tensors.operands = nullptr; }, "operands:");
  refused([](Call& c) { c.tensors.operand_count = 0; }, "operand_count: must be 1");
  refused([](Call& c) { c.tensors.operand_count = 2; }, "operand_count: must be 1");
  refused([](Call& c) { c.operands[0] = nullptr; }, "operands[0] (bias.other):");
  refused([](Call& c) { c.operands[0] = c.output.data() + 5; }, "output: must not overlap operands[0] (bias.other)");
  refused([](Call& c) { c.tensors.kernel = c.output.data(); }, "output: must not overlap kernel");
  const std::size_t bias_of_4[] = {16}, bias_of_3[] = {12};
  refused([&](Call& c) { c.tensors.operand_bytes = bias_of_4; },
          "operands[0] (bias.other): must have 12 bytes, by its shape in the plan (got 16)");
  refused([](Call& c) { c.tensors.input_bytes = 4; }, "input: must have 320 bytes");
  refused([](Call& c) { c.tensors.kernel_bytes = 4; }, "kernel: must have 216 bytes");
  refused([](Call& c) { c.tensors.output_bytes = 4; }, "output: must have 2376 bytes");
  refused(
      [&](Call& c) {
        c.tensors.workspace = memory;
        c.tensors.workspace_size = workspace - 1;
      },
      "workspace_size:");
  refused(
      [&](Call& c) {
        c.tensors.workspace = memory + 8;
        c.tensors.workspace_size = workspace;
      },
      "workspace: must be aligned");
  convt_thread_pool pool = CONVT_THREAD_POOL_INIT;
  refused([&](Call& c) { c.tensors.thread_pool = &pool; }, "thread_pool: must have a parallel_for");
  pool.struct_size = 8;
  refused([&](Call& c) { c.tensors.thread_pool = &pool; }, "thread_pool: has struct_size 8");
  Call call;
  call.tensors.operand_bytes = bias_of_3;
  call.tensors.input_bytes = 320;
  call.tensors.workspace = memory;
  call.tensors.workspace_size = workspace;
  EXPECT_EQ(convt_plan_execute(p.plan, &call.tensors), CONVT_OK) << last();
  EXPECT_FALSE(call.untouched());
  call.tensors.input = memory + 16;
  EXPECT_EQ(convt_plan_execute(p.plan, &call.tensors), CONVT_INVALID_ARGUMENT);
  EXPECT_EQ(last().rfind("workspace: must not overlap input", 0), 0U) << last();
}

TEST(Plan, PackedKernels) {
  PlanHolder p(text);
  Call plain, packed;
  ASSERT_EQ(convt_plan_execute(p.plan, &plain.tensors), CONVT_OK);
  EXPECT_EQ(convt_plan_pack_kernel(p.plan, nullptr, nullptr), CONVT_INVALID_ARGUMENT);
  EXPECT_EQ(convt_plan_pack_kernel(p.plan, reinterpret_cast<char*>(plain.kernel.data()) + 1, nullptr),
            CONVT_INVALID_ARGUMENT);
  ASSERT_EQ(convt_plan_pack_kernel(p.plan, packed.kernel.data(), nullptr), CONVT_OK);
  packed.kernel.assign(packed.kernel.size(), 1e9F);  // no longer looked at
  packed.tensors.kernel = nullptr;
  ASSERT_EQ(convt_plan_execute(p.plan, &packed.tensors), CONVT_OK) << last();
  EXPECT_EQ(plain.output, packed.output);
  std::vector<float> other(packed.kernel.size(), 0.25F);  // packing again replaces the first
  ASSERT_EQ(convt_plan_pack_kernel(p.plan, other.data(), nullptr), CONVT_OK);
  ASSERT_EQ(convt_plan_execute(p.plan, &packed.tensors), CONVT_OK);
  EXPECT_NE(plain.output, packed.output);
}

TEST(Plan, ManyThreadsShareOne) {
  PlanHolder p(text);
  Call expected;
  ASSERT_EQ(convt_plan_execute(p.plan, &expected.tensors), CONVT_OK);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        Call call;
        EXPECT_EQ(convt_plan_execute(p.plan, &call.tensors), CONVT_OK);
        EXPECT_EQ(call.output, expected.output);
        EXPECT_NE(convt_plan_explain(p.plan), nullptr);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

// Two fixed problems by hand: one product, and a kernel that hangs over both ends.
TEST(Plan, ByHand) {
  PlanHolder p("conv_transpose1d dtype=f64 batch=1 channels=1->1 input=2 kernel=3 stride=2 padding=1 output_padding=1");
  const double input[] = {2, 3}, kernel[] = {1, 10, 100};
  double output[4] = {};
  convt_tensors tensors = CONVT_TENSORS_INIT;
  tensors.input = input;
  tensors.kernel = kernel;
  tensors.output = output;
  ASSERT_EQ(convt_plan_execute(p.plan, &tensors), CONVT_OK);
  EXPECT_EQ(std::vector<double>(output, output + 4), (std::vector<double>{20, 203, 30, 300}));
}

// Planning takes no longer for sizes that no machine could run.
TEST(Plan, HugeSizesArePlannedAtOnce) {
  for (const char* huge :
       {"conv_transpose1d dtype=f16 channels=1->1 input=2 kernel=72057594037927936",
        "conv_transpose1d dtype=f16 channels=1->1 input=72057594037927936 kernel=1 stride=3 | "
        "max_pool(1, stride=2) | max_pool(2, stride=5)",
        "conv_transpose1d channels=1->1 input=1000000 kernel=1000000 | max_pool(1, stride=2)",
        "conv_transpose1d channels=1->1 input=1000000 kernel=1 stride=1000 | max_pool(2, stride=3) | "
        "max_pool(2, stride=3)"}) {
    PlanHolder p(huge);
    EXPECT_NE(convt_plan_explain(p.plan), nullptr);
  }
}

// Windows far larger than the image are legal where padding and ceil make them so.
TEST(Plan, EnormousWindows) {
  for (const char* chain :
       {"max_pool(7, stride=4, padding=3, ceil)",
        "max_pool(9223372036854775807, stride=4611686018427387904, padding=4611686018427387903, ceil)"}) {
    const std::string source = std::string("conv_transpose1d channels=1->1 input=3 kernel=1 | ") + chain;
    PlanHolder p(source.c_str());
    const float input[] = {1, 2, 3}, kernel[] = {1};
    float output[2] = {};
    convt_tensors tensors = CONVT_TENSORS_INIT;
    tensors.input = input;
    tensors.kernel = kernel;
    tensors.output = output;
    ASSERT_EQ(convt_plan_execute(p.plan, &tensors), CONVT_OK) << last();
    EXPECT_EQ(output[0], 3.0F) << chain;
    EXPECT_EQ(output[1], 3.0F) << chain;
    double needed = 0, scattered = 0;
    EXPECT_EQ(convt_plan_products(p.plan, &needed, &scattered), CONVT_OK);
    EXPECT_EQ(needed, 3.0) << chain;
  }
}

// What cannot be had is refused before anything is touched, and the next call works.
TEST(Plan, OutOfMemory) {
  PlanHolder huge("conv_transpose1d dtype=f16 batch=1 channels=1->1 input=288230376151711744 kernel=1");
  Call call;
  call.tensors.operand_count = 0;
  call.tensors.input = reinterpret_cast<const void*>(std::uintptr_t{1} << 62);
  call.tensors.output = reinterpret_cast<void*>(std::uintptr_t{1} << 61);
  EXPECT_EQ(convt_plan_execute(huge.plan, &call.tensors), CONVT_OUT_OF_MEMORY);
  PlanHolder p(text);
  Call good;
  EXPECT_EQ(convt_plan_execute(p.plan, &good.tensors), CONVT_OK);
}

}  // namespace
