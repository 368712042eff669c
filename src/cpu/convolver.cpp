// SPDX-License-Identifier: Apache-2.0
#include "cpu/convolver.hpp"

#include <algorithm>
#include <utility>

#include "cpu/convert.hpp"

namespace convt::core::cpu {
namespace {

constexpr std::int64_t line = 64;  // bytes

std::int64_t round_up(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }

// At least `size` elements, an odd number of cache lines: rows that far apart do not meet in one set of a cache.
template <class T>
std::int64_t odd_lines(std::int64_t size) {
  constexpr auto each = static_cast<std::int64_t>(line / sizeof(T));
  return (round_up(size, each) / each | 1) * each;
}

std::int64_t as_index(std::size_t value) { return static_cast<std::int64_t>(value); }

// Bytes of one row of sums of a run: with 8 rows, a fraction of a first-level cache of 32 KiB.
constexpr std::int64_t most_sums = 2048;

constexpr std::int64_t most_block_rows = 16;  // of any instruction set

// A block of rows of one class on its way into the packed weights: element (tap, row) of a channel comes from
// from[row], at the place that order[row] has for the tap.
template <class T, class E>
struct PackedBlock {
  std::int64_t rows = 0, taps = 0;
  bool adjacent = true;  // rows are elements that follow each other, as merged phases of W are
  std::array<const E*, most_block_rows> from;
  std::array<const std::int64_t*, most_block_rows> order;
  T* to = nullptr;

  void pack_channel(std::int64_t offset) {
    if (adjacent) {
      for (std::int64_t t = 0; t < taps; ++t) {
        const E* const first = from[0] + offset + order[0][t];
        for (std::int64_t r = 0; r < rows; ++r) to[t * rows + r] = to_real<T>(first[r]);
      }
    } else {
      for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
        const E* const its = from[r] + offset;
        const std::int64_t* const at = order[r];
        T* out = to + r;
        for (std::int64_t t = 0; t < taps; ++t, out += rows) *out = to_real<T>(its[at[t]]);
      }
    }
    to += taps * rows;
  }
};

// Input channels that one part packs: whole cache lines of the kernel are read once, while many classes take from them.
constexpr std::int64_t pack_channels = 16;

}  // namespace

template <class T>
Convolver<T>::Convolver(const Convolution& convolution, const Blocking& blocking, const ConvKernels<T>& kernels,
                        const std::array<std::vector<Interval>, 3>& outputs)
    : convolution_(convolution),
      blocking_(blocking),
      kernels_(kernels),
      phases_(phases_of(convolution, blocking.merged)),
      ins_(convolution.in_channels / convolution.groups),
      outs_(convolution.out_channels / convolution.groups) {
  Axes positions{};  // at most, of any class
  for (std::size_t a = 0; a < 3; ++a)
    for (const Interval& one : outputs[a]) {
      const Interval all = phases_.axis[a].positions(one);
      extent_[a] = std::max(extent_[a], phases_.axis[a].inputs(all).size());
      positions[a] = std::max(positions[a], all.size());
    }
  image_step_ = volume(extent_);
  channel_step_ = odd_lines<T>(image_step_ * blocking_.images);
  const std::int64_t in_channels = std::max<std::int64_t>(blocking_.channels / outs_, 1) * ins_;
  patch_size_ = channel_step_ * in_channels + kernels_.lanes;

  std::int64_t deepest = 0, most_phases = 1;
  for (std::int64_t i = 0; i < phases_.count(); ++i) {
    Class one;
    one.axes = phases_.at(i);
    one.phases = phase_count(one.axes);
    one.taps = tap_count(one.axes);
    one.packed_before = packed_each_;
    packed_each_ += one.phases * one.taps * ins_;
    deepest = std::max(deepest, one.taps);
    most_phases = std::max(most_phases, one.phases);
    for (const std::int64_t d : one.axes[0]->shifts)
      for (const std::int64_t h : one.axes[1]->shifts)
        for (const std::int64_t w : one.axes[2]->shifts)
          one.tap_offsets.push_back(((phases_.axis[0].most_shift - d) * extent_[1] + phases_.axis[1].most_shift - h) *
                                        extent_[2] +
                                    phases_.axis[2].most_shift - w);
    for (const std::int64_t pd : one.axes[0]->phases)
      for (const std::int64_t ph : one.axes[1]->phases)
        for (const std::int64_t pw : one.axes[2]->phases)
          for (const std::int64_t d : one.axes[0]->shifts)
            for (const std::int64_t h : one.axes[1]->shifts)
              for (const std::int64_t w : one.axes[2]->shifts) {
                const std::int64_t kd = phases_.axis[0].tap(pd, d), kh = phases_.axis[1].tap(ph, h),
                                   kw = phases_.axis[2].tap(pw, w);
                one.kernel_taps.push_back((kd * convolution_.kernel[1] + kh) * convolution_.kernel[2] + kw);
              }
    if (!blocking_.panel)
      for (std::int64_t c = 0; c < ins_; ++c)
        for (const std::int64_t tap : one.tap_offsets)
          one.offsets.push_back(static_cast<std::int32_t>(c * channel_step_ + tap));
    if (!blocking_.panel) one.offsets.resize(one.offsets.size() + gemm_ahead);
    classes_.push_back(std::move(one));
  }

  if (blocking_.panel) {
    run_step_ = odd_lines<T>(volume(positions) * blocking_.images);
    const std::int64_t outs = std::min(blocking_.channels, outs_);
    panel_class_step_ = run_step_ * outs * most_phases;
    sums_size_ = panel_class_step_ * as_index(panel_classes()) + kernels_.lanes;
    const std::int64_t depth = blocking_.chunk * deepest;
    panel_size_ = run_step_ * depth + kernels_.lanes;
    for (std::int64_t k = 0; k < depth; ++k) panel_offsets_.push_back(static_cast<std::int32_t>(k * run_step_));
    panel_offsets_.resize(panel_offsets_.size() + gemm_ahead);
    for (std::int64_t i = 0; i < run_step_; i += kernels_.lanes) panel_starts_.push_back(static_cast<std::int32_t>(i));
  } else {
    const Vectors vectors = lay_vectors(positions[1], positions[2], positions[0]);
    run_step_ = odd_lines<T>(std::max(vectors.each_plane * kernels_.lanes, most_sums / as_index(sizeof(T))));
    sums_size_ = run_step_ * kernels_.most_rows * as_index(phases_.axis[2].classes.size()) + kernels_.lanes;
    starts_size_ = run_step_;
  }
}

template <class T>
std::int64_t Convolver<T>::packed_size() const {
  return packed_each_ * convolution_.out_channels;
}

template <class T>
std::int64_t Convolver<T>::scratch_size() const {
  return odd_lines<T>(patch_size_) + odd_lines<T>(sums_size_) + odd_lines<T>(panel_size_) + odd_lines<T>(starts_size_) +
         odd_lines<T>(4 * kernels_.lanes);
}

template <class T>
std::int64_t Convolver<T>::splits() const {
  return (convolution_.out_channels + blocking_.channels - 1) / blocking_.channels;
}

template <class T>
Interval Convolver<T>::channels(std::int64_t split) const {
  return {split * blocking_.channels, std::min((split + 1) * blocking_.channels, convolution_.out_channels)};
}

template <class T>
typename Convolver<T>::Rows Convolver<T>::rows_of(const Class& one, std::int64_t outs) const {
  // The phases of W of one channel stay together, so that they can be interleaved from one block.
  const auto together = as_index(one.axes[2]->phases.size());
  Rows rows{outs * one.phases, together <= kernels_.most_rows ? together : 1, 1};
  const std::int64_t granules = kernels_.most_rows / rows.granule;
  rows.blocks = (rows.rows / rows.granule + granules - 1) / granules;
  return rows;
}

template <class T>
std::int64_t Convolver<T>::pack_parts() const {
  const std::int64_t units = convolution_.groups > 1 ? convolution_.groups : splits();
  return units * ((ins_ + pack_channels - 1) / pack_channels);
}

// Where no phases are merged: every tap of the kernel is one tap of one class, and all classes have the same rows.
template <class T>
template <class E>
void Convolver<T>::pack_taps(const E* from, const Interval& ins, std::int64_t outs, T* to) const {
  const std::int64_t taps = volume(convolution_.kernel);
  const Rows rows = rows_of(classes_.front(), outs);
  struct Place {
    T* at;
    std::int64_t step;  // from channel to channel
  };
  std::vector<Place> places(static_cast<std::size_t>(taps));
  for (std::int64_t b = 0; b < rows.blocks; ++b) {
    const std::int64_t begin = rows.begin(b), count = rows.begin(b + 1) - begin;
    for (const Class& one : classes_)
      for (std::int64_t t = 0; t < one.taps; ++t)
        places[static_cast<std::size_t>(one.kernel_taps[static_cast<std::size_t>(t)])] = {
            to + outs * one.packed_before + (begin * ins_ + ins.begin * count) * one.taps + t * count,
            one.taps * count};
    for (std::int64_t c = ins.begin; c < ins.end; ++c) {
      const E* element = from + (c * outs_ + begin) * taps;
      for (std::int64_t r = 0; r < count; ++r)
        for (const Place& place : places) place.at[r] = to_real<T>(*element++);
      for (Place& place : places) place.at += place.step;
    }
  }
}

template <class T>
void Convolver<T>::pack(const void* kernel, convt_dtype dtype, std::int64_t part, T* packed) const {
  const std::int64_t chunks = (ins_ + pack_channels - 1) / pack_channels, unit = part / chunks;
  const Interval ins{part % chunks * pack_channels, std::min((part % chunks + 1) * pack_channels, ins_)};
  const Interval outs = convolution_.groups > 1 ? Interval{unit * outs_, (unit + 1) * outs_} : channels(unit);
  const std::int64_t group = outs.begin / outs_, taps = volume(convolution_.kernel);
  T* const to = packed + outs.begin * packed_each_;
  visit_dtype(dtype, [&]<class E>(E*) {
    const E* const from = static_cast<const E*>(kernel) + (group * ins_ * outs_ + outs.begin % outs_) * taps;
    if (blocking_.merged == 0) return pack_taps(from, ins, outs.size(), to);
    // All classes take from a channel's taps while they are in cache.
    std::vector<PackedBlock<T, E>> blocks;
    for (std::int64_t b = 0;; ++b) {
      blocks.clear();
      for (const Class& one : classes_) {
        const Rows rows = rows_of(one, outs.size());
        if (b >= rows.blocks) continue;
        PackedBlock<T, E>& block = blocks.emplace_back();
        block.rows = rows.begin(b + 1) - rows.begin(b);
        block.taps = one.taps;
        block.to = to + outs.size() * one.packed_before + (rows.begin(b) * ins_ + ins.begin * block.rows) * one.taps;
        for (std::size_t r = 0; r < static_cast<std::size_t>(block.rows); ++r) {
          const std::int64_t row = rows.begin(b) + as_index(r);
          block.from[r] = from + row / one.phases * taps;
          block.order[r] = one.kernel_taps.data() + row % one.phases * one.taps;
          for (std::size_t t = 0; t < static_cast<std::size_t>(one.taps); ++t)
            block.adjacent &= block.from[r] + block.order[r][t] == block.from[0] + block.order[0][t] + r;
        }
      }
      if (blocks.empty()) break;
      for (std::int64_t c = ins.begin; c < ins.end; ++c)
        for (PackedBlock<T, E>& block : blocks) block.pack_channel(c * outs_ * taps);
    }
  });
}

// What the parts of an item share.
template <class T>
struct Convolver<T>::Run {
  std::array<Interval, 3> positions;  // of any phase
  std::array<Interval, 3> inputs;
  T *patch, *sums, *panel, *row;
  std::int32_t* starts;
  Interval outs;  // output channels
};

template <class T>
void Convolver<T>::run(const Item& item, const ChainKernels<T>& chain) const {
  Run run;
  for (std::size_t a = 0; a < 3; ++a) {
    run.positions[a] = phases_.axis[a].positions(item.outputs[a]);
    run.inputs[a] = phases_.axis[a].inputs(run.positions[a]);
  }
  run.patch = item.scratch;
  run.sums = run.patch + odd_lines<T>(patch_size_);
  run.panel = run.sums + odd_lines<T>(sums_size_);
  run.row = run.panel + odd_lines<T>(panel_size_);
  run.starts = reinterpret_cast<std::int32_t*>(run.row + odd_lines<T>(4 * kernels_.lanes));
  run.outs = channels(item.split);
  read_patch(item, run, chain);
  if (!phases_.axis[0].complete || !phases_.axis[1].complete || !phases_.axis[2].complete) clear(item);
  if (blocking_.panel)
    run_panel(item, run);
  else
    run_direct(item, run);
}

template <class T>
void Convolver<T>::read_patch(const Item& item, const Run& run, const ChainKernels<T>& chain) const {
  Window window;
  const std::int64_t first = run.outs.begin / outs_, last = (run.outs.end - 1) / outs_;  // groups
  window.first_channel = first * ins_;
  window.channels = (last - first + 1) * ins_;
  for (std::size_t a = 0; a < 3; ++a) {
    window.box.origin[a] = run.inputs[a].begin;
    window.box.size[a] = run.inputs[a].size();
  }
  window.channel_step = channel_step_;
  window.plane_step = extent_[1] * extent_[2];
  window.row_step = extent_[2];
  T* to = run.patch;
  for (const ImageView& input : item.inputs) {
    chain.read(input, window, to);
    to += image_step_;
  }
}

template <class T>
void Convolver<T>::clear(const Item& item) const {
  const auto channels_here = channels(item.split).size();
  for (std::int64_t i = 0; i < as_index(item.inputs.size()); ++i)
    for (std::int64_t c = 0; c < channels_here; ++c)
      for (std::int64_t d = 0; d < item.outputs[0].size(); ++d)
        for (std::int64_t h = 0; h < item.outputs[1].size(); ++h)
          std::fill_n(item.to.data + i * item.to.image_step + c * item.to.channel_step + d * item.to.plane_step +
                          h * item.to.row_step,
                      item.outputs[2].size(), T(0));
}

// The vectors of a run of positions of one plane: whole rows of the patch end to end, or vectors of each row alone.
template <class T>
struct Convolver<T>::Vectors {
  bool by_row = false;
  std::int64_t each_row = 0;    // by row: vectors
  std::int64_t each_plane = 0;  // vectors
  std::int64_t row_step = 0;    // of the sums, in elements
  std::int64_t run = 1;         // planes of a run
};

template <class T>
typename Convolver<T>::Vectors Convolver<T>::lay_vectors(std::int64_t rows, std::int64_t width,
                                                         std::int64_t planes) const {
  const std::int64_t lanes = kernels_.lanes, each_row = (width + lanes - 1) / lanes;
  const std::int64_t end_to_end = ((rows - 1) * extent_[2] + width + lanes - 1) / lanes;
  Vectors v;
  v.by_row = rows * each_row <= end_to_end;
  v.each_row = each_row;
  v.each_plane = v.by_row ? rows * each_row : end_to_end;
  v.row_step = v.by_row ? each_row * lanes : extent_[2];
  // Several planes make one run while a block's sums stay in the first-level cache.
  v.run = std::clamp<std::int64_t>(most_sums / (v.each_plane * lanes * as_index(sizeof(T))), 1, planes);
  return v;
}

// Rows of sums on their way out: for each class of W that is there, rows of (image, plane, row, column) of positions.
struct Sums {
  std::int64_t channel = 0;  // of the item, where row 0 of the class belongs
  Interval rows;             // of the class
  ClassAxes axes{};          // the first class of W
  std::size_t classes = 1;   // of W, from there on
  Interval d, h;             // positions
  std::int64_t images = 1;
  std::int64_t class_step = 0, image_step = 0, plane_step = 0, row_step = 0;
};

template <class T>
void Convolver<T>::run_direct(const Item& item, const Run& run) const {
  const std::int64_t plane = extent_[1] * extent_[2];
  const std::size_t w_classes = phases_.axis[2].classes.size();
  const std::int64_t first_group = run.outs.begin / outs_, last_group = (run.outs.end - 1) / outs_;
  std::int64_t width = 0;
  for (const AxisClass& one : phases_.axis[2].classes)
    width = std::max(width, phases_.axis[2].positions(one, item.outputs[2]).size());
  if (width <= 0) return;
  for (std::size_t first = 0; first < classes_.size(); first += w_classes) {
    const Class& one = classes_[first];
    const Interval d = phases_.axis[0].positions(*one.axes[0], item.outputs[0]);
    const Interval h = phases_.axis[1].positions(*one.axes[1], item.outputs[1]);
    if (d.size() <= 0 || h.size() <= 0) continue;
    const Vectors vectors = lay_vectors(h.size(), width, d.size());
    std::int32_t* start = run.starts;
    for (std::int64_t p = 0; p < vectors.run; ++p)
      for (std::int64_t v = 0; v < vectors.each_plane; ++v)
        *start++ = static_cast<std::int32_t>(
            p * plane + (vectors.by_row ? v / vectors.each_row * extent_[2] + v % vectors.each_row * kernels_.lanes
                                        : v * kernels_.lanes));
    for (std::int64_t group = first_group; group <= last_group; ++group) {
      const Interval outs{std::max(run.outs.begin, group * outs_), std::min(run.outs.end, (group + 1) * outs_)};
      const T* const packed = item.packed + outs.begin * packed_each_;
      const T* const x = run.patch + (group - first_group) * ins_ * channel_step_ +
                         (d.begin - run.positions[0].begin) * plane + (h.begin - run.positions[1].begin) * extent_[2];
      const Rows rows = rows_of(one, outs.size());
      for (std::int64_t b = 0; b < rows.blocks; ++b) {
        const Interval block{rows.begin(b), rows.begin(b + 1)};
        for (std::int64_t p = 0; p < d.size(); p += vectors.run) {
          const std::int64_t planes = std::min(vectors.run, d.size() - p);
          for (std::size_t w = 0; w < w_classes; ++w) {
            const Class& its = classes_[first + w];
            const std::int64_t depth = ins_ * its.taps;
            const Interval columns = phases_.axis[2].positions(*its.axes[2], item.outputs[2]);
            kernels_.gemm({.x = x + p * plane + columns.begin - run.positions[2].begin,
                           .starts = run.starts,
                           .vectors = planes * vectors.each_plane,
                           .offsets = its.offsets.data(),
                           .depth = depth,
                           .w = packed + outs.size() * its.packed_before + block.begin * depth,
                           .rows = static_cast<int>(block.size()),
                           .c = run.sums + as_index(w) * kernels_.most_rows * run_step_,
                           .c_step = run_step_,
                           .accumulate = false});
          }
          store(item, run,
                {.channel = outs.begin - run.outs.begin,
                 .rows = block,
                 .axes = one.axes,
                 .classes = w_classes,
                 .d = {d.begin + p, d.begin + p + planes},
                 .h = h,
                 .class_step = kernels_.most_rows * run_step_,
                 .plane_step = vectors.each_plane * kernels_.lanes,
                 .row_step = vectors.row_step});
        }
      }
    }
  }
}

template <class T>
void Convolver<T>::store(const Item& item, const Run& run, const Sums& sums) const {
  const AxisPhases &ad = phases_.axis[0], &ah = phases_.axis[1];
  const auto d_phases = as_index(sums.axes[0]->phases.size()), h_phases = as_index(sums.axes[1]->phases.size()),
             w_phases = as_index(sums.axes[2]->phases.size());
  // Rows of one channel that are phases of W, one behind the other, go out together.
  for (std::int64_t r = sums.rows.begin, end = 0; r < sums.rows.end; r = end) {
    end = std::min(sums.rows.end, (r / w_phases + 1) * w_phases);
    const std::int64_t phase_d = sums.axes[0]->phases[static_cast<std::size_t>(r / (h_phases * w_phases) % d_phases)];
    const std::int64_t phase_h = sums.axes[1]->phases[static_cast<std::size_t>(r / w_phases % h_phases)];
    const Interval h = ah.positions(phase_h, item.outputs[1]), d_all = ad.positions(phase_d, item.outputs[0]);
    const Interval d{std::max(d_all.begin, sums.d.begin), std::min(d_all.end, sums.d.end)};
    if (h.size() <= 0) continue;
    RowsOut<T> out;
    out.from_step = sums.row_step;
    out.to_step = ah.stride * item.to.row_step;
    out.rows = h.size();
    out.first_phase = r % w_phases;
    out.phases = end - r;
    for (std::int64_t i = 0; i < sums.images; ++i)
      for (std::int64_t q = d.begin; q < d.end; ++q) {
        out.from = run.sums + (r - sums.rows.begin) * run_step_ + i * sums.image_step +
                   (q - sums.d.begin) * sums.plane_step + (h.begin - sums.h.begin) * sums.row_step;
        out.to = item.to.data + i * item.to.image_step +
                 (sums.channel + r / (d_phases * h_phases * w_phases)) * item.to.channel_step +
                 (ad.output(phase_d, q) - item.outputs[0].begin) * item.to.plane_step +
                 (ah.output(phase_h, h.begin) - item.outputs[1].begin) * item.to.row_step;
        store_rows(item, run, sums, out);
      }
  }
}

template <class T>
void Convolver<T>::store_rows(const Item& item, const Run& run, const Sums& sums, const RowsOut<T>& out) const {
  const AxisPhases& aw = phases_.axis[2];
  const Interval& outputs = item.outputs[2];
  const bool all_classes = as_index(sums.classes) == aw.stride;
  if (all_classes || out.phases == aw.stride) {
    kernels_.interleave({.from = out.from,
                         .phases = aw.stride,
                         .phase_step = all_classes ? sums.class_step : run_step_,
                         .lead = outputs.begin + aw.padding - run.positions[2].begin * aw.stride,
                         .common = !all_classes,
                         .rows = out.rows,
                         .from_step = out.from_step,
                         .to = out.to,
                         .to_step = out.to_step,
                         .width = outputs.size(),
                         .scratch = run.row});
    return;
  }
  for (std::size_t w = 0; w < sums.classes; ++w) {
    const AxisClass& its = sums.axes[2][w];
    const Interval columns = aw.positions(its, outputs);
    const auto* const phases = its.phases.data() + out.first_phase;
    for (std::int64_t y = 0; y < out.rows; ++y) {
      const T* from = out.from + as_index(w) * sums.class_step + y * out.from_step;
      T* to = out.to + y * out.to_step;
      for (std::int64_t q = columns.begin; q < columns.end; ++q, ++from)
        for (std::int64_t p = 0; p < out.phases; ++p) {
          const std::int64_t x = aw.output(phases[p], q) - outputs.begin;
          if (x >= 0 && x < outputs.size()) to[x] = from[p * run_step_];
        }
    }
  }
}

template <class T>
void Convolver<T>::run_panel(const Item& item, const Run& run) const {
  const std::int64_t first_group = run.outs.begin / outs_, last_group = (run.outs.end - 1) / outs_;
  const std::size_t together = panel_classes();
  const AxisPhases& aw = phases_.axis[2];
  for (std::int64_t group = first_group; group <= last_group; ++group) {
    const Interval outs{std::max(run.outs.begin, group * outs_), std::min(run.outs.end, (group + 1) * outs_)};
    for (std::size_t first = 0; first < classes_.size(); first += together) {
      const Class& one = classes_[first];
      std::array<Interval, 3> q;
      for (std::size_t a = 0; a < 3; ++a) q[a] = phases_.axis[a].positions(*one.axes[a], item.outputs[a]);
      std::int64_t width = 0;  // the same for all classes of W that go out together
      for (std::size_t w = 0; w < together; ++w)
        width = std::max(width, aw.positions(one.axes[2][w], item.outputs[2]).size());
      if (q[0].size() <= 0 || q[1].size() <= 0 || width <= 0) continue;
      for (std::size_t w = 0; w < together; ++w) {
        q[2].begin = aw.positions(one.axes[2][w], item.outputs[2]).begin;
        q[2].end = q[2].begin + width;
        PanelRun panel{.group = group - first_group, .outs = outs, .positions = q};
        panel.sums = run.sums + as_index(w) * panel_class_step_;
        run_panel_class(item, run, classes_[first + w], panel);
      }
      store(item, run,
            {.channel = outs.begin - run.outs.begin,
             .rows = {0, outs.size() * one.phases},
             .axes = one.axes,
             .classes = together,
             .d = q[0],
             .h = q[1],
             .images = as_index(item.inputs.size()),
             .class_step = panel_class_step_,
             .image_step = q[0].size() * q[1].size() * width,
             .plane_step = q[1].size() * width,
             .row_step = width});
    }
  }
}

// Classes of W whose sums are kept until all are there, to be interleaved.
template <class T>
std::size_t Convolver<T>::panel_classes() const {
  const AxisPhases& aw = phases_.axis[2];
  return aw.complete && as_index(aw.classes.size()) == aw.stride && aw.stride <= 4 ? aw.classes.size() : 1;
}

template <class T>
void Convolver<T>::run_panel_class(const Item& item, const Run& run, const Class& one, const PanelRun& panel) const {
  const std::int64_t plane = extent_[1] * extent_[2];
  const auto& q = panel.positions;
  Gather<T> gather{.images = as_index(item.inputs.size()),
                   .image_step = image_step_,
                   .planes = q[0].size(),
                   .plane_step = plane,
                   .rows = q[1].size(),
                   .row_step = extent_[2],
                   .width = q[2].size()};
  const std::int64_t positions = gather.images * gather.planes * gather.rows * gather.width;
  if (gather.width == gather.row_step) gather.width *= std::exchange(gather.rows, 1);
  if (gather.width == gather.plane_step) gather.width *= std::exchange(gather.planes, 1);

  const T* const corner = run.patch + panel.group * ins_ * channel_step_ +
                          (q[0].begin - run.positions[0].begin) * plane +
                          (q[1].begin - run.positions[1].begin) * extent_[2] + q[2].begin - run.positions[2].begin;
  const Rows rows = rows_of(one, panel.outs.size());
  const T* const packed = item.packed + panel.outs.begin * packed_each_ + panel.outs.size() * one.packed_before;
  for (std::int64_t c = 0; c < ins_; c += blocking_.chunk) {
    const std::int64_t chunk = std::min(blocking_.chunk, ins_ - c);
    gather.to = run.panel;
    for (std::int64_t i = c; i < c + chunk; ++i)
      for (const std::int64_t tap : one.tap_offsets) {
        gather.from = corner + i * channel_step_ + tap;
        kernels_.gather(gather);
        gather.to += run_step_;
      }
    for (std::int64_t b = 0; b < rows.blocks; ++b) {
      const std::int64_t begin = rows.begin(b), count = rows.begin(b + 1) - begin;
      kernels_.gemm({.x = run.panel,
                     .starts = panel_starts_.data(),
                     .vectors = (positions + kernels_.lanes - 1) / kernels_.lanes,
                     .offsets = panel_offsets_.data(),
                     .depth = chunk * one.taps,
                     .w = packed + (begin * ins_ + c * count) * one.taps,
                     .rows = static_cast<int>(count),
                     .c = panel.sums + begin * run_step_,
                     .c_step = run_step_,
                     .accumulate = c > 0});
    }
  }
}

template class Convolver<float>;
template class Convolver<double>;

}  // namespace convt::core::cpu
