// SPDX-License-Identifier: Apache-2.0
#include "samples.hpp"

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>

#include "case_text.hpp"
#include "execution.hpp"
#include "gather.hpp"
#include "random.hpp"

namespace convt::cli {
namespace {

using Box = std::array<std::size_t, 3>;

Box spatial(const Sizes& shape) {
  Box box{1, 1, 1};
  std::copy(shape.begin() + 2, shape.end(), box.end() - static_cast<std::ptrdiff_t>(shape.size() - 2));
  return box;
}
std::size_t volume(const Box& box) { return box[0] * box[1] * box[2]; }

// The chain alone: of a problem whose convolution hands on what it is given, of those sizes.
Problem chain_alone(const Problem& asked, const Box& size) {
  Problem problem = asked;
  problem.in_channels = problem.groups = problem.out_channels;
  problem.input.assign(size.end() - static_cast<std::ptrdiff_t>(problem.dims), size.end());
  for (Sizes* ones : {&problem.kernel, &problem.stride, &problem.dilation}) ones->assign(problem.dims, 1);
  for (Sizes* zeros : {&problem.padding, &problem.output_padding}) zeros->assign(problem.dims, 0);
  return problem;
}

// The chain takes a value of that size, where a pool may be larger, and leaves one element along the axis.
bool leaves_one(const Problem& asked, const Box& size, std::size_t axis) {
  try {
    return spatial(Plan(chain_alone(asked, size), {.engine = "reference"}).output_info().shape)[axis] == 1;
  } catch (const Error& error) {
    if (error.status() != Status::invalid_argument) throw;
    return false;
  }
}

// How much of the convolution's result one output pixel comes from: the least that the chain makes an output of.
Box window_of(const Plan& plan) {
  const Problem problem = plan.problem();
  Problem convolution = problem;
  convolution.chain.clear();
  const Box whole = spatial(Plan(convolution, {.engine = "reference"}).output_info().shape);
  Box window{1, 1, 1};
  for (std::size_t axis = 3 - problem.dims; axis < 3; ++axis) {
    Box size = whole;
    for (size[axis] = 1; size[axis] < whole[axis] && !leaves_one(problem, size, axis);) ++size[axis];
    window[axis] = size[axis];
  }
  return window;
}

// The convolution of one problem, at any place, in double.
class Convolution {
 public:
  Convolution(const Problem& problem, const Inputs& inputs)
      : axes_(gather_axes(problem)),
        input_(inputs.input),
        ins_(problem.in_channels),
        outs_(problem.out_channels),
        groups_(problem.groups) {
    // From channel by channel, tap by tap, to output channels side by side.
    const std::vector<double> kernel = to_doubles(inputs.kernel);
    const std::size_t taps = axes_[0].kernel * axes_[1].kernel * axes_[2].kernel, outs = outs_ / groups_;
    weights_.resize(kernel.size());
    for (std::size_t i = 0; i < kernel.size(); ++i) {
      const std::size_t tap = i % taps, out = i / taps % outs, in = i / taps / outs;
      weights_[(tap * ins_ + in) * outs + out] = kernel[i];
    }
  }

  // Adds up all channels of one pixel.
  void compute(std::size_t image, const Box& at, double* sums) const {
    std::visit([&](const auto& elements) { compute(elements.data(), image, at, sums); }, input_);
  }

 private:
  template <class T>
  void compute(const T* input, std::size_t image, const Box& at, double* sums) const {
    const std::size_t pixels = axes_[0].input * axes_[1].input * axes_[2].input;
    std::fill(sums, sums + outs_, 0.0);
    for (const Meeting d : axes_[0].outputs[at[0]])
      for (const Meeting h : axes_[1].outputs[at[1]])
        for (const Meeting w : axes_[2].outputs[at[2]]) {
          const std::size_t tap = (d.tap * axes_[1].kernel + h.tap) * axes_[2].kernel + w.tap;
          const std::size_t pixel = (d.input * axes_[1].input + h.input) * axes_[2].input + w.input;
          add_channels(input + image * ins_ * pixels + pixel, pixels, tap, sums);
        }
  }

  template <class T>
  void add_channels(const T* x, std::size_t step, std::size_t tap, double* sums) const {
    const std::size_t ins = ins_ / groups_, outs = outs_ / groups_;
    for (std::size_t in = 0; in < ins_; ++in) {
      const double value = to_double(x[in * step]);
      const double* const weights = weights_.data() + (tap * ins_ + in) * outs;
      double* const to = sums + in / ins * outs;
      for (std::size_t out = 0; out < outs; ++out) to[out] += value * weights[out];
    }
  }

  std::array<GatherAxis, 3> axes_;
  const Tensor& input_;
  std::size_t ins_, outs_, groups_;
  std::vector<double> weights_;  // tap, input channel, output channel of its group
};

// The chain of a problem on `images` windows of its convolution's result, each of which becomes one pixel.
class ChainOnWindows {
 public:
  ChainOnWindows(const Plan& plan, const Inputs& inputs, const Box& window)
      : problem_(chain_alone(plan.problem(), window)) {
    for (const Tensor& operand : inputs.operands) operands_.push_back(make_tensor(DType::f64, to_doubles(operand)));
    problem_.dtype = DType::f64;
    problem_.precision = Float32Precision::ieee;
  }

  std::vector<double> run(std::size_t images, std::vector<double> windows) const {
    if (problem_.chain.empty()) return windows;
    Problem problem = problem_;
    problem.batch_size = images;
    Plan plan(problem, {.engine = "reference"});
    if (volume(spatial(plan.output_info().shape)) != 1)
      throw Error(Status::internal_error, "a window of " + plan.text() + " is not one output");
    return execute(plan, {std::move(windows), std::vector<double>(problem.out_channels, 1.0), operands_});
  }

 private:
  Problem problem_;
  std::vector<Tensor> operands_;
};

// Calls f(begin) for parts of [0, count), of that many each, from several threads.
template <class F>
void share_out(std::size_t count, std::size_t each, F f) {
  std::mutex mutex;
  std::size_t next = 0;
  std::exception_ptr failure;
  const auto work = [&] {
    for (;;) {
      std::size_t begin = 0;
      {
        const std::lock_guard lock(mutex);
        if (failure != nullptr || next >= count) return;
        begin = next;
        next += each;
      }
      try {
        f(begin);
      } catch (...) {
        const std::lock_guard lock(mutex);
        failure = std::current_exception();
      }
    }
  };
  std::vector<std::jthread> threads;
  for (unsigned i = 1; i < std::min(std::thread::hardware_concurrency(), 16U); ++i) threads.emplace_back(work);
  work();
  threads.clear();
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace

std::vector<Pixel> sample_pixels(const Plan& plan, std::size_t count, std::uint64_t seed) {
  const Problem problem = plan.problem();
  const Box size = spatial(plan.output_info().shape), window = window_of(plan);
  const std::size_t missing = 3 - problem.dims;
  std::vector<Pixel> pixels;
  if (const std::size_t each = volume(size), all = problem.batch_size * each; all <= count) {
    for (std::size_t i = 0; i < all; ++i)
      pixels.push_back({i / each, {i % each / (size[1] * size[2]), i / size[2] % size[1], i % size[2]}});
    return pixels;
  }
  for (std::size_t corner = 0; corner < std::size_t{2} << problem.dims; ++corner) {
    Pixel pixel{corner >> problem.dims == 0 ? 0 : problem.batch_size - 1, {}};
    for (std::size_t i = 0; i < problem.dims; ++i)
      pixel.at[missing + i] = (corner >> i & 1) == 0 ? 0 : size[missing + i] - 1;
    pixels.push_back(pixel);
  }
  Random random(seed);
  for (std::size_t turn = 0; pixels.size() < count; ++turn) {
    Pixel pixel{random.below(problem.batch_size), {}};
    std::size_t phases = turn;
    for (std::size_t i = 0; i < problem.dims; ++i) {
      const std::size_t axis = missing + i, stride = on_axis(problem.stride, i);
      const std::size_t reach = on_axis(problem.dilation, i) * on_axis(problem.kernel, i) / window[axis] + 2;
      std::size_t at = random.below(random.chance(50) ? std::min(reach, size[axis]) : size[axis]);
      if (random.chance(50)) at = size[axis] - 1 - at;
      // A window has all phases of a stride that it is no shorter than.
      const std::size_t phase = at - at % stride + phases % stride;
      if (window[axis] < stride && phase < size[axis]) at = phase;
      phases /= stride;
      pixel.at[axis] = at;
    }
    pixels.push_back(pixel);
  }
  return pixels;
}

Samples compute_samples(const Plan& plan, const Inputs& inputs, const std::vector<Pixel>& pixels) {
  const Problem problem = plan.problem();
  const Convolution convolution(problem, inputs);
  const Sizes& shape = plan.output_info().shape;
  const Box window = window_of(plan), size = spatial(shape);
  const ChainOnWindows chain(plan, inputs, window);
  const std::size_t channels = shape[1], each = 32, inside = volume(window);
  Samples samples{std::vector<std::size_t>(pixels.size() * channels), std::vector<double>(pixels.size() * channels)};

  const auto window_at = [&](const Pixel& pixel, double* values) {
    std::vector<double> sums(problem.out_channels);
    for (std::size_t i = 0; i < inside; ++i) {
      const Box in{i / window[2] / window[1], i / window[2] % window[1], i % window[2]};
      Box at{};
      for (std::size_t axis = 0; axis < 3; ++axis) at[axis] = pixel.at[axis] * window[axis] + in[axis];
      convolution.compute(pixel.image, at, sums.data());
      for (std::size_t c = 0; c < sums.size(); ++c) values[c * inside + i] = sums[c];
    }
  };
  share_out(pixels.size(), each, [&](std::size_t begin) {
    const std::size_t count = std::min(each, pixels.size() - begin), per_pixel = problem.out_channels * inside;
    std::vector<double> windows(count * per_pixel);
    for (std::size_t i = 0; i < count; ++i) window_at(pixels[begin + i], windows.data() + i * per_pixel);
    const std::vector<double> results = chain.run(count, std::move(windows));
    std::copy(results.begin(), results.end(), samples.values.begin() + static_cast<std::ptrdiff_t>(begin * channels));
  });
  for (std::size_t i = 0; i < samples.elements.size(); ++i) {
    const Pixel& pixel = pixels[i / channels];
    samples.elements[i] = (pixel.image * channels + i % channels) * volume(size) +
                          (pixel.at[0] * size[1] + pixel.at[1]) * size[2] + pixel.at[2];
  }
  return samples;
}

}  // namespace convt::cli
