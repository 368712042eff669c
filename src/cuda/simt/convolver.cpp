// SPDX-License-Identifier: Apache-2.0
#include "cuda/simt/convolver.hpp"

#include <algorithm>
#include <cassert>
#include <limits>
#include <span>

#include "base/division.hpp"
#include "base/dtype.hpp"
#include "base/error.hpp"
#include "cuda/schedule/chain_cost.hpp"
#include "cuda/simt/launchers.hpp"
#include "plan/work.hpp"

namespace convt::core::cuda::simt {
namespace {

constexpr std::int64_t most_channels = std::int64_t{1} << 29;
constexpr std::int64_t most_steps = std::int64_t{1} << 30;      // of depth
constexpr std::int64_t most_parameter = std::int64_t{1} << 31;  // strides and dilations; see plan/taps.hpp

// T: the type that is computed in.
template <class T>
class PlainConvolver : public Convolver {
 public:
  PlainConvolver(std::shared_ptr<const Program> program, const DeviceProperties& device)
      : program_(std::move(program)), device_(device) {
    plan_rows();
    plan_taps();
  }

  bool reads_ranges() const override { return true; }
  std::int64_t mixed_channels() const override { return program_->convolution.groups == 1 ? rows_of(block_) : 1; }
  std::optional<std::size_t> pools(std::size_t, std::size_t, std::size_t) const override { return std::nullopt; }
  Blocks blocks(const Axes& box) const override;
  Prediction predict(const PlannedJob& job) const override;
  std::string explain(const PlannedJob&) const override {
    const Descriptor& asked = *program_->asked;
    const bool tf32 = asked.precision == CONVT_FLOAT32_TF32 && asked.dtype == CONVT_F32;
    return formatted("computes in {}, blocks of {} channels x {} positions{}", doubles ? "f64" : "f32", rows_of(block_),
                     columns_of(block_, doubles), tf32 ? "; TF32 was allowed, these products are float32's" : "");
  }
  double packed_bytes() const override {
    const Convolution& c = program_->convolution;
    return static_cast<double>(packed_header) + sizeof(T) * static_cast<double>(c.in_channels) *
                                                    static_cast<double>(padded_rows_) *
                                                    static_cast<double>(volume(c.kernel));
  }
  void pack(const void* kernel, convt_dtype dtype, void* packed, cudaStream_t stream, bool early) const override;
  void convolve(const ConvJob& job) const override;

 private:
  static constexpr bool doubles = sizeof(T) == sizeof(double);

  void plan_rows();
  void plan_taps();
  double bands() const {
    return static_cast<double>(program_->convolution.groups) * static_cast<double>(padded_rows_ / rows_of(block_));
  }

  std::shared_ptr<const Program> program_;
  DeviceProperties device_;
  simt::Shape block_ = Shape::wide;
  std::int64_t rows_ = 1, padded_rows_ = 1;  // of a group
  std::array<TapAxis, 3> taps_;
};

template <class T>
void PlainConvolver<T>::plan_rows() {
  const Convolution& c = program_->convolution;
  rows_ = c.out_channels / c.groups;
  // Few rows waste multiply-adds of a large block. Small blocks load more for each multiply-add.
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [shape, factor] : {std::pair{Shape::wide, 1.0}, {Shape::middle, 1.2}, {Shape::thin, 3.0}}) {
    const std::int64_t padded = ceil_div(rows_, rows_of(shape)) * rows_of(shape);
    if (factor * static_cast<double>(padded) >= least) continue;
    least = factor * static_cast<double>(padded);
    block_ = shape;
    padded_rows_ = padded;
  }
}

template <class T>
void PlainConvolver<T>::plan_taps() {
  const Convolution& c = program_->convolution;
  for (std::size_t a = 0; a < 3; ++a) {
    // The dilation of a single tap and the stride of a single input do not matter.
    const std::int64_t dilation = c.kernel[a] == 1 ? 1 : c.dilation[a];
    const std::int64_t stride = c.input[a] == 1 && c.stride[a] >= most_parameter ? 1 : c.stride[a];
    if (dilation >= most_parameter || stride >= most_parameter) {
      rejection =
          formatted("the {} along {} passes 2^31", stride >= most_parameter ? "stride" : "dilation", axis_letters[a]);
      return;
    }
    taps_[a] = tap_axis(c.kernel[a], stride, dilation);
    if (c.kernel[a] > most_steps || (c.kernel[a] - 1) * dilation / stride >= most_inside)
      rejection = formatted("the taps along {} reach over 2^29 inputs", axis_letters[a]);
  }
  // The offset of a block's inputs is counted from position 0, which may lie far outside the image.
  const Descriptor& asked = *program_->asked;
  const Strides in = strides_of(asked.input_layout, asked.input, asked.input_within);
  const std::array<std::int64_t, 3> steps{in.d, in.h, in.w};
  std::int64_t farthest = in.n * asked.input.batch;
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t positions = (c.output[a] + c.padding[a]) / taps_[a].stride + 1;
    farthest = capped_sum({farthest, capped_product({positions, steps[a]})});
  }
  if (capped_product({farthest, static_cast<std::int64_t>(size_of(program_->asked->dtype))}) == most_size)
    rejection = "its positions pass 2^63 bytes";
  if (std::max({c.in_channels, c.out_channels, program_->asked->convolution.out_channels}) > most_channels)
    rejection = "there are more than 2^29 channels";
  const double depth = static_cast<double>(c.in_channels / c.groups) * static_cast<double>(c.kernel[0]) *
                       static_cast<double>(c.kernel[1]) * static_cast<double>(c.kernel[2]);
  if (depth * static_cast<double>(c.groups) > static_cast<double>(most_steps))
    rejection = "the kernel has more than 2^30 taps of input channels";
}

template <class T>
Convolver::Blocks PlainConvolver<T>::blocks(const Axes& box) const {
  double least = bands();  // if every phase has an incomplete block
  for (std::size_t a = 0; a < 3; ++a) least *= static_cast<double>(std::min(box[a], taps_[a].stride));
  return {least, bands() / columns_of(block_, doubles)};
}

// Within a factor of two on an H200: from the share of the lanes' rate that a block reaches, and from its time beside
// the products.
template <class T>
Prediction PlainConvolver<T>::predict(const PlannedJob& job) const {
  constexpr double block_seconds = 17e-6;
  constexpr int blocks_at_once = 2;  // on a multiprocessor
  const double busy = (block_ == Shape::wide ? 0.5 : block_ == Shape::middle ? 0.35 : 0.1) * (doubles ? 0.6 : 1);
  const double products = count_work(*program_).needed * static_cast<double>(padded_rows_) / static_cast<double>(rows_);
  const double rate = busy * device_.multiprocessors * lanes(device_, doubles) * device_.clock;
  const double pixels = static_cast<double>(job.images) * static_cast<double>(volume(job.box));
  const std::int64_t all_pixels = program_->asked->input.batch * volume(program_->conv.space);
  const double share = pixels / static_cast<double>(std::max<std::int64_t>(all_pixels, 1));
  const double all = pixels / columns_of(block_, doubles) * bands();
  Prediction p;
  p.add(Prediction::products, share * products / rate);
  p.add(Prediction::stores, all * block_seconds / (blocks_at_once * device_.multiprocessors));
  // A block's own time has the strip without steps.
  const double clocks =
      strip_clocks(std::span(program_->steps).subspan(job.begin, job.end - job.begin)) - strip_clocks({});
  p.add(Prediction::chain, pixels * static_cast<double>(program_->convolution.out_channels) * clocks /
                               (device_.multiprocessors * device_.clock));
  return p;
}

template <class T>
void PlainConvolver<T>::pack(const void* kernel, convt_dtype dtype, void* packed, cudaStream_t stream, bool) const {
  const Convolution& c = program_->convolution;
  PackParams params;
  params.kernel = kernel;
  params.dtype = dtype;
  params.nonfinite = static_cast<int*>(packed);
  params.weights = static_cast<std::byte*>(packed) + packed_header;
  params.groups = c.groups;
  params.depth = c.in_channels / c.groups;
  params.rows = rows_;
  params.padded_rows = padded_rows_;
  params.taps = volume(c.kernel);
  launch_pack<T>(params, stream);
}

template <class T>
void PlainConvolver<T>::convolve(const ConvJob& job) const {
  const Descriptor& asked = *program_->asked;
  const Convolution& c = program_->convolution;
  const Slab& slab = job.slab;
  ConvParams p;
  const Strides& in = job.input_step;
  const std::array<std::int64_t, 3> steps{in.d, in.h, in.w};
  std::int64_t from = slab.images.begin * in.n;
  double grid = bands();
  std::int64_t columns = slab.images.size();
  for (std::size_t a = 0; a < 3; ++a) {
    ConvAxis& axis = p.axis[a];
    axis.taps = taps_[a];
    const Lead lead = lead_of(slab.box.origin[a], c.padding[a], axis.taps.stride);
    axis.lead = lead.phase;
    axis.size = static_cast<int>(slab.box.size[a]);
    axis.phases = static_cast<int>(std::min(axis.taps.stride, slab.box.size[a]));
    axis.lowest = clamp_inside(-lead.position);
    axis.inputs = std::max(clamp_inside(c.input[a] - lead.position) - axis.lowest, 0);
    axis.step = steps[a];
    from += lead.position * axis.step;
    grid *= axis.phases;
    columns *= (slab.box.size[a] - 1) / axis.taps.stride + 1;
  }
  p.input = static_cast<const std::byte*>(job.input) + from * static_cast<std::int64_t>(size_of(asked.dtype));
  p.image_step = in.n;
  p.channel_step = in.c;
  p.nonfinite = reinterpret_cast<const int*>(job.packed);
  p.weights = job.packed + packed_header;
  p.images = static_cast<int>(slab.images.size());
  p.groups = static_cast<int>(c.groups);
  p.depth = static_cast<int>(c.in_channels / c.groups);
  p.rows = static_cast<int>(rows_);
  p.padded_rows = static_cast<int>(padded_rows_);
  p.to = job.to;
  p.chain = job.chain;
  const int width = columns_of(block_, doubles);
  grid *= static_cast<double>(ceil_div(columns, width));
  assert(grid < 0x1p31);
  const Launch how{static_cast<unsigned>(grid), job.stream, 0};
  visit_dtype(asked.dtype, [&]<class E>(E*) {
    if constexpr ((sizeof(E) == sizeof(double)) == doubles) launch_conv<E>(block_, p, how);
  });
}

}  // namespace

std::shared_ptr<const Convolver> make_convolver(std::shared_ptr<const Program> program,
                                                const DeviceProperties& device) {
  if (program->asked->dtype == CONVT_F64)
    return std::make_shared<const PlainConvolver<double>>(std::move(program), device);
  return std::make_shared<const PlainConvolver<float>>(std::move(program), device);
}

}  // namespace convt::core::cuda::simt
