// SPDX-License-Identifier: Apache-2.0
// The planner's algebra: a program, run step by step in doubles, against the reference on the problem as it was asked;
// and which programs come out.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backends.hpp"
#include "epilogue/text.hpp"
#include "plan/plan.hpp"
#include "plan/work.hpp"
#include "reference/chain.hpp"

namespace convt::core {
namespace {

using Data = std::vector<double>;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

Program program_of(const std::string& text) {
  return rewrite(std::make_shared<const Descriptor>(validate(parse_problem(text))));
}

std::vector<std::string> steps_of(const Program& program) {
  std::vector<std::string> all;
  for (const Step& step : program.steps) all.push_back(print(step));
  return all;
}

// ---- A program in doubles.

struct Tensors {
  Data input, kernel;
  std::vector<Data> operands;
  std::vector<const void*> pointers;
};

Tensors random_tensors(const Descriptor& d, unsigned seed) {
  std::mt19937 engine(seed);
  const auto data = [&](std::int64_t count, double low, double high) {
    Data values(at(count));
    for (double& value : values) value = std::uniform_real_distribution(low, high)(engine);
    return values;
  };
  Tensors tensors{data(d.input.count(), -1, 1), data(d.kernel_count, -1, 1), {}, {}};
  // Operands stay away from 0: some are variances and divisors.
  for (const Operand& operand : d.operands) tensors.operands.push_back(data(operand.count, 0.5, 1.5));
  for (const Data& operand : tensors.operands) tensors.pointers.push_back(operand.data());
  return tensors;
}

// By its definition, for outputs of the size that the program says.
Data convolve(const Convolution& c, const double* input, const Data& kernel) {
  const std::int64_t ins = c.in_channels / c.groups, outs = c.out_channels / c.groups;
  Data output(at(c.out_channels * volume(c.output)));
  std::size_t tap = 0;
  for (std::int64_t ic = 0; ic < c.in_channels; ++ic)
    for (std::int64_t o = 0; o < outs; ++o)
      for (std::int64_t kd = 0; kd < c.kernel[0]; ++kd)
        for (std::int64_t kh = 0; kh < c.kernel[1]; ++kh)
          for (std::int64_t kw = 0; kw < c.kernel[2]; ++kw, ++tap) {
            const std::int64_t oc = ic / ins * outs + o;
            const double* from = input + ic * volume(c.input);
            for (std::int64_t d = 0; d < c.input[0]; ++d)
              for (std::int64_t h = 0; h < c.input[1]; ++h)
                for (std::int64_t w = 0; w < c.input[2]; ++w, ++from) {
                  const std::int64_t od = d * c.stride[0] - c.padding[0] + kd * c.dilation[0];
                  const std::int64_t oh = h * c.stride[1] - c.padding[1] + kh * c.dilation[1];
                  const std::int64_t ow = w * c.stride[2] - c.padding[2] + kw * c.dilation[2];
                  if (od < 0 || oh < 0 || ow < 0 || od >= c.output[0] || oh >= c.output[1] || ow >= c.output[2])
                    continue;
                  output[at(((oc * c.output[0] + od) * c.output[1] + oh) * c.output[2] + ow)] += kernel[tap] * *from;
                }
          }
  return output;
}

Data run_affine(const Program& program, const Step& step, const Tensors& tensors, Data value) {
  Data a(at(step.out.channels)), b(a.size());
  evaluate(program, std::get<Affine>(step.what), tensors.pointers, a, b);
  const std::size_t pixels = at(volume(step.in.space));
  for (std::size_t i = 0; i < value.size(); ++i) value[i] = a[i / pixels] * value[i] + b[i / pixels];
  return value;
}

// `kept`: by step, what it kept.
Data run_op(const Program& program, const Step& step, const Tensors& tensors, std::int64_t image, const Data& value,
            const Data& conv, const std::vector<Data>& kept) {
  std::vector<OperandView> views;
  for (std::size_t i = step.first_operand; i < step.first_operand + step.operand_count; ++i) {
    const bool whole = program.asked->operands[i].spec.kind == OperandSpec::whole;
    const std::size_t offset = whole ? at(image) * value.size() : 0;
    views.push_back({tensors.operands[i].data() + offset, CONVT_F64, volume(step.in.space), 1});
  }
  Data result(at(step.out.channels * volume(step.out.space)));
  Image with{value.data(), conv.data(), views, result.data()};
  if (const Name* name = used_name(step)) {
    with.other = kept[program.kept_at(*name)].data();
    with.other_shape = program.steps[program.kept_at(*name)].out;
  }
  run_stage({std::get<Op>(step.what), step.in, step.out, 0, 0}, with);
  return result;
}

Data run(const Program& program, const Tensors& tensors) {
  Data kernel = tensors.kernel, output;
  if (program.kernel_change.any()) {
    kernel.assign(at(program.kernel_count), std::nan(""));
    change_kernel(program, tensors.kernel.data(), kernel.data(), 0, changed_pairs(program));
  }
  const std::int64_t input = program.convolution.in_channels * volume(program.convolution.input);
  for (std::int64_t image = 0; image < program.conv.batch; ++image) {
    const Data conv = convolve(program.convolution, tensors.input.data() + image * input, kernel);
    Data value = conv;
    std::vector<Data> kept;
    for (const Step& step : program.steps) {
      EXPECT_EQ(value.size(), at(step.in.channels * volume(step.in.space)));
      value = std::holds_alternative<Affine>(step.what) ? run_affine(program, step, tensors, std::move(value))
                                                        : run_op(program, step, tensors, image, value, conv, kept);
      kept.push_back(value);
    }
    output.insert(output.end(), value.begin(), value.end());
  }
  return output;
}

Data run_reference(const Descriptor& descriptor, const Tensors& tensors) {
  PlanOptions options;
  options.engine = "reference";
  const Plan plan(descriptor, options, backends());
  Data output(at(descriptor.output.count()));
  plan.execute({.input = tensors.input.data(),
                .kernel = tensors.kernel.data(),
                .output = output.data(),
                .operands = tensors.pointers});
  return output;
}

// What engines rely on: which ops are left, shapes that follow one another, the formula of the output's size.
std::string broken_promise(const Program& program) {
  Shape shape = program.conv;
  for (const Step& step : program.steps) {
    if (!(step.in == shape)) return "shapes do not follow at " + print(step);
    shape = step.out;
    const Op* any = std::get_if<Op>(&step.what);
    const bool folds = any != nullptr && std::visit(
                                             []<class T>(const T& op) {
                                               if constexpr (std::derived_from<T, Combine>)
                                                 return op.term.kind == Term::scalar || op.term.kind == Term::channel;
                                               if constexpr (std::derived_from<T, Reduce>) return op.axes.any_space();
                                               if constexpr (std::derived_from<T, Normalise>)
                                                 return op.region().kind == Region::given ||
                                                        op.region().kind == Region::axes ||
                                                        (op.affine && op.region().kind != Region::trailing);
                                               return false;
                                             },
                                             *any);
    if (folds) return "not folded: " + print(step);
  }
  if (!(shape == program.asked->output)) return "the last step does not make the output";
  const Convolution& c = program.convolution;
  for (std::size_t a = 0; a < 3; ++a)
    if (c.padding[a] < 0 || c.output[a] != (c.input[a] - 1) * c.stride[a] - 2 * c.padding[a] +
                                               c.dilation[a] * (c.kernel[a] - 1) + c.output_padding[a] + 1)
      return "the output's size does not follow from the convolution";
  return "";
}

// "" or what is wrong.
std::string compare(const std::string& text, unsigned seed) {
  const Program program = program_of(text);
  if (const std::string broken = broken_promise(program); !broken.empty()) return broken;
  const Tensors tensors = random_tensors(*program.asked, seed);
  const Data expected = run_reference(*program.asked, tensors), got = run(program, tensors);
  if (got.size() != expected.size()) return "sizes differ";
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!(std::fabs(got[i] - expected[i]) <= 1e-8 * (1 + std::fabs(expected[i]))))
      return fmt::format("element {}: {} for {}", i, got[i], expected[i]);
  return "";
}

// ---- Random problems.

int pick(int low, int high) { return *rc::gen::inRange(low, high + 1); }

std::string random_case() {
  static const std::vector<std::string> linear{
      "bias",       "add(0.75)", "sub(channel)",       "mul(2)",    "mul(channel)", "div(-4)", "div(channel)",
      "batch_norm", "add(0)",    "batch_norm(affine)", "sub(0.75)", "div(2)"};
  static const std::vector<std::string> folds{"avg_pool(2)",
                                              "avg_pool(2)",
                                              "avg_pool(1, stride=2)",
                                              "avg_pool(3, stride=2)",
                                              "avg_pool(3, stride=1)",
                                              "avg_pool(2, stride=4)",
                                              "avg_pool(2, stride=2, padding=1)",
                                              "avg_pool(2, ceil)",
                                              "global_avg_pool",
                                              "sum_pool(2)",
                                              "sum_pool(3, stride=1)",
                                              "sum(axes=w)",
                                              "mean(axes=cw)",
                                              "sum",
                                              "mean"};
  static const std::vector<std::string> others{"layer_norm(channels)",
                                               "layer_norm(channels, affine)",
                                               "group_norm(1, affine)",
                                               "group_norm(1)",
                                               "instance_norm(affine)",
                                               "instance_norm",
                                               "layer_norm(trailing=1, affine)",
                                               "layer_norm(trailing=2)",
                                               "relu",
                                               "softmax",
                                               "add(tensor)",
                                               "mul(conv)",
                                               "max_pool(2)",
                                               "max",
                                               "max(axes=cw)",
                                               "min(axes=w)",
                                               "logsumexp(axes=w)",
                                               "softmax(axes=w)",
                                               "softmax(axes=cw)",
                                               "log_softmax(axes=cw)",
                                               "keep(a)",
                                               "add(a)",
                                               "mul(a)",
                                               "logsumexp"};
  const int dims = pick(1, 2), groups = pick(1, 2);
  std::string text = fmt::format("conv_transpose{}d dtype=f64 batch=2 channels={}->{} groups={}", dims,
                                 groups * pick(1, 2), groups * pick(1, 3), groups);
  const auto axes = [&](const char* name, int low, int high) {
    text += fmt::format(" {}={}", name, pick(low, high));
    for (int axis = 1; axis < dims; ++axis) text += fmt::format("x{}", pick(low, high));
  };
  axes("input", 2, 6);
  axes("kernel", 1, 6);
  axes("stride", 1, 4);
  axes("padding", 0, 3);
  axes("dilation", 1, 4);
  axes("output_padding", 0, 1);
  try {
    validate(parse_problem(text));
  } catch (const Error&) {
    return "";
  }
  std::string separator = " | ";
  for (int ops = pick(1, 6); ops > 0; --ops) {
    const int kind = pick(0, 9);
    const auto& list = kind < 5 ? linear : kind < 8 ? folds : others;
    const std::string longer = text + separator + list[at(pick(0, static_cast<int>(list.size()) - 1))];
    try {
      validate(parse_problem(longer));
      text = longer;
    } catch (const Error&) {  // a chain that cannot be
    }
  }
  return text;
}

RC_GTEST_PROP(Rewrite, GivesWhatWasAsked, ()) {
  const std::string text = random_case();
  RC_PRE(!text.empty());
  RC_LOG() << text << "\n";
  RC_ASSERT(compare(text, static_cast<unsigned>(pick(0, 1 << 20))) == "");
}

// ---- Which programs come out.

constexpr const char* plain = "conv_transpose2d dtype=f64 channels=4->6 input=5 kernel=3 stride=2 padding=1";

struct Pinned {
  std::string chain;
  std::vector<std::string> steps;
};

TEST(Rewrite, Steps) {
  for (const Pinned& pinned : std::vector<Pinned>{
           {"", {}},
           {"bias", {"bias"}},
           {"bias | relu", {"bias", "relu"}},
           {"bias | batch_norm(affine) | mul(2) | relu | mul(3)",
            {"bias, batch_norm(affine), mul(2)", "relu", "mul(3)"}},
           {"layer_norm(channels, affine) | gelu",
            {"layer_norm(channels)", "weight and bias of layer_norm(channels, affine)", "gelu"}},
           {"group_norm(2, affine) | mul(2)", {"group_norm(2)", "weight and bias of group_norm(2, affine), mul(2)"}},
           {"layer_norm(trailing=2, affine)", {"layer_norm(trailing=2, affine)"}},
           {"add(tensor) | mul(conv)", {"add(tensor)", "mul(conv)"}},
           // Shifts before norms.
           {"add(1.5) | layer_norm(channels)", {"layer_norm(channels)"}},
           {"mul(channel) | add(1.5) | layer_norm(channels)", {"mul(channel)", "layer_norm(channels)"}},
           {"add(1) | bias | mul(2) | sub(1) | layer_norm(channels)", {"bias, mul(2)", "layer_norm(channels)"}},
           {"add(1) | mul(channel) | layer_norm(channels)", {"add(1), mul(channel)", "layer_norm(channels)"}},
           {"add(1) | relu | layer_norm(channels)", {"add(1)", "relu", "layer_norm(channels)"}},
           {"bias | layer_norm(channels)", {"bias", "layer_norm(channels)"}},
           {"bias | instance_norm", {"instance_norm"}},
           {"bias | mul(channel) | layer_norm(trailing=2)", {"mul(channel)", "layer_norm(trailing=2)"}},
           {"bias | layer_norm(trailing=3)", {"bias", "layer_norm(trailing=3)"}},
           {"add(1) | group_norm(2)", {"group_norm(2)"}},
           {"mul(2) | layer_norm(channels)", {"mul(2)", "layer_norm(channels)"}},  // eps notices
           {"add(1) | softmax", {"add(1)", "softmax"}},
           {"add(inf) | layer_norm(channels)", {"add(inf)", "layer_norm(channels)"}},
           // What changes nothing.
           {"add(0) | relu", {"relu"}},
           {"mul(2) | div(2) | relu", {"relu"}},
           {"add(1) | sub(1)", {}},
           {"div(0)", {"div(0)"}},
           {"max | sum", {"max"}},
           // Sums over channels.
           {"sum", {}},
           {"mean | relu", {"relu"}},
           {"bias | sum | mul(2)", {"bias, sum, mul(2)"}},
           {"mul(2) | sum | mul(0.5)", {}},
           {"mul(channel) | sum", {"mul(channel)", "sum"}},
           {"relu | sum", {"relu", "sum"}},
           {"max_pool(2) | sum", {"max_pool(2)", "sum"}},
           {"bias | avg_pool(3, padding=1) | sum", {"bias, sum", "avg_pool(3, padding=1)"}},
           {"global_avg_pool | mean", {"global_avg_pool"}},
           {"mul(conv) | sum", {"mul(conv)", "sum"}},
           {"logsumexp", {"logsumexp"}},
           // Average pools.
           {"avg_pool(2)", {}},
           {"bias | avg_pool(2) | mul(channel) | relu", {"bias, mul(channel)", "relu"}},
           {"avg_pool(2) | sum", {}},
           {"sum | avg_pool(2)", {}},
           {"relu | avg_pool(2)", {"relu", "avg_pool(2)"}},
           {"avg_pool(2, padding=1)", {"avg_pool(2, padding=1)"}},
           {"avg_pool(3)", {"avg_pool(3)"}},  // 3 does not divide the stride
           {"max_pool(2)", {"max_pool(2)"}},
           // Shifts before max pools.
           {"bias | max_pool(2) | max_pool(3) | sum", {"max_pool(2)", "max_pool(3)", "bias", "sum"}},
           {"bias | max_pool(2, padding=1) | mul(channel)", {"max_pool(2, padding=1)", "bias, mul(channel)"}},
           {"mul(2) | max_pool(2)", {"mul(2)", "max_pool(2)"}},
           {"avg_pool(2, stride=1)", {"avg_pool(2, stride=1)"}},  // more taps, not fewer
           // Sums of windows have a shift as often as they have elements.
           {"sum_pool(2)", {}},
           {"mul(2) | sum_pool(2)", {"mul(2)"}},
           {"bias | sum_pool(2)", {"bias", "sum_pool(2)"}},
           // Reductions over space.
           {"sum(axes=hw)", {"sum_pool(9)"}},
           {"mean(axes=cw) | relu", {"avg_pool(1x9)", "relu"}},
           {"relu | max(axes=ch)", {"relu", "max", "max_pool(9x1)"}},
           {"min(axes=w)", {"min_pool(1x9)"}},
           // Kept values.
           {"keep(a) | hardswish | mul(a)", {"hardswish", "mul(conv)"}},
           {"bias | keep(a) | relu", {"bias", "relu"}},
           {"bias | keep(a) | mean | mul(a)", {"bias", "keep(a)", "mean", "mul(a)"}},
           {"bias | softmax(axes=w)",
            {"bias", "keep(1)", "max_pool(1x9)", "mul(-1)", "add(1)", "exp", "keep(6)", "sum_pool(1x9)", "pow(-1)",
             "mul(6)"}},
       }) {
    const std::string text = plain + (pinned.chain.empty() ? "" : " | " + pinned.chain);
    EXPECT_EQ(steps_of(program_of(text)), pinned.steps) << pinned.chain;
    const bool finite = pinned.chain.find("inf") == std::string::npos && pinned.chain.find("(0)") == std::string::npos;
    if (finite || pinned.chain == "add(0) | relu") {
      EXPECT_EQ(compare(text, 7), "") << pinned.chain;
    }
  }
}

TEST(Rewrite, SaysWhatItDid) {
  EXPECT_TRUE(program_of(std::string(plain) + " | bias | relu").notes.empty());
  const auto notes = program_of(std::string(plain) + " | bias | mul(2) | avg_pool(2) | mean | add(3)").notes;
  ASSERT_EQ(notes.size(), 3U);
  EXPECT_EQ(notes[0], "mean moves into the kernel: 1 output channel instead of 6");
  EXPECT_EQ(notes[1], "avg_pool(2) moves into the kernel: 2x2 taps at stride 1x1 instead of 3x3 at 2x2");
  EXPECT_EQ(notes[2], "bias, mul(2), mean, add(3): one multiply-add per channel");
}

struct Declined {
  std::string conv, chain, line;  // "": nothing is declined
};

TEST(Rewrite, SaysWhatItDeclined) {
  const std::string one = "conv_transpose1d dtype=f64 channels=2->2 ";
  for (const Declined& d : std::vector<Declined>{
           {plain, "bias | relu | avg_pool(2)", ""},
           {plain, "bias | avg_pool(2) | sum", ""},
           {plain, "bias | global_avg_pool", ""},  // engines say what they do with it
           {plain, "avg_pool(2, padding=1)", "windows reach outside the image"},
           {plain, "bias | avg_pool(3)", "its stride 3 does not divide the convolution's 2 along h"},
           {plain, "avg_pool(2, stride=1)", "the kernel would have 4x4 taps instead of 3x3"},
           {plain, "bias | sum_pool(2)", "its sums have the shift of bias once for each element"},
           {plain, "avg_pool(1) | mul(conv)", "a later step uses the convolution's result"},
           {plain, "mul(channel) | sum", "mul(channel) is not the same for all channels"},
           {one + "input=8 kernel=4 stride=4", "avg_pool(2, stride=4) | avg_pool(2)",
            "windows that moved before it overlap or leave gaps"},
           {one + "input=4 kernel=1025 stride=2", "avg_pool(2)", "the kernel has more than 1024 taps along w"},
           {one + "input=4 kernel=3 stride=4 dilation=3", "avg_pool(2)", "taps of the new kernel would be 0 along w"},
       }) {
    const std::string text = d.conv + " | " + d.chain;
    const auto declined = program_of(text).declined;
    ASSERT_EQ(declined.size(), d.line.empty() ? 0U : 1U) << text;
    if (!declined.empty()) {
      EXPECT_TRUE(declined[0].ends_with(" stays behind the convolution: " + d.line)) << declined[0];
    }
  }
  const auto apart = program_of(std::string(plain) + " | mul(1e200) | mul(1e200)").declined;
  ASSERT_EQ(apart.size(), 1U);
  EXPECT_EQ(apart[0], "mul(1e+200) and mul(1e+200) stay apart: their constants may leave the range together");

  const auto asked =
      std::make_shared<const Descriptor>(validate(parse_problem(std::string(plain) + " | avg_pool(2) | sum")));
  const Program unmoved = rewrite(asked, {true, true, "a reason"});
  EXPECT_FALSE(unmoved.kernel_change.any());
  EXPECT_EQ(unmoved.declined, (std::vector<std::string>{"avg_pool(2) stays behind the convolution: a reason",
                                                        "sum stays behind the convolution: a reason"}));
}

struct Shrunk {
  std::string conv, chain;
  std::int64_t kernel, stride, padding, dilation, output;  // along W
  double needed;                                           // products, of one pair of channels
};

TEST(Rewrite, PoolsShrinkTheKernel) {
  for (const Shrunk& s : std::vector<Shrunk>{
           {"input=8 kernel=3 stride=2 padding=1 output_padding=1", "avg_pool(2)", 2, 1, 1, 1, 8, 15},
           {"input=8 kernel=4 stride=2", "avg_pool(2)", 2, 1, 0, 1, 9, 16},
           {"input=8 kernel=4 stride=4 padding=1", "avg_pool(2)", 3, 2, 1, 1, 15, 22},
           {"input=8 kernel=8 stride=4", "avg_pool(4)", 2, 1, 0, 1, 9, 16},
           {"input=8 kernel=8 stride=4", "avg_pool(2) | avg_pool(2)", 2, 1, 0, 1, 9, 16},
           {"input=8 kernel=8 stride=4", "avg_pool(3, stride=2)", 5, 2, 1, 1, 17, 38},
           {"input=6 kernel=4 stride=4 dilation=8", "avg_pool(2)", 4, 2, 0, 4, 22, 23},
           {"input=6 kernel=1 stride=2 output_padding=1", "avg_pool(2)", 1, 1, 0, 1, 6, 6},
           {"input=6 kernel=4 stride=4 padding=1", "avg_pool(1, stride=4)", 1, 1, 0, 1, 6, 6},
           {"input=6 kernel=5 stride=2 padding=3", "avg_pool(2, stride=2)", 3, 1, 2, 1, 4, 12},
       }) {
    const Program program = program_of("conv_transpose1d dtype=f64 channels=1->1 " + s.conv + " | " + s.chain);
    const std::string& text = program.asked->text;
    const Convolution& c = program.convolution;
    const bool shrinks = program.kernel_change.any();
    EXPECT_EQ(c.kernel[2], s.kernel) << text;
    EXPECT_EQ(c.stride[2], s.stride) << text;
    EXPECT_EQ(c.padding[2], s.padding) << text;
    EXPECT_EQ(c.dilation[2], s.dilation) << text;
    EXPECT_EQ(c.output[2], s.output) << text;
    EXPECT_EQ(count_work(program).needed, s.needed) << text;
    EXPECT_LE(count_work(program).needed, count_work(*program.asked).needed) << text;
    EXPECT_EQ(program.kernel_count, c.kernel[2]) << text;
    EXPECT_TRUE(shrinks) << text;
    EXPECT_EQ(compare(text, 3), "");
  }
}

TEST(Rewrite, CountsTheProductsLeft) {
  const Program program =
      program_of("conv_transpose3d channels=8->16 groups=2 input=6 kernel=3 stride=2 padding=1 | mul(3) | sum");
  EXPECT_EQ(16 * count_work(program).needed / 2, count_work(*program.asked).needed);
  EXPECT_EQ(scattered_products(program), 8 * std::pow(6 * 3, 3));
}

// Sixteen-bit weights are summed exactly and rounded once, to float.
TEST(Rewrite, KernelIsRoundedOnce) {
  const Program program = program_of("conv_transpose1d dtype=f16 channels=1->4 input=3 kernel=2 | mean");
  std::vector<convt_f16> asked;
  for (const double weight : {1.0, 0.5, 1.0 / 1024, 2.0, 3.0, -2.0, 5.0, 2048.0})
    asked.push_back(from_double<convt_f16>(weight));
  std::vector<float> kernel(at(program.kernel_count));
  change_kernel(program, asked.data(), kernel.data(), 0, changed_pairs(program));
  EXPECT_EQ(kernel, (std::vector<float>{(9 + 1.0F / 1024) / 4, 2048.5F / 4}));
}

// Whoever rewrites large problems looks at their sizes only.
TEST(Rewrite, TakesAnySizes) {
  for (const std::string text :
       {"conv_transpose1d channels=1->1 input=3 kernel=1099511627776 stride=2 | avg_pool(2) | sum",
        "conv_transpose1d channels=1->1 input=2 kernel=2 stride=576460752303423488 | avg_pool(576460752303423488)",
        "conv_transpose1d channels=65536->1048576 input=1048576 kernel=3 stride=2 | bias | avg_pool(2) | mean"}) {
    const Program program = program_of(text);
    EXPECT_EQ(broken_promise(program), "") << text;
  }
}

}  // namespace
}  // namespace convt::core
