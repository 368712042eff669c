// SPDX-License-Identifier: Apache-2.0
// convt.hpp: errors, elements, settings, plans and the vocabulary, against small cases computed by plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "convt/convt.hpp"
#include "cpp_api_oracle.hpp"

namespace convt_test {
namespace {

static_assert(std::is_base_of_v<std::runtime_error, convt::Error>);
static_assert(convt::Element<convt::f16> && !convt::Element<int> && !convt::Element<const float>);
static_assert(convt::dtype_of<float> == convt::DType::f32 && convt::dtype_of<double> == convt::DType::f64);
static_assert(convt::dtype_of<convt::f16> == convt::DType::f16 && convt::dtype_of<convt::bf16> == convt::DType::bf16);
static_assert(!std::is_copy_constructible_v<convt::Plan> && !std::is_copy_assignable_v<convt::Plan>);
static_assert(std::is_nothrow_move_constructible_v<convt::Plan> && std::is_nothrow_move_assignable_v<convt::Plan>);
static_assert(std::is_convertible_v<std::vector<float>, convt::Operand>);
static_assert(std::is_convertible_v<std::array<convt::bf16, 2>, convt::Operand>);
static_assert(std::is_convertible_v<std::span<const double>, convt::Operand>);
static_assert(!std::is_convertible_v<std::vector<int>, convt::Operand>);
static_assert(!std::is_convertible_v<const float*, convt::Operand>);

using Sizes = convt::Sizes;

// ---------------------------------------------------------------- elements, settings, vocabulary

TEST(CppApi, ElementsRoundToNearestEven) {
  EXPECT_EQ(convt::from_double<float>(0.1), 0.1f);
  EXPECT_EQ(convt::from_double<double>(0.1), 0.1);
  EXPECT_EQ(convt::from_double<convt::f16>(1.0 + 1.0 / 2048).bits, 0x3c00);  // a tie, to even below
  EXPECT_EQ(convt::from_double<convt::f16>(1.0 + 3.0 / 2048).bits, 0x3c02);  // a tie, to even above
  EXPECT_EQ(convt::from_double<convt::bf16>(-2.0).bits, 0xc000);
  EXPECT_EQ(convt::to_double(convt::f16{0x7bff}), 65504.0);
  EXPECT_EQ(convt::to_double(convt::bf16{0x3f80}), 1.0);
  EXPECT_EQ(convt::to_double(0.5f), 0.5);
}

TEST(CppApi, NamesOfEnumerations) {
  EXPECT_EQ(to_string(convt::Status::ok), "ok");
  EXPECT_EQ(to_string(convt::Status::invalid_argument), "invalid_argument");
  EXPECT_EQ(to_string(convt::DType::bf16), "bf16");
  EXPECT_EQ(to_string(static_cast<convt::DType>(99)), "unknown");
}

TEST(CppApi, Settings) {
  EXPECT_EQ(convt::version(), std::to_string(CONVT_VERSION_MAJOR) + "." + std::to_string(CONVT_VERSION_MINOR) + "." +
                                  std::to_string(CONVT_VERSION_PATCH));
  convt::set_num_threads(1);
  EXPECT_EQ(convt::num_threads(), 1u);
  convt::set_num_threads(0);
  EXPECT_GE(convt::num_threads(), 1u);

  convt::set_float32_precision(convt::Float32Precision::tf32);
  EXPECT_EQ(convt::float32_precision(), convt::Float32Precision::tf32);
  std::thread([] { EXPECT_EQ(convt::float32_precision(), convt::Float32Precision::ieee); }).join();
  convt::set_float32_precision(convt::Float32Precision::ieee);
  expect_contains(error_of([] { convt::set_float32_precision(static_cast<convt::Float32Precision>(7)); }),
                  "invalid_argument: precision");

  int stands_for_a_stream = 0;
  convt::set_stream(&stands_for_a_stream);
  EXPECT_EQ(convt::stream(), &stands_for_a_stream);
  convt::set_stream(nullptr);
  EXPECT_EQ(convt::stream(), nullptr);
}

TEST(CppApi, Vocabulary) {
  std::set<std::string> names;
  for (const convt::OpDescription& op : convt::ops()) {
    EXPECT_TRUE(names.insert(op.name).second) << op.name;
    EXPECT_TRUE(std::string(op.signature).starts_with(op.name)) << op.signature;
    EXPECT_STRNE(op.about, "");
  }
  for (const char* name : {"bias", "add", "gelu", "layer_norm", "max_pool", "logsumexp"})
    EXPECT_TRUE(names.contains(name));

  const std::vector<convt::NamedProblemDescription> problems = convt::named_problems();
  ASSERT_EQ(problems.size(), 5u);
  for (const convt::NamedProblemDescription& problem : problems)
    EXPECT_FALSE(convt::Plan::from_text(problem.demo_case).explain().empty()) << problem.slug;
}

// ---------------------------------------------------------------- what a plan says

TEST(CppApiPlan, ProblemAndTextAreTheSame) {
  const convt::Plan plan({.dtype = convt::DType::f64,
                          .batch_size = 2,
                          .in_channels = 4,
                          .out_channels = 6,
                          .groups = 2,
                          .input = {3, 4, 5},
                          .kernel = {3, 2, 3},
                          .stride = {2, 1, 2},
                          .padding = {1, 0, 1},
                          .output_padding = {1, 0, 0},
                          .dilation = {1, 2, 1},
                          .chain = "bias | max_pool(2) | gelu"});
  const convt::Plan from_text = convt::Plan::from_text(
      "conv_transpose3d dtype=f64 batch=2 channels=4->6 groups=2 input=3x4x5 kernel=3x2x3 stride=2x1x2 padding=1x0x1 "
      "output_padding=1x0x0 dilation=1x2x1 | bias | max_pool(2) | gelu");
  EXPECT_EQ(plan.text(), from_text.text());
  EXPECT_EQ(convt::Plan::from_text(plan.text()).text(), plan.text());
}

TEST(CppApiPlan, SizesPerAxisOrOneForAll) {
  const convt::Plan spelled({.in_channels = 1,
                             .out_channels = 1,
                             .input = {4, 4, 4},
                             .kernel = {3, 3, 3},
                             .stride = {2, 2, 2},
                             .padding = {1, 1, 1}});
  const convt::Plan brief(
      {.dims = 3, .in_channels = 1, .out_channels = 1, .input = {4}, .kernel = {3}, .stride = {2}, .padding = {1}});
  EXPECT_EQ(spelled.text(), brief.text());
  const Sizes input{4, 5};
  const convt::Plan deduced({.in_channels = 1, .out_channels = 1, .input = input, .kernel = {3}});
  EXPECT_EQ(deduced.output_info().shape, (Sizes{1, 1, 6, 7}));
}

TEST(CppApiPlan, Infos) {
  const convt::Plan plan({.dtype = convt::DType::f16,
                          .input_layout = convt::Layout::channels_last,
                          .batch_size = 2,
                          .in_channels = 4,
                          .out_channels = 6,
                          .groups = 2,
                          .input = {5, 7},
                          .kernel = {3, 2},
                          .chain = "bias | layer_norm(channels, affine) | add(tensor, dtype=f32)"});
  const convt::TensorInfo& input = plan.input_info();
  EXPECT_EQ(input.name, "input");
  EXPECT_EQ(input.shape, (Sizes{2, 4, 5, 7}));
  EXPECT_EQ(input.layout, convt::Layout::channels_last);
  EXPECT_EQ(input.dtype, convt::DType::f16);
  EXPECT_EQ(input.elements(), 280u);
  EXPECT_EQ(input.bytes, 560u);
  EXPECT_EQ(plan.kernel_info().name, "kernel");
  EXPECT_EQ(plan.kernel_info().shape, (Sizes{4, 3, 3, 2}));
  EXPECT_EQ(plan.output_info().name, "output");
  EXPECT_EQ(plan.output_info().shape, (Sizes{2, 6, 7, 8}));
  EXPECT_EQ(plan.output_info().layout, convt::Layout::channels_first);

  const std::vector<convt::TensorInfo>& operands = plan.operand_infos();
  ASSERT_EQ(operands.size(), 4u);
  EXPECT_EQ(operands[0].stage, 0u);
  EXPECT_EQ(operands[0].elements(), 6u);
  EXPECT_EQ(operands[1].name, "layer_norm.weight");
  EXPECT_EQ(operands[2].name, "layer_norm.bias");
  EXPECT_EQ(operands[2].stage, 1u);
  EXPECT_EQ(operands[2].dtype, convt::DType::f16);
  EXPECT_EQ(operands[3].stage, 2u);
  EXPECT_EQ(operands[3].dtype, convt::DType::f32);
  EXPECT_EQ(operands[3].shape, (Sizes{2, 6, 7, 8}));
  EXPECT_EQ(operands[3].bytes, 4u * 2 * 6 * 7 * 8);
}

TEST(CppApiPlan, ExplainEngineAndProducts) {
  const convt::Plan plan = convt::Plan::from_text("conv_transpose1d channels=2->3 input=5 kernel=4 padding=1",
                                                  {.engine = "reference", .workspace_limit = 1 << 20});
  EXPECT_EQ(plan.engine(), "reference");
  expect_contains(plan.explain(), "reference");
  // A scatter forms 5 inputs * 4 taps * 2 * 3; padding crops the two products that reach one output at each end.
  EXPECT_EQ(plan.products().scattered, 5 * 4 * 2 * 3);
  EXPECT_EQ(plan.products().needed, (5 * 4 - 2) * 2 * 3);
  EXPECT_GT(plan.predicted_seconds(), 0);
}

// ---------------------------------------------------------------- what a plan computes

template <class T>
class CppApiExecute : public testing::Test {};
using Elements = testing::Types<float, double, convt::f16, convt::bf16>;
TYPED_TEST_SUITE(CppApiExecute, Elements);

const Convolution small{.batch_size = 2,
                        .in_channels = 4,
                        .out_channels = 6,
                        .input = {2, 3, 4},
                        .kernel = {2, 3, 2},
                        .stride = {1, 2, 3},
                        .padding = {0, 1, 0},
                        .output_padding = {0, 1, 2},
                        .dilation = {2, 1, 1},
                        .groups = 2};

template <convt::Element T>
convt::Problem small_problem(const std::string& chain = "") {
  const auto sizes = [](const Axes& axes) { return Sizes(axes.begin(), axes.end()); };
  return {.dtype = convt::dtype_of<T>,
          .batch_size = small.batch_size,
          .in_channels = small.in_channels,
          .out_channels = small.out_channels,
          .groups = small.groups,
          .input = sizes(small.input),
          .kernel = sizes(small.kernel),
          .stride = sizes(small.stride),
          .padding = sizes(small.padding),
          .output_padding = sizes(small.output_padding),
          .dilation = sizes(small.dilation),
          .chain = chain};
}

// Random tensors for small_problem(), and the convolution of them.
template <convt::Element T>
struct Data {
  std::vector<T> input = random_elements<T>(small.input_count(), 1);
  std::vector<T> kernel = random_elements<T>(small.kernel_count(), 2);
  Image expected = convolve(small, to_doubles(input), to_doubles(kernel));
  std::vector<T> output = std::vector<T>(expected.count());
};

TYPED_TEST(CppApiExecute, ConvolutionAlone) {
  using T = TypeParam;
  Data<T> data;
  const convt::Plan plan(small_problem<T>());
  ASSERT_EQ(plan.output_info().elements(), data.output.size());
  plan.execute<T>({.input = data.input, .kernel = data.kernel, .output = data.output});
  expect_near(data.output, data.expected.values);
}

TYPED_TEST(CppApiExecute, OperandsOfEveryKindOfContainer) {
  using T = TypeParam;
  Data<T> data;
  const std::vector<T> bias = random_elements<T>(6, 3);
  const float scale[6] = {1.0f, -2.0f, 0.5f, 3.0f, -1.5f, 0.25f};
  const std::vector<float> addend = random_elements<float>(data.output.size(), 4);
  std::array<T, 6> shift{};
  std::copy_n(bias.rbegin(), 6, shift.begin());

  const convt::Plan plan(small_problem<T>("bias | mul(channel, dtype=f32) | add(tensor, dtype=f32) | sub(channel)"));
  plan.execute<T>({.input = data.input,
                   .kernel = data.kernel,
                   .output = data.output,
                   .operands = {std::span(bias), scale, addend, shift}});
  for_each(data.expected, [&, i = std::size_t{0}](auto, auto c, auto, auto, auto, double& value) mutable {
    value = (value + convt::to_double(bias[c])) * static_cast<double>(scale[c]) + static_cast<double>(addend[i++]) -
            convt::to_double(shift[c]);
  });
  expect_near(data.output, data.expected.values);
}

TYPED_TEST(CppApiExecute, PackedKernel) {
  using T = TypeParam;
  Data<T> data;
  convt::Plan plan(small_problem<T>());
  std::vector<T> kernel(data.kernel.size());
  plan.pack_kernel(kernel);
  plan.execute<T>({.input = data.input, .output = data.output});
  expect_near(data.output, std::vector<double>(data.output.size(), 0.0));

  plan.pack_kernel(std::span<const T>(data.kernel));
  convt::Plan moved = std::move(plan);
  moved.execute<T>({.input = data.input, .kernel = kernel, .output = data.output});  // the given kernel is ignored
  expect_near(data.output, data.expected.values);
}

TYPED_TEST(CppApiExecute, ChannelsLast) {
  using T = TypeParam;
  Data<T> data;
  const auto to_channels_last = [](const Image& image, const std::vector<double>& values) {
    std::vector<double> result;
    const std::size_t pixels = image.axes[0] * image.axes[1] * image.axes[2];
    for (std::size_t n = 0; n < image.batch; ++n)
      for (std::size_t p = 0; p < pixels; ++p)
        for (std::size_t c = 0; c < image.channels; ++c)
          result.push_back(values[(n * image.channels + c) * pixels + p]);
    return result;
  };
  const Image in{small.batch_size, small.in_channels, small.input};
  const std::vector<T> input = from_doubles<T>(to_channels_last(in, to_doubles(data.input)));
  convt::Problem problem = small_problem<T>();
  problem.input_layout = problem.output_layout = convt::Layout::channels_last;
  convt::Plan(problem).execute<T>({.input = input, .kernel = data.kernel, .output = data.output});
  expect_near(data.output, to_channels_last(data.expected, data.expected.values));
}

TEST(CppApiPlan, CallersWorkspace) {
  Data<float> data;
  const convt::Plan plan(small_problem<float>("layer_norm(trailing=4)"), {.engine = "reference"});
  std::vector<float> alone(data.output.size());
  plan.execute<float>({.input = data.input, .kernel = data.kernel, .output = alone});

  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> lines(plan.workspace_size() / sizeof(Line) + 2);
  const std::span<std::byte> workspace(lines.front().bytes, lines.size() * sizeof(Line));
  convt::Tensors<float> tensors{
      .input = data.input, .kernel = data.kernel, .output = data.output, .workspace = workspace};
  plan.execute(tensors);
  EXPECT_EQ(data.output, alone);

  ASSERT_GT(plan.workspace_size(), 1u);
  tensors.workspace = workspace.first(plan.workspace_size() - 1);
  EXPECT_EQ(error_of([&] { plan.execute(tensors); }), "invalid_argument: workspace: must have at least " +
                                                          std::to_string(plan.workspace_size()) + " bytes (got " +
                                                          std::to_string(plan.workspace_size() - 1) + ")");
  const convt::Workspace owned(plan);
  EXPECT_EQ(owned.size(), plan.workspace_size());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(owned.data()) % 64, 0u);
  tensors.workspace = owned;
  std::fill(data.output.begin(), data.output.end(), data.output[0] + 1);
  EXPECT_NO_THROW(plan.execute(tensors));
  EXPECT_EQ(data.output, alone);
  tensors.workspace = workspace.subspan(1);
  expect_contains(error_of([&] { plan.execute(tensors); }), "invalid_argument: workspace");
}

TEST(CppApiPlan, CallersThreads) {
  const auto plan = convt::Plan::from_text("conv_transpose2d channels=32->32 input=40x40 kernel=3 stride=2 | relu");
  const std::vector<float> input(32 * 40 * 40, 1.0f), kernel(32 * 32 * 9, 0.5f);
  std::vector<float> output(32 * 81 * 81), expected(output);
  plan.execute<float>({.input = input, .kernel = kernel, .output = expected});
  static std::size_t most;
  most = 0;
  convt_thread_pool pool = CONVT_THREAD_POOL_INIT;
  pool.num_threads = 3;
  pool.parallel_for = [](void*, std::size_t tasks, void (*task)(void*, std::size_t), void* argument) {
    most = std::max(most, tasks);
    for (std::size_t i = 0; i < tasks; ++i) task(argument, i);
  };
  plan.execute<float>({.input = input, .kernel = kernel, .output = output, .thread_pool = &pool});
  EXPECT_EQ(output, expected);
  EXPECT_LE(most, 3U);
  pool.parallel_for = nullptr;
  EXPECT_EQ(error_of([&] {
              plan.execute<float>({.input = input, .kernel = kernel, .output = output, .thread_pool = &pool});
            }),
            "invalid_argument: thread_pool: must have a parallel_for");
}

TEST(CppApiPlan, ThreadsShareAPlan) {
  Data<float> data;
  const convt::Plan plan(small_problem<float>("gelu"));
  plan.execute<float>({.input = data.input, .kernel = data.kernel, .output = data.output});
  std::vector<std::vector<float>> outputs(4, std::vector<float>(data.output.size()));
  std::vector<std::thread> threads;
  threads.reserve(outputs.size());
  for (std::vector<float>& output : outputs)
    threads.emplace_back([&] { plan.execute<float>({.input = data.input, .kernel = data.kernel, .output = output}); });
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<float>& output : outputs) EXPECT_EQ(output, data.output);
}

TEST(CppApiPlan, PlansMove) {
  std::vector<convt::Plan> plans;
  for (std::size_t kernel = 1; kernel < 8; ++kernel)
    plans.push_back(convt::Plan({.in_channels = 1, .out_channels = 1, .input = {3}, .kernel = {kernel}}));
  std::swap(plans.front(), plans.back());
  EXPECT_EQ(plans.front().output_info().shape, (Sizes{1, 1, 9}));
  EXPECT_NE(plans.front().get(), nullptr);
  const convt::Plan taken = std::move(plans.front());
  EXPECT_EQ(taken.output_info().elements(), 9u);
  plans.front() = convt::Plan::from_text("conv_transpose1d channels=1->1 input=3 kernel=2");
  EXPECT_EQ(plans.front().output_info().elements(), 4u);
}

TEST(CppApiPlan, EmptyBatch) {
  const convt::Plan plan({.batch_size = 0, .in_channels = 1, .out_channels = 2, .input = {3}, .kernel = {2}});
  EXPECT_EQ(plan.output_info().elements(), 0u);
  const std::vector<float> kernel(4);
  plan.execute<float>({.kernel = kernel});
}

// ---------------------------------------------------------------- what is refused

TEST(CppApiErrors, SpansThatDoNotFitThePlan) {
  const std::vector<float> input{1, 2, 3}, kernel{1, 10}, bias{0.5f};
  std::vector<float> output(4, -7.0f);
  convt::Plan plan = convt::Plan::from_text("conv_transpose1d channels=1->1 input=3 kernel=2 | bias");
  const convt::Tensors<float> good{.input = input, .kernel = kernel, .output = output, .operands = {bias}};
  const auto message = [&](auto change) {
    convt::Tensors<float> bad = good;
    change(bad);
    return error_of([&] { plan.execute(bad); });
  };
  EXPECT_EQ(message([&](auto& t) { t.input = kernel; }),
            "invalid_argument: input: must have 3 elements, 1x1x3 (got 2)");
  EXPECT_EQ(message([&](auto& t) { t.kernel = {}; }), "invalid_argument: kernel: must have 2 elements, 1x1x2 (got 0)");
  EXPECT_EQ(message([&](auto& t) { t.output = std::span(output).first(3); }),
            "invalid_argument: output: must have 4 elements, 1x1x4 (got 3)");
  EXPECT_EQ(message([&](auto& t) { t.operands = {}; }),
            "invalid_argument: operands: must be 1, what the chain takes (got 0)");
  EXPECT_EQ(message([&](auto& t) {
              t.operands = {bias, bias};
            }),
            "invalid_argument: operands: must be 1, what the chain takes (got 2)");
  EXPECT_EQ(message([&](auto& t) { t.operands = {input}; }),
            "invalid_argument: operands[0] (" + plan.operand_infos()[0].name + "): must have 1 elements, 1 (got 3)");
  const std::vector<double> doubles{1, 2};
  EXPECT_EQ(
      message([&](auto& t) { t.operands = {std::span(doubles).first(1)}; }),
      "invalid_argument: operands[0] (" + plan.operand_infos()[0].name + "): must have elements of type f32 (got f64)");
  EXPECT_EQ(error_of([&] { plan.execute(convt::Tensors<double>{}); }),
            "invalid_argument: input: must have elements of type f32 (got f64)");
  EXPECT_EQ(error_of([&] { plan.pack_kernel(doubles); }),
            "invalid_argument: kernel: must have elements of type f32 (got f64)");
  EXPECT_EQ(error_of([&] { plan.pack_kernel(input); }),
            "invalid_argument: kernel: must have 2 elements, 1x1x2 (got 3)");
  // A pointer that is null although its span is not empty, and an overlap, are for the library to find.
  expect_contains(message([&](auto& t) {
                    t.input = {static_cast<const float*>(nullptr), 3};
                  }),
                  "invalid_argument: input");
  expect_contains(message([&](auto& t) { t.input = std::span(output).first(3); }), "overlap");
  EXPECT_EQ(output, std::vector<float>(4, -7.0f));

  plan.execute(good);
  EXPECT_EQ(output, (std::vector<float>{1.5f, 12.5f, 23.5f, 30.5f}));
}

TEST(CppApiErrors, ProblemsThatBreakARule) {
  const convt::Problem good{.in_channels = 2, .out_channels = 2, .input = {5, 5}, .kernel = {3}};
  const auto message = [&](auto change) {
    convt::Problem bad = good;
    change(bad);
    return error_of([&] { convt::Plan plan(bad); });
  };
  EXPECT_EQ(message([](auto& p) {
              p.stride = {2, 2, 2};
            }),
            "invalid_argument: stride: takes one size or 2, one per spatial axis (got 3)");
  EXPECT_EQ(message([](auto& p) { p.kernel = {}; }),
            "invalid_argument: kernel: takes one size or 2, one per spatial axis (got 0)");
  expect_contains(message([](auto& p) { p.input = {}; }), "invalid_argument: dims");
  expect_contains(message([](auto& p) { p.input = {2, 2, 2, 2}; }), "invalid_argument: dims");
  expect_contains(message([](auto& p) { p.dims = 4; }), "invalid_argument: dims");
  expect_contains(message([](auto& p) { p.dims = 3; }), "invalid_argument: input");
  expect_contains(message([](auto& p) { p.dilation = {0}; }), "invalid_argument: dilation");
  expect_contains(message([](auto& p) { p.groups = 3; }), "invalid_argument: groups");
  expect_contains(message([](auto& p) { p.dtype = static_cast<convt::DType>(9); }), "invalid_argument: dtype");
  expect_contains(message([](auto& p) { p.chain = "bias | rellu"; }), "rellu");
  EXPECT_EQ(message([](auto& p) { p.chain = std::string("gelu\0 | relu", 12); }),
            "invalid_argument: chain: must not contain a NUL character (got one at position 4)");
}

TEST(CppApiErrors, TextsAndOptions) {
  constexpr std::string_view text = "conv_transpose1d channels=1->1 input=3 kernel=2 and more";
  expect_contains(error_of([&] { convt::Plan::from_text(text); }), "invalid_argument: text");
  const std::string_view start = text.substr(0, text.find(" and"));  // a view that no NUL ends
  EXPECT_EQ(convt::Plan::from_text(start).output_info().elements(), 4u);
  expect_contains(error_of([&] { convt::Plan::from_text(""); }), "invalid_argument: text");
  expect_contains(error_of([&] { convt::Plan::from_text(std::string_view("a\0b", 3)); }), "NUL");
  expect_contains(error_of([&] { convt::Plan::from_text(start, {.engine = "steam"}); }), "steam");
  try {
    convt::Plan::from_text(start, {.engine = "steam"});
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(dynamic_cast<const convt::Error*>(&error), nullptr);
  }
}

}  // namespace
}  // namespace convt_test
