// SPDX-License-Identifier: Apache-2.0
#include "cuda/sums/convolver.hpp"

#include <algorithm>
#include <cassert>

#include "base/dtype.hpp"
#include "base/error.hpp"
#include "cuda/sums/params.hpp"
#include "plan/sums.hpp"

namespace convt::core::cuda::sums {
namespace {

constexpr std::int64_t most_sizes = std::int64_t{1} << 29;
constexpr double most_scratch = 16 << 20;
constexpr std::int64_t most_lines = std::int64_t{1} << 30;
constexpr double few_seconds = 1e-5;

// An axis as kernels have it. Returns why that is impossible, or "".
std::string cut(const Convolution& c, std::size_t a, Axis& axis) {
  if (c.kernel[a] > Axis::most_taps) return formatted("takes up to {} taps along an axis", Axis::most_taps);
  if (c.input[a] > most_sizes) return "the input is too large";
  const CellAxis cells = cells_of(c, a);
  if (cells.cells() > Axis::most_segments) return "taps meet too many different parts of the input";
  axis.taps = static_cast<int>(c.kernel[a]);
  axis.segments = static_cast<int>(cells.cells());
  axis.size = static_cast<int>(c.input[a]);
  std::ranges::copy(cells.ends, axis.ends);
  for (std::size_t tap = 0; tap < cells.taps.size(); ++tap) {
    axis.first[tap] = static_cast<unsigned char>(cells.taps[tap].begin);
    axis.last[tap] = static_cast<unsigned char>(cells.taps[tap].end);
  }
  return "";
}

template <class T>
class SumsConvolver : public Convolver {
 public:
  SumsConvolver(std::shared_ptr<const Program> program, double factor, const DeviceProperties& device)
      : program_(std::move(program)), factor_(factor), device_(device) {
    const Convolution& c = program_->convolution;
    const Descriptor& asked = *program_->asked;
    if (asked.input_layout != CONVT_CHANNELS_FIRST) rejection = "takes inputs with channels first";
    if (std::max({c.in_channels, c.out_channels, asked.input.batch}) > most_sizes)
      rejection = "there are more than 2^29 channels or images";
    std::int64_t cells = 1;
    for (std::size_t a = 0; a < 3 && rejection.empty(); ++a) {
      rejection = cut(c, a, axis_[a]);
      taps_ *= axis_[a].taps;
      cells *= axis_[a].segments;
    }
    if (rejection.empty() && std::max<std::int64_t>(cells, taps_) > most_cells)
      rejection = "taps meet too many different parts of the input";
    if (rejection.empty() && static_cast<double>(c.in_channels) * taps_ > 0x1p30) rejection = "the kernel is too large";
    // A block computes the products of one output channel for a few images. This is slow, so products must be few.
    const std::int64_t batch = asked.input.batch;
    if (rejection.empty() && product_seconds(batch) > few_seconds + input_seconds(batch))
      rejection = "there would be many products for each input";
    if (rejection.empty() && asked.input.space[0] * asked.input.space[1] > most_lines)
      rejection = "there are more than 2^30 lines";
  }

  bool reads_ranges() const override { return true; }
  std::int64_t mixed_channels() const override { return 0; }
  std::optional<std::size_t> pools(std::size_t, std::size_t, std::size_t) const override { return std::nullopt; }
  Blocks blocks(const Axes&) const override { return {1, 0}; }
  Prediction predict(const PlannedJob& job) const override {
    constexpr double launch_seconds = 3e-6;  // sums and products are two launches
    Prediction p;
    p.add(Prediction::launches, launch_seconds);
    p.add(Prediction::memory, input_seconds(job.images));
    p.add(Prediction::products, product_seconds(job.images));
    return p;
  }
  std::string explain(const PlannedJob&) const override {
    return explain_sums(taps_, axis_[0].segments * axis_[1].segments * axis_[2].segments);
  }
  double packed_bytes() const override {
    const Convolution& c = program_->convolution;
    return sizeof(T) * static_cast<double>(c.out_channels) * static_cast<double>(c.in_channels / c.groups) * taps_;
  }
  double scratch_bytes() const override { return static_cast<double>(images_together()) * image_bytes(); }
  void pack(const void* kernel, convt_dtype dtype, void* packed, cudaStream_t stream, bool) const override;
  void convolve(const ConvJob& job) const override;

 private:
  double input_seconds(std::int64_t images) const {
    constexpr double streamed = 0.7;
    const Descriptor& asked = *program_->asked;
    const auto batch = static_cast<double>(std::max<std::int64_t>(asked.input.batch, 1));
    const double bytes = static_cast<double>(asked.input.count()) * static_cast<double>(size_of(asked.dtype)) *
                         static_cast<double>(images) / batch;
    // A block sums one channel of an image.
    const double blocks = static_cast<double>(images) * static_cast<double>(asked.input.channels);
    const double share = std::min(blocks / (4.0 * device_.multiprocessors), 1.0);
    return share > 0 ? bytes / (streamed * share * device_.bandwidth) : 0;
  }
  double product_seconds(std::int64_t images) const {
    constexpr double each = 16;  // products of a multiprocessor per clock, in double: half of the rate of fast devices
    const Convolution& c = program_->convolution;
    const double products = static_cast<double>(images) * static_cast<double>(c.in_channels / c.groups) *
                            static_cast<double>(c.out_channels) * taps_;
    return products / (each * device_.multiprocessors * device_.clock);
  }
  double image_bytes() const { return sizeof(double) * static_cast<double>(program_->convolution.in_channels) * taps_; }
  std::int64_t images_together() const {
    const std::int64_t fit = std::min(static_cast<std::int64_t>(most_scratch / image_bytes()),
                                      most_lines / std::max<std::int64_t>(program_->convolution.out_channels, 1));
    return std::clamp<std::int64_t>(fit, 1, std::max<std::int64_t>(program_->asked->input.batch, 1));
  }

  std::shared_ptr<const Program> program_;
  double factor_;
  DeviceProperties device_;
  Axis axis_[3];
  int taps_ = 1;
};

template <class T>
void SumsConvolver<T>::pack(const void* kernel, convt_dtype dtype, void* packed, cudaStream_t stream, bool) const {
  const Convolution& c = program_->convolution;
  PackParams p;
  p.kernel = kernel;
  p.dtype = dtype;
  p.weights = packed;
  p.groups = static_cast<int>(c.groups);
  p.outs = static_cast<int>(c.out_channels / c.groups);
  p.depth = static_cast<int>(c.in_channels / c.groups);
  std::ranges::copy(axis_, p.axis);
  launch_pack<T>(p, stream);
}

template <class T>
void SumsConvolver<T>::convolve(const ConvJob& job) const {
  const Descriptor& asked = *program_->asked;
  const Convolution& c = program_->convolution;
  const auto element = static_cast<std::int64_t>(size_of(asked.dtype));
  auto* const sums = reinterpret_cast<double*>(job.scratch);
  ProductParams products;
  products.weights = job.packed;
  products.sums = sums;
  products.factor = factor_;
  products.groups = static_cast<int>(c.groups);
  products.outs = static_cast<int>(c.out_channels / c.groups);
  products.depth = static_cast<int>(c.in_channels / c.groups);
  products.taps = taps_;
  ChainParams chain;
  chain.to = job.to;
  chain.from = job.to;  // not read
  chain.images = static_cast<int>(job.slab.images.size());
  chain.channels = static_cast<int>(c.out_channels);
  chain.chain = job.chain;
  [[maybe_unused]] const bool elementwise = make_spans(chain, products.results);
  assert(elementwise);  // mixed_channels() says so
  for (std::int64_t first = 0; first < job.slab.images.size(); first += images_together()) {
    const std::int64_t images = std::min(images_together(), job.slab.images.size() - first);
    BoxParams boxes;
    boxes.input =
        static_cast<const std::byte*>(job.input) + (job.slab.images.begin + first) * job.input_step.n * element;
    boxes.dtype = asked.dtype;
    boxes.n = job.input_step.n;
    boxes.c = job.input_step.c;
    boxes.d = job.input_step.d;
    boxes.h = job.input_step.h;
    boxes.images = static_cast<int>(images);
    boxes.channels = static_cast<int>(c.in_channels);
    std::ranges::copy(axis_, boxes.axis);
    boxes.sums = sums;
    launch_boxes(boxes, job.stream);
    products.first = static_cast<int>(first);
    products.images = static_cast<int>(images);
    launch_products<T>(products, job.stream);
  }
}

}  // namespace

std::shared_ptr<const Convolver> make_convolver(std::shared_ptr<const Program> program, double factor,
                                                const DeviceProperties& device) {
  if (program->asked->dtype == CONVT_F64)
    return std::make_shared<const SumsConvolver<double>>(std::move(program), factor, device);
  return std::make_shared<const SumsConvolver<float>>(std::move(program), factor, device);
}

}  // namespace convt::core::cuda::sums
