// SPDX-License-Identifier: Apache-2.0
#include "cpu/sums.hpp"

#include <algorithm>
#include <numeric>

#include "base/dtype.hpp"
#include "base/error.hpp"
#include "cpu/sizes.hpp"

namespace convt::core::cpu {
namespace {

constexpr std::int64_t most_cells = 1024, most_between = 4096;  // cells and taps; on the way from one to the other
constexpr std::int64_t most_pixels = std::int64_t{1} << 31;
// An item of the first loop takes some 10 us.
constexpr std::int64_t band_pixels = 1 << 16, item_elements = 1 << 14;
// Sums of columns, 8 KiB, and the elements that are added to them, 24 KiB, stay in a first-level cache.
constexpr std::int64_t most_sums = 1024, tile_bytes = 24 << 10;
constexpr std::int64_t least_columns = 64;
// In bands of fewer rows, the columns of a cell are these, and a row adds to them several times.
constexpr std::int64_t few_rows = 8, folded_columns = 128;
// Products of an item: sums of 8 images, 64 KiB.
constexpr std::int64_t images_together = 8;
// What a run keeps for its images.
constexpr double most_scratch = 16 << 20;
constexpr std::int64_t line_bytes = 64;

// In a fixed order, with several sums at once, whose latency they hide.
double sum_of(const double* x, std::int64_t count) {
  constexpr std::int64_t many = 8;
  double sums[many] = {};
  std::int64_t i = 0;
  for (; i + many <= count; i += many)
    for (std::int64_t k = 0; k < many; ++k) sums[k] += x[i + k];
  for (; i < count; ++i) sums[0] += x[i];
  for (std::int64_t half = many / 2; half > 0; half /= 2)
    for (std::int64_t k = 0; k < half; ++k) sums[k] += sums[k + half];
  return sums[0];
}

// Replaces cells by the boxes of an axis: from [outer][cells][inner] to [outer][taps][inner].
void join_axis(const CellAxis& axis, std::int64_t outer, std::int64_t inner, const double* from, double* to) {
  for (std::int64_t o = 0; o < outer; ++o, from += axis.cells() * inner)
    for (const Interval& cells : axis.taps)
      for (std::int64_t i = 0; i < inner; ++i) {
        double sum = 0;
        for (std::int64_t cell = cells.begin; cell < cells.end; ++cell) sum += from[cell * inner + i];
        *to++ = sum;
      }
}

// The axis and the one before it as one, where it has one cell.
void join_with(CellAxis& before, CellAxis& axis) {
  const std::int64_t size = axis.ends.back();
  for (std::int64_t& end : before.ends) end *= size;
  axis = std::exchange(before, CellAxis{{0, 1}, {}});
}

std::int64_t size_of_axis(const CellAxis& axis) { return axis.ends.back(); }

}  // namespace

template <class T>
struct SpaceSums<T>::Source {
  ImageView image;
  std::int64_t first_channel = 0, channels = 0;
  std::span<const BoundStep<T>> prologue;
};

template <class T>
SpaceSums<T>::SpaceSums(const SpaceSum& sum, const Isa& isa)
    : program_(sum.program), factor_(sum.factor), chain_(isa.chain<T>()), kernels_(isa.sums<T>()) {
  rejection_ = refusal();
  if (!rejection_.empty()) return;
  const Convolution& c = program_->convolution;
  for (std::size_t a = 0; a < 3; ++a) {
    kernel_axes_[a] = cells_of(c, a);
    cells_ = capped_product({cells_, kernel_axes_[a].cells()});
  }
  const auto& [d, h, w] = kernel_axes_;
  if (cells_ > most_cells || d.cells() * h.cells() * c.kernel[2] > most_between ||
      d.cells() * c.kernel[1] * c.kernel[2] > most_between) {
    rejection_ = "taps meet too many different parts of the input";
    return;
  }
  for (const Interval& z : d.taps)
    for (const Interval& y : h.taps)
      for (const Interval& x : w.taps) live_.push_back(z.size() > 0 && y.size() > 0 && x.size() > 0);
  cut_bands();
  choose_sizes();
}

template <class T>
std::string SpaceSums<T>::refusal() const {
  const Convolution& c = program_->convolution;
  if (volume(c.kernel) > most_cells) return formatted("takes up to {} taps", most_cells);
  if (volume(c.input) > most_pixels) return "the input is too large";
  if (std::max(c.in_channels, c.out_channels) > most_pixels) return "there are too many channels";
  return "";
}

template <class T>
void SpaceSums<T>::cut_bands() {
  axes_ = kernel_axes_;
  for (int i = 0; i < 2 && axes_[2].cells() == 1; ++i) {
    join_with(axes_[1], axes_[2]);
    std::swap(axes_[0], axes_[1]);
  }
  if (axes_[1].cells() == 1) join_with(axes_[0], axes_[1]);
  const auto& [d, h, w] = axes_;
  const std::int64_t width = size_of_axis(w), part = std::min(width, band_pixels);
  std::int64_t pixels = 0;
  for (std::int64_t cell = 0; cell < d.cells() * h.cells(); ++cell) {
    const auto in = [](const CellAxis& axis, std::int64_t index) {
      return Interval{axis.ends[static_cast<std::size_t>(index)], axis.ends[static_cast<std::size_t>(index) + 1]};
    };
    const Interval planes = in(d, cell / h.cells()), rows = in(h, cell % h.cells());
    const std::int64_t high = std::clamp<std::int64_t>(band_pixels / part, 1, rows.size());
    const std::int64_t deep =
        high < rows.size() ? 1 : std::clamp<std::int64_t>(band_pixels / (part * high), 1, planes.size());
    for (std::int64_t z = planes.begin; z < planes.end; z += deep)
      for (std::int64_t y = rows.begin; y < rows.end; y += high)
        for (std::int64_t x = 0; x < width; x += part) {
          const Band band{cell,
                          {z, std::min(z + deep, planes.end)},
                          {y, std::min(y + high, rows.end)},
                          {x, std::min(x + part, width)}};
          const std::int64_t more = band.z.size() * band.y.size() * band.x.size();
          const auto number = static_cast<std::int64_t>(bands_.size());
          if (groups_.empty() || pixels + more > band_pixels) {
            groups_.push_back({number, number});
            pixels = 0;
          }
          pixels += more;
          groups_.back().end = number + 1;
          bands_.push_back(band);
        }
  }
}

template <class T>
void SpaceSums<T>::choose_sizes() {
  const Descriptor& asked = *program_->asked;
  const Convolution& c = program_->convolution;
  taps_ = volume(c.kernel);
  if (asked.input_layout == CONVT_CHANNELS_LAST)
    tile_channels_ = std::min(line_bytes / static_cast<std::int64_t>(size_of(asked.dtype)), c.in_channels);
  most_columns_ = most_sums / tile_channels_;
  tile_pixels_ = std::max(tile_bytes / static_cast<std::int64_t>(sizeof(T)) / tile_channels_, most_columns_);
  // Short rows together make columns for whole vectors.
  const std::int64_t width = size_of_axis(axes_[2]), whole = kernels_.lanes / std::gcd(kernels_.lanes, width);
  const std::int64_t wanted = ceil_div(ceil_div(std::min(least_columns, most_columns_), width), whole) * whole;
  if (wanted <= most_columns_ / width) rows_together_ = wanted;

  const std::int64_t pixels = std::max<std::int64_t>(volume(c.input), 1);
  item_channels_ = tile_channels_ * std::clamp<std::int64_t>(item_elements / capped_product({pixels, tile_channels_}),
                                                             1, ceil_div(c.in_channels, tile_channels_));
  const double image =
      sizeof(double) * static_cast<double>(c.in_channels) * static_cast<double>(partials_each() + taps_);
  images_ = std::clamp<std::int64_t>(static_cast<std::int64_t>(most_scratch / image), 1,
                                     std::max<std::int64_t>(asked.input.batch, 1));
  outs_together_ = std::clamp<std::int64_t>(most_sums / taps_, 1, c.out_channels / c.groups);
  period_ = std::lcm(taps_, kernels_.lanes);
}

template <class T>
bool SpaceSums<T>::directly() const {
  const Descriptor& asked = *program_->asked;
  return asked.dtype == real_dtype<T> && asked.input_layout == CONVT_CHANNELS_FIRST && program_->prologue.empty();
}

template <class T>
std::int64_t SpaceSums<T>::items() const {
  const Convolution& c = program_->convolution;
  const std::int64_t sums =
      capped_product({images_, ceil_div(c.in_channels, item_channels_), static_cast<std::int64_t>(groups_.size())});
  const std::int64_t products = capped_product(
      {ceil_div(images_, images_together), c.groups, ceil_div(c.out_channels / c.groups, outs_together_)});
  return std::max(sums, products);
}

template <class T>
std::int64_t SpaceSums<T>::shared_size() const {
  return capped_product({images_, program_->convolution.in_channels, partials_each() + taps_});
}

template <class T>
std::int64_t SpaceSums<T>::slot_size() const {
  const std::int64_t tile =
      directly() ? 0 : ceil_div(tile_channels_ * odd_lines<T>(tile_pixels_) * as_index(sizeof(T)), 8);
  const std::int64_t first = tile_channels_ * most_columns_ + std::max(tile, cells_ + 2 * most_between);
  const std::int64_t each = outs_together_ * taps_;  // weights: as doubles there is room for them in any case
  return std::max(first, images_together * each + period_ + each);
}

template <class T>
double SpaceSums<T>::cycles() const {
  // Measured on one core with 512-bit vectors, for tensors beyond its own caches.
  constexpr double direct_cycles = 0.4, read_cycles = 0.5, transposed_cycles = 1.4, step_cycles = 0.25;
  constexpr double product_cycles = 0.3, weight_bytes_per_cycle = 8, cell_cycles = 8, band_cycles = 200;
  constexpr double item_cycles = 1500;
  const Descriptor& asked = *program_->asked;
  const Convolution& c = program_->convolution;
  const auto batch = static_cast<double>(asked.input.batch), ins = static_cast<double>(c.in_channels);
  const double each = (directly()                                  ? direct_cycles
                       : asked.input_layout == CONVT_CHANNELS_LAST ? transposed_cycles
                                                                   : read_cycles) *
                          static_cast<double>(sizeof(T)) / sizeof(float) +
                      step_cycles * static_cast<double>(program_->prologue.size());
  const double inputs =
      batch * ins *
      (static_cast<double>(volume(c.input)) * each + band_cycles * static_cast<double>(bands_.size()) +
       cell_cycles * static_cast<double>(partials_each() + cells_ + taps_));
  const double weights = static_cast<double>(program_->kernel_count);
  const double products = weights * (batch * product_cycles + static_cast<double>(sizeof(T)) / weight_bytes_per_cycle);
  return inputs + products + item_cycles;
}

template <class T>
double* SpaceSums<T>::boxes_of(const Job& job, std::int64_t image, std::int64_t channel) const {
  const std::int64_t ins = program_->convolution.in_channels;
  return job.shared + images_ * ins * partials_each() + ((image - job.images.begin) * ins + channel) * taps_;
}

template <class T>
void SpaceSums<T>::run(const Job& job) const {
  const Convolution& c = program_->convolution;
  const auto scratch = [&](std::size_t slot) { return reinterpret_cast<double*>(job.slots + slot * job.slot_step); };
  const std::int64_t images = job.images.size();
  parallel_for(images * ceil_div(c.in_channels, item_channels_) * as_index(groups_.size()), job.crew,
               [&](std::int64_t item, std::size_t slot) { sum_cells(job, item, scratch(slot)); });
  if (groups_.size() > 1)
    parallel_for(images, job.crew, [&](std::int64_t image, std::size_t slot) {
      for (std::int64_t channel = 0; channel < c.in_channels; ++channel)
        join_boxes(job.shared + (image * c.in_channels + channel) * partials_each(),
                   boxes_of(job, job.images.begin + image, channel), scratch(slot));
    });
  parallel_for(ceil_div(images, images_together) * c.groups * ceil_div(c.out_channels / c.groups, outs_together_),
               job.crew, [&](std::int64_t item, std::size_t slot) { multiply(job, item, scratch(slot)); });
}

// ---- Sums of cells.

template <class T>
void SpaceSums<T>::sum_cells(const Job& job, std::int64_t item, double* scratch) const {
  const Descriptor& asked = *program_->asked;
  const std::int64_t ins = program_->convolution.in_channels;
  const std::int64_t group = item % as_index(groups_.size()), rest = item / as_index(groups_.size());
  const std::int64_t blocks = ceil_div(ins, item_channels_), image = rest / blocks;
  const Interval& bands = groups_[static_cast<std::size_t>(group)];
  const Interval channels{rest % blocks * item_channels_, std::min((rest % blocks + 1) * item_channels_, ins)};
  Source source;
  source.prologue = job.prologue;
  ImageView& view = source.image;
  // Inputs are only read.
  view.data = const_cast<char*>(static_cast<const char*>(job.input)) +
              (job.images.begin + image) * asked.input_pitches().image * as_index(size_of(asked.dtype));
  view.dtype = asked.dtype;
  view.layout = asked.input_layout;
  view.channels = ins;
  view.within = asked.input_within;
  for (std::size_t a = 0; a < 3; ++a) view.space[a] = size_of_axis(axes_[a]);
  for (std::int64_t c = channels.begin; c < channels.end; c += tile_channels_) {
    source.first_channel = c;
    source.channels = std::min(tile_channels_, channels.end - c);
    double* const partials = job.shared + (image * ins + c) * partials_each();
    for (std::int64_t band = bands.begin; band < bands.end; ++band)
      sum_band(source, bands_[static_cast<std::size_t>(band)], partials + band * axes_[2].cells(), scratch);
    if (groups_.size() == 1)
      for (std::int64_t i = 0; i < source.channels; ++i)
        join_boxes(partials + i * partials_each(), boxes_of(job, job.images.begin + image, c + i), scratch);
  }
}

// The band's part of each cell of W, for each channel.
template <class T>
void SpaceSums<T>::sum_band(const Source& source, const Band& band, double* partials, double* scratch) const {
  double* const columns = scratch;
  T* const tile = reinterpret_cast<T*>(scratch + tile_channels_ * most_columns_);
  const CellAxis& w = axes_[2];
  for (std::int64_t i = 0; i < source.channels; ++i) std::fill_n(partials + i * partials_each(), w.cells(), 0.0);
  for (std::int64_t x = band.x.begin; x < band.x.end; x += most_columns_) {
    const Interval strip{x, std::min(x + most_columns_, band.x.end)};
    const std::int64_t width = strip.size(), row = width * rows_together_;
    std::fill_n(columns, source.channels * row, 0.0);
    sum_strip(source, band, strip, columns, tile);
    for (std::int64_t i = 0; i < source.channels; ++i) {
      double* const own = columns + i * row;
      for (std::int64_t r = 1; r < std::min(rows_together_, band.y.size()); ++r)
        kernels_.add_columns(own + r * width, width, own);
      for_cells(strip, [&](std::int64_t cell, std::int64_t begin, std::int64_t count) {
        partials[i * partials_each() + cell] +=
            sum_of(own + begin, is_folded(band) ? std::min(count, folded_columns) : count);
      });
    }
  }
}

template <class T>
bool SpaceSums<T>::is_folded(const Band& band) const {
  return rows_together_ == 1 && band.z.size() * band.y.size() < few_rows;
}

template <class T>
void SpaceSums<T>::sum_strip(const Source& source, const Band& band, const Interval& x, double* columns,
                             T* tile) const {
  const Axes& space = source.image.space;
  const std::int64_t width = x.size(), row = width * rows_together_;
  const std::int64_t fit = std::max<std::int64_t>(tile_pixels_ / row, 1) * rows_together_;
  for (std::int64_t z = band.z.begin; z < band.z.end; ++z) {
    if (directly()) {
      const T* const from = static_cast<const T*>(source.image.data) + source.first_channel * volume(space) +
                            (z * space[1] + band.y.begin) * space[2] + x.begin;
      add_to_columns(band, x, from, {band.y.size(), space[2]}, columns);
      continue;
    }
    for (std::int64_t y = band.y.begin; y < band.y.end; y += fit) {
      Tile<T> part;
      part.data = tile;
      part.first_channel = source.first_channel;
      part.channels = source.channels;
      part.box = {{z, y, x.begin}, {1, std::min(fit, band.y.end - y), width}};
      const std::int64_t pixels = part.box.pixels();
      part.channel_step = odd_lines<T>(pixels);
      chain_.read(source.image, {part.first_channel, part.channels, part.box, part.channel_step, pixels, width}, tile);
      if (!source.prologue.empty()) chain_.run(source.prologue, part, {}, nullptr);
      for (std::int64_t i = 0; i < source.channels; ++i)
        add_to_columns(band, x, tile + i * part.channel_step, {part.box.size[1], width}, columns + i * row);
    }
  }
}

// Rows that follow each other without a gap are added some together.
template <class T>
void SpaceSums<T>::add_to_columns(const Band& band, const Interval& x, const T* from, const Rows& rows,
                                  double* to) const {
  const std::int64_t row = x.size() * rows_together_;
  if (is_folded(band)) {
    for_cells(x, [&](std::int64_t, std::int64_t begin, std::int64_t count) {
      const std::int64_t whole = count / folded_columns * folded_columns;
      for (std::int64_t y = 0; y < rows.count; ++y) {
        const T* const cell = from + y * rows.step + begin;
        kernels_.add_rows(cell, whole / folded_columns, folded_columns, folded_columns, to + begin);
        kernels_.add_rows(cell + whole, 1, count, count - whole, to + begin);
      }
    });
    return;
  }
  if (rows_together_ == 1) return kernels_.add_rows(from, rows.count, rows.step, row, to);
  const std::int64_t whole = rows.count / rows_together_, rest = rows.count % rows_together_;
  kernels_.add_rows(from, whole, row, row, to);
  kernels_.add_rows(from + whole * row, 1, row, rest * x.size(), to);
}

// Calls body(cell, first pixel of the strip, pixels) for each cell of W that has pixels of the strip.
template <class T>
template <class Body>
void SpaceSums<T>::for_cells(const Interval& strip, const Body& body) const {
  const CellAxis& w = axes_[2];
  for (std::int64_t cell = 0; cell < w.cells(); ++cell) {
    const std::int64_t begin = std::max(w.ends[static_cast<std::size_t>(cell)], strip.begin);
    const std::int64_t end = std::min(w.ends[static_cast<std::size_t>(cell) + 1], strip.end);
    if (begin < end) body(cell, begin - strip.begin, end - begin);
  }
}

// One channel's bands to cells, and cells to boxes.
template <class T>
void SpaceSums<T>::join_boxes(const double* partials, double* boxes, double* scratch) const {
  double* const cells = scratch + tile_channels_ * most_columns_;
  double *const first = cells + cells_, *const second = first + most_between;
  const std::int64_t each = axes_[2].cells();
  std::fill_n(cells, cells_, 0.0);
  for (const Band& band : bands_)
    for (std::int64_t i = 0; i < each; ++i) cells[band.cell * each + i] += *partials++;
  const auto& [d, h, w] = kernel_axes_;
  const Axes& taps = program_->convolution.kernel;
  join_axis(w, d.cells() * h.cells(), 1, cells, first);
  join_axis(h, d.cells(), taps[2], first, second);
  join_axis(d, 1, taps[1] * taps[2], second, boxes);
}

// ---- Products.

template <class T>
void SpaceSums<T>::multiply(const Job& job, std::int64_t item, double* scratch) const {
  const Convolution& c = program_->convolution;
  const std::int64_t outs = c.out_channels / c.groups, depth = c.in_channels / c.groups;
  const std::int64_t blocks = ceil_div(outs, outs_together_), group = item / blocks % c.groups;
  const std::int64_t first = job.images.begin + item / blocks / c.groups * images_together;
  const Interval images{first, std::min(first + images_together, job.images.end)};
  const Interval own{item % blocks * outs_together_, std::min((item % blocks + 1) * outs_together_, outs)};
  const std::int64_t count = own.size() * taps_;
  double *const sums = scratch, *const factors = sums + images_together * count;
  T* const converted = reinterpret_cast<T*>(factors + period_);
  std::fill_n(sums, images.size() * count, 0.0);
  const ImageView kernel{
      const_cast<void*>(job.kernel), job.kernel_dtype, CONVT_CHANNELS_FIRST, 1, {1, 1, program_->kernel_count}};
  for (std::int64_t in = group * depth; in < (group + 1) * depth; ++in) {
    const std::int64_t from = (in * outs + own.begin) * taps_;
    const T* weights = converted;
    if (job.kernel_dtype == real_dtype<T>)
      weights = static_cast<const T*>(job.kernel) + from;
    else
      chain_.read(kernel, {0, 1, {{0, 0, from}, {1, 1, count}}, count, count, count}, converted);
    for (std::int64_t image = images.begin; image < images.end; ++image) {
      const double* const boxes = boxes_of(job, image, in);
      for (std::int64_t i = 0; i < std::min(period_, count); i += taps_) std::copy_n(boxes, taps_, factors + i);
      kernels_.add_products(weights, count, factors, period_, sums + (image - images.begin) * count);
    }
  }
  for (std::int64_t image = images.begin; image < images.end; ++image)
    for (std::int64_t out = own.begin; out < own.end; ++out) {
      const double* const all = sums + (image - images.begin) * count + (out - own.begin) * taps_;
      double sum = 0;
      // A tap that takes no input has no product, even if its weight is infinite.
      for (std::int64_t tap = 0; tap < taps_; ++tap)
        if (live_[static_cast<std::size_t>(tap)]) sum += all[tap];
      job.results[(image - job.images.begin) * job.result_step + group * outs + out] = static_cast<T>(factor_ * sum);
    }
}

template class SpaceSums<float>;
template class SpaceSums<double>;

}  // namespace convt::core::cpu
