// SPDX-License-Identifier: Apache-2.0
#include "support/engine_cases.hpp"

#include <algorithm>

#include "case_text.hpp"
#include "convt/convt.hpp"
#include "random.hpp"

namespace convt::testing {
namespace {

using cli::join_sizes;
using cli::Random;

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

bool is_legal(const std::string& text) {
  try {
    Plan::from_text(text, {.engine = "reference"});
    return true;
  } catch (const Error& error) {
    if (error.status() != Status::invalid_argument) throw;
    return false;
  }
}

}  // namespace

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
      "bias | keep(x) | global_avg_pool | sigmoid | mul(x) | max_pool(2)",
      "relu | keep(x) | max_pool(2) | global_avg_pool | mul(x)",
      "relu | keep(x) | instance_norm | max_pool(3, stride=2) | global_avg_pool | keep(y) | mul(x) | tanh | sub(y)",
  };
  return all;
}

DrawnCase draw_case(std::uint64_t seed) {
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
  if (random.chance(20))
    text += " within=" + std::to_string(in + random.below(4)) + "->" + std::to_string(out + random.below(6));
  if (random.chance(25))
    text = random.pick<std::string>({"relu", "add(0.5)", "batch_norm(affine) | leaky_relu(0.1)", "bias | sigmoid",
                                     "prelu | mul(2) | sub(channel)"}) +
           " | " + text;
  const std::string longer = text + (chain.empty() ? "" : " | " + chain);
  return is_legal(longer) ? DrawnCase{longer, chain} : DrawnCase{text, ""};
}

const std::vector<std::string>& shape_cases() {
  static const std::vector<std::string> all{
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
      // Few positions and many channels: weights packed a few output channels at a time, by one item or for several.
      "conv_transpose3d batch=2 channels=300->90 input=3x4x5 kernel=2 stride=2",
      "conv_transpose2d channels=400->44 input=5x6 kernel=4 stride=2 padding=1",
      "conv_transpose2d channels=300->40 input=5x6 kernel=2 stride=2 output_padding=1 | relu",
      "conv_transpose2d dtype=f16 batch=2 channels=200->30 input=7x9 kernel=2 stride=2 padding=2 | bias",
      "conv_transpose2d dtype=f64 channels=320->56 input=12x24 kernel=2 stride=2",
      "conv_transpose2d channels=320->56 input=40x24 kernel=2 stride=2",
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
  };
  return all;
}

const std::vector<std::string>& infinity_cases() {
  static const std::vector<std::string> all{
      "conv_transpose2d channels=1->2 input=6x5 kernel=3x4 stride=2x4 dilation=3x1 | avg_pool(2x4)",
      "conv_transpose2d channels=3->20 input=9x30 kernel=2 stride=3 | relu",
      "conv_transpose2d channels=3->2 input=5x70 kernel=5x4 stride=2x3 padding=2 | max_pool(2)",
      "conv_transpose3d channels=20->20 input=3 kernel=3 stride=2 padding=1 | layer_norm(channels)",
  };
  return all;
}

const std::vector<std::string>& whole_image_cases() {
  static const std::string small = "conv_transpose2d channels=1->7 input=110x100 kernel=3 stride=2 ";
  static const std::string volume = "conv_transpose3d batch=2 channels=1->6 input=16x17x20 kernel=3 stride=2 ";
  static const std::vector<std::string> all{
      small + "| instance_norm",
      small +
          "| instance_norm | relu | global_avg_pool | tanh | group_norm(1) | max_pool(2, padding=1) | group_norm(1)",
      small + "| instance_norm | max_pool(2) | group_norm(1) | avg_pool(2) | instance_norm | relu",
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
  };
  return all;
}

}  // namespace convt::testing
