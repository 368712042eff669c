// SPDX-License-Identifier: Apache-2.0
// The CPU engine as a whole, on every instruction set of this machine, with the checks of `convt verify`: against the
// reference engine in f64, and its convolution alone against the command's own.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "case_text.hpp"
#include "check.hpp"
#include "execution.hpp"
#include "random.hpp"
#include "support/environment.hpp"
#include "support/isas.hpp"
#include "tensor.hpp"

namespace convt::cli {
namespace {

using convt::testing::explained;
using convt::testing::isas;
using convt::testing::runs_on;

class CpuEngine : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { set_num_threads(4); }  // so that plans split channels
  void TearDown() override { set_num_threads(0); }

 private:
  const convt::testing::WithVariable isa_{"CONVT_ISA", GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Isas, CpuEngine, ::testing::ValuesIn(isas()), [](const auto& info) { return info.param; });

Plan make_plan(const std::string& text, std::size_t workspace_limit = 0) {
  return Plan::from_text(text, {.engine = "cpu", .workspace_limit = workspace_limit});
}

// The output's bits, in memory order.
std::vector<std::uint64_t> bits(const std::vector<double>& values) {
  std::vector<std::uint64_t> result(values.size());
  std::transform(values.begin(), values.end(), result.begin(),
                 [](double x) { return std::bit_cast<std::uint64_t>(x); });
  return result;
}
std::vector<std::uint64_t> run(Plan plan, const Inputs& inputs, const ExecutionOptions& options) {
  Execution execution(plan, inputs, options);
  execution.execute();
  EXPECT_EQ(execution.defect(), "");
  return bits(execution.output());
}

// The ways that a plan goes.
std::set<std::string> ways(const Plan& plan) {
  static const std::regex detail(R"((\d+) images, (\d+) channels, (direct|panel)( merged)?)");
  std::set<std::string> result;
  const std::string text = plan.explain();
  const bool sums = convt::testing::sums_in_kernel(text);
  std::size_t passes = 0;
  for (std::sregex_iterator one(text.begin(), text.end(), detail), end; one != end; ++one, ++passes) {
    const std::smatch& match = *one;
    if (passes == 0) result.insert(match[3]);
    if (match[4].matched) result.insert("merged");
    if (match[1] != "1") result.insert("images");
    if (!sums && std::stoul(match[2]) < plan.problem().out_channels) result.insert("splits");
  }
  if (passes > 1) result.insert("passes");
  for (const char* between : {"store", "recompute"})
    if (explained(text, "chosen").find(between) != std::string::npos) result.insert(between);
  return result;
}

// Checks a case in every way to hand it over, which all give the same bits. Adds the ways it went to `seen`.
void check(const std::string& text, std::uint64_t seed, const std::string& isa, std::set<std::string>& seen) {
  SCOPED_TRACE("convt verify --engine cpu --seed " + std::to_string(seed) + " '" + text + "'");
  const CaseReport report = check_case(text, seed, {.engine = "cpu"});
  EXPECT_EQ(report.defect, "");
  const Plan plan = make_plan(text);
  EXPECT_TRUE(runs_on(plan.explain(), isa)) << plan.explain();
  seen.merge(ways(plan));

  const Inputs inputs = make_inputs(plan, seed, Fill::unit);
  const auto plain = run(make_plan(text), inputs, {});
  EXPECT_EQ(run(make_plan(text), inputs, {.pack_kernel = true}), plain);
  EXPECT_EQ(run(make_plan(text), inputs, {.own_workspace = true, .guard = 67}), plain);
}

void check_all(const std::vector<std::string>& cases, const std::string& isa, const std::set<std::string>& expected) {
  std::set<std::string> seen;
  for (std::size_t i = 0; i < cases.size(); ++i) check(cases[i], i, isa, seen);
  for (const std::string& way : expected) EXPECT_TRUE(seen.contains(way)) << "no case goes the way " << way;
}

// ---- Random cases, of other sizes than those of `convt verify`.

struct Axis {
  std::size_t input, kernel, stride, dilation, output_padding, padding;
  std::size_t full() const { return (input - 1) * stride + dilation * (kernel - 1) + output_padding + 1; }
};

Axis draw_axis(Random& random, bool is_long) {
  Axis axis{};
  axis.input = is_long ? random.between(20, 150) : random.between(1, 7);
  axis.kernel = random.between(1, 5);
  axis.stride = random.pick<std::size_t>({1, 1, 2, 2, 3, 4, axis.kernel, axis.kernel + 2});
  axis.dilation = random.pick<std::size_t>({1, 1, 1, 2, 3});
  if (random.chance(30)) axis.output_padding = random.below(std::max(axis.stride, axis.dilation));
  if (random.chance(60)) axis.padding = random.between(0, std::min<std::size_t>(4, (axis.full() - 1) / 2));
  return axis;
}

const std::vector<std::string>& chains() {
  static const std::vector<std::string> all{
      "",
      "",
      "bias",
      "bias | gelu",
      "bias | max_pool(2) | max_pool(3) | sum",
      "layer_norm(channels) | gelu | mul(0.5)",
      "add(0.3) | layer_norm(channels) | avg_pool(2) | gelu",
      "layer_norm(trailing=1, affine) | relu",
      "layer_norm(trailing=2) | elu",
      "layer_norm(trailing=3, affine)",
      "layer_norm(trailing=4) | tanh",
      "group_norm(1, affine) | silu",
      "instance_norm | leaky_relu(0.2) | instance_norm(affine)",
      "instance_norm | max_pool(2, stride=3)",
      "instance_norm | add(conv)",
      "softmax | mul(tensor)",
      "logsumexp | add(conv)",
      "mish | mean",
      "avg_pool(3, stride=2, padding=1) | max",
      "max_pool(2, stride=1) | avg_pool(2, ceil) | min",
      "tanh | global_avg_pool | softmax | mul(2)",
      "global_avg_pool | sigmoid",
      "batch_norm | hardswish | add(tensor) | softplus",
  };
  return all;
}

bool is_legal(const std::string& text) {
  try {
    make_plan(text);
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::invalid_argument) << error.what();
    return false;
  }
}

// Adds the chain it takes to `used`.
std::string draw_case(std::uint64_t seed, std::set<std::string>& used) {
  Random random(seed);
  const std::size_t dims = random.between(1, 3);
  std::size_t batch = random.pick<std::size_t>({1, 1, 2, 3, 9}), groups = 1;
  auto in = random.pick<std::size_t>({1, 2, 3, 4, 7, 16, 33, 70});
  auto out = random.pick<std::size_t>({1, 2, 3, 5, 17, 8, 16, 33, 64});
  if (random.chance(35)) {
    groups = random.between(2, 5);
    in = groups * random.between(1, 4);
    out = groups * random.pick<std::size_t>({1, 1, 2, 7, 16});
  }
  std::vector<Axis> axes;
  const std::size_t long_axis = random.below(dims + 2);  // perhaps none
  for (std::size_t a = 0; a < dims; ++a) axes.push_back(draw_axis(random, a == long_axis));
  const auto cost = [&] {
    std::size_t products = batch * in * (out / groups), elements = batch * out;
    for (const Axis& axis : axes) {
      products *= axis.input * axis.kernel;
      elements *= axis.full();
    }
    return products + 16 * elements;
  };
  constexpr std::size_t most = 1'000'000;
  if (cost() > most) batch = 1;
  while (cost() > most) {
    Axis& largest =
        *std::max_element(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.input < b.input; });
    if (largest.input == 1) break;
    largest.input /= 2;
    largest.padding = 0;
  }
  const auto sizes = [&](const char* name, std::size_t Axis::*member) {
    Sizes all;
    for (const Axis& axis : axes) all.push_back(axis.*member);
    return std::string(" ") + name + "=" + join_sizes(all);
  };
  std::string text = "conv_transpose" + std::to_string(dims) +
                     "d dtype=" + random.pick<std::string>({"f32", "f32", "f32", "f64", "f16", "bf16"}) + " layout=" +
                     random.pick<std::string>({"channels_first", "channels_first", "channels_last",
                                               "channels_first->channels_last", "channels_last->channels_first"}) +
                     " batch=" + std::to_string(batch) + " channels=" + std::to_string(in) + "->" +
                     std::to_string(out) + " groups=" + std::to_string(groups) + sizes("input", &Axis::input) +
                     sizes("kernel", &Axis::kernel) + sizes("stride", &Axis::stride) +
                     sizes("dilation", &Axis::dilation) + sizes("output_padding", &Axis::output_padding) +
                     sizes("padding", &Axis::padding);
  const std::string& chain = random.pick(chains());
  const std::string longer = text + (chain.empty() ? "" : " | " + chain);
  if (!is_legal(longer)) return text;
  used.insert(chain);
  return longer;
}

TEST_P(CpuEngine, RandomCases) {
  std::vector<std::string> cases;
  std::set<std::string> used;
  for (std::uint64_t seed = 0; seed < 400; ++seed) cases.push_back(draw_case(seed, used));
  EXPECT_EQ(used, std::set<std::string>(chains().begin(), chains().end()));
  check_all(cases, GetParam(), {"direct", "panel", "merged", "images", "splits"});
}

// ---- Chosen cases.

TEST_P(CpuEngine, Shapes) {
  check_all(
      {
          // Kernels much longer than their stride, as in vocoders and codecs.
          "conv_transpose1d channels=4->1 input=100 kernel=256 stride=64 padding=96",
          "conv_transpose1d channels=4->5 input=60 kernel=256 stride=64",
          "conv_transpose1d dtype=f64 channels=3->2 input=40 kernel=250 stride=64",
          // Phases without a tap.
          "conv_transpose2d channels=3->5 input=9x40 kernel=2 stride=5x7",
          "conv_transpose3d channels=2->3 input=3 kernel=1 stride=3 output_padding=2 | bias | sigmoid",
          "conv_transpose2d channels=2->3 input=6x9 kernel=3 stride=4 dilation=2",
          // One tap per output.
          "conv_transpose2d batch=3 channels=8->4 input=12x33 kernel=2 stride=2",
          "conv_transpose2d channels=3->2 input=10x40 kernel=4 stride=4",
          "conv_transpose2d channels=2->17 input=10x40 kernel=3 stride=3 | layer_norm(channels)",
          // Rows long and short, channels many and few.
          "conv_transpose2d channels=8->16 input=5x150 kernel=3 stride=2 padding=1",
          "conv_transpose2d channels=5->3 input=3x300 kernel=3x7",
          "conv_transpose3d channels=6->8 input=6x7x8 kernel=3",
          "conv_transpose2d batch=9 channels=64->64 input=4 kernel=3 padding=1",
          "conv_transpose2d batch=5 channels=160->70 input=2x3 kernel=3 stride=2 dtype=bf16",
          "conv_transpose1d batch=40 channels=16->8 input=1 kernel=4 stride=4",
          "conv_transpose1d channels=600->1 input=7 kernel=3",
          "conv_transpose2d channels=48->48 groups=48 input=9x20 kernel=4 stride=2 padding=1 | bias | silu",
          "conv_transpose2d channels=12->60 groups=3 input=6x9 kernel=3 stride=2 | group_norm(6)",
          "conv_transpose2d channels=1->1 input=1 kernel=1",
          "conv_transpose2d channels=2->4 input=256 kernel=2 stride=2 | max_pool(3, stride=1, padding=1) | add(conv)",
          "conv_transpose1d channels=1->300000 input=1 kernel=1 | relu | max_pool(1) | add(conv)",
          "conv_transpose1d channels=8->1 input=1 kernel=2 stride=2 dilation=400000001 padding=200000001 "
          "output_padding=1",
          "conv_transpose3d dtype=f16 layout=channels_last channels=3->5 input=3x4x20 kernel=3 stride=2 dilation=2",
      },
      GetParam(), {"direct", "panel", "merged", "splits"});
}

// NaN and Inf, which some seeds put into the input, reach the outputs that they have a tap to, and no others.
TEST_P(CpuEngine, InfinitiesStayWhereTheyReach) {
  for (const std::string text : {
           "conv_transpose2d channels=1->2 input=6x5 kernel=3x4 stride=2x4 dilation=3x1 | avg_pool(2x4)",
           "conv_transpose2d channels=3->20 input=9x30 kernel=2 stride=3 | relu",
           "conv_transpose2d channels=3->2 input=5x70 kernel=5x4 stride=2x3 padding=2 | max_pool(2)",
           "conv_transpose3d channels=20->20 input=3 kernel=3 stride=2 padding=1 | layer_norm(channels)",
       })
    for (std::uint64_t seed = 0; seed < 15; ++seed)
      EXPECT_EQ(check_case(text, seed, {.engine = "cpu"}).defect, "") << "seed " << seed << ": " << text;
}

// Images too large for one tile, so that steps that need a whole image take passes of their own.
TEST_P(CpuEngine, WholeImages) {
  const std::string small = "conv_transpose2d channels=1->7 input=110x100 kernel=3 stride=2 ";
  const std::string volume = "conv_transpose3d batch=2 channels=1->6 input=16x17x20 kernel=3 stride=2 ";
  check_all(
      {
          small + "| instance_norm",
          small + "| instance_norm | gelu | instance_norm(affine)",
          small + "dtype=f64 | group_norm(1) | group_norm(7, affine)",
          small + "dtype=bf16 | relu | global_avg_pool | add(0.5) | tanh",
          small + "layout=channels_last | instance_norm | silu | global_avg_pool | layer_norm(channels)",
          small + "| sigmoid | max_pool(221x201) | mul(3)",
          small + "| instance_norm | add(conv) | relu",
          small + "| group_norm(1) | mul(conv) | instance_norm | max_pool(2, stride=3)",
          small + "dtype=f16 | layer_norm(trailing=3) | avg_pool(4, stride=3, padding=1)",
          small + "| layer_norm(trailing=2, affine) | max_pool(5) | max_pool(2, stride=4)",
          small + "| layer_norm(trailing=1) | softmax | instance_norm",
          volume + "| layer_norm(trailing=1, affine)",
          volume + "| layer_norm(trailing=2) | relu | max_pool(3, stride=2)",
          volume + "| layer_norm(trailing=3, affine) | elu",
          volume + "dtype=f16 | layer_norm(trailing=4) | add(tensor)",
          volume + "dtype=bf16 layout=channels_first->channels_last | instance_norm | global_avg_pool",
          "conv_transpose1d channels=2->3 input=50000 kernel=4 stride=2 | tanh | instance_norm | relu | sum",
          "conv_transpose2d channels=2->16 input=128 kernel=2 stride=2 | instance_norm | max_pool(2) | instance_norm",
      },
      GetParam(), {"passes"});
}

// ---- Workspace.

// Bytes that a candidate needs, as the refusal for want of workspace says.
std::size_t needed(const std::string& text, const std::string& candidate) {
  try {
    make_plan(text, 1);
  } catch (const Error& error) {
    const std::string message = error.what();
    const std::size_t found = message.find(candidate + ": needs ");
    return found == std::string::npos ? 0 : std::stoul(message.substr(found + candidate.size() + 8));
  }
  return 0;
}

TEST_P(CpuEngine, LittleWorkspaceRecomputes) {
  const std::string text =
      "conv_transpose2d dtype=bf16 channels=2->8 input=120x110 kernel=3 stride=2 | instance_norm | gelu | max_pool(2)";
  const std::size_t store = needed(text, "cpu " + GetParam() + " store"),
                    recompute = needed(text, "cpu " + GetParam() + " recompute");
  ASSERT_GT(recompute, 0U);
  ASSERT_GT(store, recompute);
  const Plan enough = make_plan(text, store), less = make_plan(text, store - 1);
  EXPECT_EQ(less.workspace_size(), recompute);
  EXPECT_TRUE(ways(less).contains("recompute")) << less.explain();
  EXPECT_THROW(make_plan(text, recompute - 1), Error);
  const Inputs inputs = make_inputs(less, 1, Fill::signed_unit);
  EXPECT_EQ(run(make_plan(text, store - 1), inputs, {.own_workspace = true}),
            run(make_plan(text, store), inputs, {.own_workspace = true}));
  EXPECT_EQ(check_case(text, 3, {.engine = "cpu", .workspace_limit = store - 1}).defect, "");
}

// ---- Tensors that are aligned to their elements only.

template <class T>
void check_unaligned(const std::string& text) {
  SCOPED_TRACE(text);
  const Plan plan = make_plan(text);
  const Inputs inputs = make_inputs(plan, 5, Fill::signed_unit);
  const auto shifted = [](const Tensor& tensor) {
    std::vector<T> copy = std::get<std::vector<T>>(tensor);
    copy.insert(copy.begin(), T());
    return copy;
  };
  const auto input = shifted(inputs.input), kernel = shifted(inputs.kernel);
  std::vector<std::vector<T>> operands;
  for (const Tensor& operand : inputs.operands) operands.push_back(shifted(operand));
  std::vector<T> output(plan.output_info().elements() + 1);
  Tensors<T> tensors;
  tensors.input = std::span(input).subspan(1);
  tensors.kernel = std::span(kernel).subspan(1);
  tensors.output = std::span(output).subspan(1);
  for (const auto& operand : operands) tensors.operands.emplace_back(std::span(operand).subspan(1));
  plan.execute(tensors);
  std::vector<double> values;
  for (const T& value : tensors.output) values.push_back(to_double(value));
  EXPECT_EQ(bits(values), run(make_plan(text), inputs, {}));
}

TEST_P(CpuEngine, UnalignedTensors) {
  const std::string head = "conv_transpose2d batch=2 channels=6->9 input=7x33 kernel=3 stride=2 ";
  for (const std::string tail :
       {"", "layout=channels_last ", "| bias | add(tensor) | layer_norm(trailing=2, affine)"}) {
    check_unaligned<float>(head + tail);
    check_unaligned<double>(head + "dtype=f64 " + tail);
    check_unaligned<f16>(head + "dtype=f16 " + tail);
    check_unaligned<bf16>(head + "dtype=bf16 " + tail);
  }
}

// Outputs too large for a cache are written past it: rows of one phase, of several, and behind a chain.
TEST_P(CpuEngine, LargeOutputs) {
  for (const std::string text : {"conv_transpose2d batch=1 channels=1->3 input=1201x1203 kernel=1",
                                 "conv_transpose2d batch=1 channels=1->3 input=601x603 kernel=2 stride=2",
                                 "conv_transpose2d batch=1 channels=1->3 input=1201x1203 kernel=1 | relu"}) {
    const CaseReport report = check_case(text, 1, {.engine = "cpu"});
    EXPECT_EQ(report.defect, "") << text;
    const Plan plan = make_plan(text);
    const Inputs inputs = make_inputs(plan, 1, Fill::unit);
    EXPECT_EQ(run(make_plan(text), inputs, {.guard = 63}), run(make_plan(text), inputs, {.guard = 64})) << text;
  }
}

}  // namespace
}  // namespace convt::cli
