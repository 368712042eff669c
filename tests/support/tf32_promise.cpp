// SPDX-License-Identifier: Apache-2.0
#include "support/tf32_promise.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <random>

namespace convt::testing {
namespace {

// A layer's tensors, channels-first: input (n, c, z, w) with z all lines of an image, kernel (c, f, t).
struct Layer {
  std::vector<float>&input, &kernel;
  std::size_t images, channels, lines, width, filters, taps;
  std::mt19937_64 random;

  float draw(int low, int high) { return std::ldexp(1.0F, std::uniform_int_distribution<int>(low, high)(random)); }
  // x(n, c, line, w) *= f(n, c, w)
  void scale_input(const std::function<float(std::size_t, std::size_t, std::size_t)>& f) {
    for (std::size_t i = 0; i < input.size(); ++i) {
      const std::size_t w = i % width, c = i / width / lines % channels, n = i / width / lines / channels;
      input[i] *= f(n, c, w);
    }
  }
  // w(c, f, t) *= g(c, f, t)
  void scale_kernel(const std::function<float(std::size_t, std::size_t, std::size_t)>& g) {
    for (std::size_t i = 0; i < kernel.size(); ++i) kernel[i] *= g(i / taps / filters, i / taps % filters, i % taps);
  }
  void scale_filters(const std::function<float(std::size_t)>& f) {
    scale_kernel([&](std::size_t, std::size_t filter, std::size_t) { return f(filter); });
  }
  // Input channels, with weights that undo it.
  void scale_channels(const std::function<float(std::size_t)>& f) {
    scale_input([&](std::size_t, std::size_t c, std::size_t) { return f(c); });
    scale_kernel([&](std::size_t c, std::size_t, std::size_t) { return 1 / f(c); });
  }
  void scale_columns(const std::function<float(std::size_t)>& f) {
    scale_input([&](std::size_t, std::size_t, std::size_t w) { return f(w); });
  }
  std::vector<float> drawn(std::size_t count, int low, int high) {
    std::vector<float> all(count);
    for (float& x : all) x = draw(low, high);
    return all;
  }
};

using Rescale = std::function<void(Layer&)>;
const std::vector<std::pair<std::string, Rescale>>& all_rescalings() {
  using L = Layer&;
  const auto every = [](std::size_t i, float scale) { return i % 2 == 1 ? scale : 1.0F; };
  static const std::vector<std::pair<std::string, Rescale>> all = {
      {"none", [](L) {}},
      {"zeros, as of relu", [](L l) { std::ranges::for_each(l.input, [](float& x) { x = std::max(x, 0.0F); }); }},
      {"one filter 2^-18", [](L l) { l.scale_filters([](auto f) { return f == 3 ? 0x1p-18F : 1; }); }},
      {"one filter 2^-60", [](L l) { l.scale_filters([](auto f) { return f == 3 ? 0x1p-60F : 1; }); }},
      {"every second filter 2^-16", [=](L l) { l.scale_filters([=](auto f) { return every(f, 0x1p-16F); }); }},
      {"filters 2^-30 to 2^30",
       [](L l) {
         const auto by = l.drawn(l.filters, -30, 30);
         l.scale_filters([&](auto f) { return by[f]; });
       }},
      {"every second channel 2^-18", [=](L l) { l.scale_channels([=](auto c) { return every(c, 0x1p-18F); }); }},
      {"one channel 2^-24", [](L l) { l.scale_channels([](auto c) { return c == 5 ? 0x1p-24F : 1; }); }},
      {"one channel 2^-18", [](L l) { l.scale_channels([](auto c) { return c == 2 ? 0x1p-18F : 1; }); }},
      {"one channel 2^12", [](L l) { l.scale_channels([](auto c) { return c == 1 ? 0x1p12F : 1; }); }},
      {"one channel 2^30", [](L l) { l.scale_channels([](auto c) { return c == 1 ? 0x1p30F : 1; }); }},
      {"channels 2^-20 to 2^20",
       [](L l) {
         const auto by = l.drawn(l.channels, -20, 20);
         l.scale_channels([&](auto c) { return by[c]; });
       }},
      {"channels 2^-9 to 2^9",
       [](L l) {
         const auto by = l.drawn(l.channels, -9, 9);
         l.scale_channels([&](auto c) { return by[c]; });
       }},
      {"one tap 2^-30", [](L l) { l.scale_kernel([](auto, auto, auto t) { return t == 1 ? 0x1p-30F : 1; }); }},
      {"taps 2^-40 to 1",
       [](L l) {
         const auto by = l.drawn(l.taps, -40, 0);
         l.scale_kernel([&](auto, auto, auto t) { return by[t]; });
       }},
      {"images 1, 2^-20", [](L l) { l.scale_input([](auto n, auto, auto) { return n % 2 == 1 ? 0x1p-20F : 1; }); }},
      {"images 2^52, 2^-110",
       [](L l) { l.scale_input([](auto n, auto, auto) { return n % 2 == 1 ? 0x1p-110F : 0x1p52F; }); }},
      {"right half 2^-16", [](L l) { l.scale_columns([&](auto w) { return 2 * w >= l.width ? 0x1p-16F : 1; }); }},
      {"right quarter 2^-30",
       [](L l) { l.scale_columns([&](auto w) { return 4 * w >= 3 * l.width ? 0x1p-30F : 1; }); }},
      {"left half 2^-20", [](L l) { l.scale_columns([&](auto w) { return 2 * w < l.width ? 0x1p-20F : 1; }); }},
      {"quarters 2^-40 to 1",
       [](L l) {
         const auto by = l.drawn(4, -40, 0);
         l.scale_columns([&](auto w) { return by[4 * w / l.width]; });
       }},
      {"a spike in 2^-20",
       [](L l) {
         l.scale_columns([](auto) { return 0x1p-20F; });
         l.input[l.input.size() / 3] = 1;
       }},
      {"a spike in 2^-40",
       [](L l) {
         l.scale_columns([](auto) { return 0x1p-40F; });
         l.input[l.input.size() / 2] = 1000;
       }},
      {"one input of 2^20", [](L l) { l.input[l.input.size() / 5] = 0x1p20F; }},
      {"inputs 2^-12", [](L l) { l.scale_columns([](auto) { return 0x1p-12F; }); }},
      {"inputs 2^-14", [](L l) { l.scale_columns([](auto) { return 0x1p-14F; }); }},
      {"inputs 2^-40, weights 2^40",
       [](L l) {
         l.scale_columns([](auto) { return 0x1p-40F; });
         l.scale_filters([](auto) { return 0x1p40F; });
       }},
      {"inputs 2^12, weights 2^-30",
       [](L l) {
         l.scale_columns([](auto) { return 0x1p12F; });
         l.scale_filters([](auto) { return 0x1p-30F; });
       }},
      {"every second channel 2^-20 in the right half, filters 2^-20 to 2^20",
       [=](L l) {
         const auto by = l.drawn(l.filters, -20, 20);
         l.scale_input([&](auto, auto c, auto w) { return 2 * w >= l.width ? every(c, 0x1p-20F) : 1; });
         l.scale_kernel([&](auto c, auto f, auto) { return by[f] * every(c, 0x1p10F); });
       }},
  };
  return all;
}

float tf32_of(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::bit_cast<float>((bits + 0xfffU + (bits >> 13 & 1U)) & 0xffffe000U);  // to nearest, ties to even
}

// Root of the mean of squares, by region.
struct Regions {
  std::size_t width, parts;

  Regions(std::size_t w, bool cuts) : width(w), parts(cuts && w / 4 >= 32 ? 4 : 1) {}
  // values: [region of n and c][line][w]
  std::vector<double> rms(const std::vector<double>& values, std::size_t planes) const {
    std::vector<double> sums(planes * parts), counts(planes * parts);
    const std::size_t each = values.size() / planes;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t region = i / each * parts + i % width * parts / width;
      sums[region] += values[i] * values[i];
      ++counts[region];
    }
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = std::sqrt(sums[i] / counts[i]);
    return sums;
  }
};

template <class F>
void for_floats(cli::Inputs& inputs, const F& f) {
  for (float& x : std::get<std::vector<float>>(inputs.input)) x = f(x);
  for (float& x : std::get<std::vector<float>>(inputs.kernel)) x = f(x);
}

std::vector<double> difference(std::vector<double> a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}

}  // namespace

const std::vector<std::string>& rescalings() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, rescale] : all_rescalings()) all.push_back(name);
    return all;
  }();
  return names;
}

const std::vector<std::string>& promised_layers() {
  static const std::vector<std::string> all = {
      "2d batch=2 channels=32->64 input=9x66 kernel=4 stride=2 padding=1",
      "2d batch=2 channels=24->40 input=9x67 kernel=3 stride=2 padding=1",
      "3d batch=2 channels=48->24 input=4x9x131 kernel=3 padding=1",
      "2d batch=2 channels=64->64 input=9x130 kernel=3x7",
      "2d batch=2 channels=200->70 input=5x34 kernel=3 stride=2",
      "3d batch=2 channels=16->64 input=3x5x40 kernel=2 stride=2",
      "2d batch=2 channels=16->32 input=9x65 kernel=3 layout=channels_last->channels_first",
      "1d batch=2 channels=40->32 input=90 kernel=8 stride=4 padding=2",
      "2d batch=2 channels=32->64 input=9x70 kernel=4 stride=2 padding=1 | bias",
  };
  return all;
}

const std::vector<std::string>& promised_norms() {
  static const std::vector<std::string> all = {
      "2d batch=2 channels=32->64 input=9x66 kernel=4 stride=2 padding=1 | instance_norm(eps=1e-30)",
      "2d batch=2 channels=24->40 input=9x67 kernel=3 stride=2 padding=1 | layer_norm(channels, eps=1e-30)",
      "3d batch=2 channels=16->64 input=3x5x8 kernel=3 stride=2 padding=1 output_padding=1 | layer_norm(channels, "
      "eps=1e-30) | avg_pool(2)",
  };
  return all;
}

double worst_region(const std::string& layer, const std::string& rescaling, std::uint64_t seed,
                    const PlanOptions& options, const cli::Place& place, const std::string& precision) {
  const std::string kind = "conv_transpose" + layer.substr(0, 2);
  const std::string layout = " layout=channels_last->channels_first";
  std::string same = layer.substr(2);
  if (const auto at = same.find(layout); at != std::string::npos) same.erase(at, layout.size());
  const auto chain_at = same.find(" | ");
  const bool chain = chain_at != std::string::npos;
  const bool ieee = precision == "ieee";
  Plan plan = Plan::from_text(kind + " dtype=f32 precision=" + precision + layer.substr(2), options);
  Plan exact = Plan::from_text(kind + " dtype=f64" + same);
  Plan first = Plan::from_text(kind + " dtype=f32" + same);  // the same values, channels-first

  // Normal numbers, channels-first.
  cli::Inputs inputs = cli::make_inputs(first, seed, cli::Fill::unit);
  auto& input = std::get<std::vector<float>>(inputs.input);
  auto& kernel = std::get<std::vector<float>>(inputs.kernel);
  const auto shape = first.input_info().shape, taps = first.kernel_info().shape;
  Layer own{input, kernel, shape[0], shape[1], 1, shape.back(), taps[1], 1, std::mt19937_64(seed)};
  own.lines = input.size() / own.images / own.channels / own.width;
  own.taps = kernel.size() / taps[0] / taps[1];
  std::normal_distribution<float> normal;
  for (float& x : input) x = normal(own.random);
  for (float& x : kernel) x = normal(own.random) * 0.1F;
  const auto& all = all_rescalings();
  std::ranges::find_if(all, [&](const auto& one) { return one.first == rescaling; })->second(own);

  // As the plan has them in memory.
  cli::Inputs given = inputs;
  if (plan.input_info().layout == Layout::channels_last) {
    auto& to = std::get<std::vector<float>>(given.input);
    const std::size_t pixels = own.lines * own.width;
    for (std::size_t i = 0; i < to.size(); ++i) {
      const std::size_t p = i % pixels, c = i / pixels % own.channels, n = i / pixels / own.channels;
      to[(n * pixels + p) * own.channels + c] = input[i];
    }
  }
  cli::Execution execution(plan, given, {.place = place});
  execution.execute();
  if (!execution.defect().empty()) return INFINITY;
  const std::vector<double> got = execution.output();
  const auto run = [&](cli::Inputs& of) { return cli::execute(exact, cli::convert_inputs(of, first, exact)); };
  const std::vector<double> want = run(inputs);
  cli::Inputs rounded = inputs, sizes = inputs;
  for_floats(rounded, tf32_of);
  for_floats(sizes, [](float x) { return std::fabs(x); });
  const std::vector<double> of_tf32 = run(rounded), products = chain ? want : run(sizes);

  const auto out = exact.output_info().shape;
  const Regions regions(out.back(), !chain);
  const std::size_t planes = out[0] * out[1];
  const auto errors = regions.rms(difference(got, want), planes);
  const auto allowed = regions.rms(difference(of_tf32, want), planes), all_sizes = regions.rms(products, planes);
  const auto results = regions.rms(want, planes);
  double strides = 1;
  for (const auto stride : exact.problem().stride) strides *= static_cast<double>(stride);
  const double count = static_cast<double>(own.channels * own.taps) / strides;
  const double own_error = chain ? 5e-5 : 1e-6 * std::max(2.0, count / 256);
  double worst = 0;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const double most =
        ieee ? 2e-7 * results[i] + (chain ? 5e-6 : 3e-8) * all_sizes[i] : 2 * allowed[i] + own_error * all_sizes[i];
    if (errors[i] > 0 || std::isnan(errors[i])) worst = std::max(worst, most > 0 ? errors[i] / most : INFINITY);
    if (std::isnan(errors[i])) return INFINITY;
  }
  return worst;
}

}  // namespace convt::testing
