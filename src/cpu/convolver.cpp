// SPDX-License-Identifier: Apache-2.0
#include "cpu/convolver.hpp"

#include <algorithm>

#include "cpu/parts.hpp"
#include "cpu/sizes.hpp"

namespace convt::core::cpu {
namespace {

// Elements that offsets of 32 bits reach, forwards and backwards.
constexpr std::int64_t most_elements = 1 << 30;

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
      extent_[a] = std::max(extent_[a], phases_.axis[a].inputs(one).size());
      positions[a] = std::max(positions[a], all.size());
    }
  image_step_ = volume(extent_);
  channel_step_ = odd_lines<T>(capped_product({image_step_, blocking_.images}));
  const std::int64_t in_channels = std::max<std::int64_t>(blocking_.channels / outs_, 1) * ins_;
  // Vectors reach beyond the last row, and classes of W with fewer positions than others beyond theirs.
  patch_size_ = capped_sum({capped_product({channel_step_, in_channels}), 2 * kernels_.lanes});
  fits_ = patch_size_ <= most_elements && farthest_tap() <= most_elements;
  if (!fits_) return;

  std::int64_t most_phases = 1;
  for (std::int64_t i = 0; i < phases_.count(); ++i) {
    Class one;
    one.axes = phases_.at(i);
    one.phases = phase_count(one.axes);
    one.taps = tap_count(one.axes);
    one.packed_before = packed_each_;
    one.parts = sum_parts(ins_, one.taps);
    packed_each_ += one.phases * one.taps * ins_;
    most_phases = std::max(most_phases, one.phases);
    for (const std::int64_t d : one.axes[0]->shifts)
      for (const std::int64_t h : one.axes[1]->shifts)
        for (const std::int64_t w : one.axes[2]->shifts)
          one.tap_offsets.push_back(-((d * extent_[1] + h) * extent_[2] + w));
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
    lay_out_panel(positions, most_phases);
  } else {
    const Vectors vectors = lay_vectors(positions[1], positions[2], positions[0]);
    run_step_ = odd_lines<T>(std::max(vectors.each_plane * kernels_.lanes, most_sums / as_index(sizeof(T))));
    fits_ = run_step_ <= most_elements;
    const std::int64_t classes = as_index(phases_.axis[2].classes.size());
    sums_size_ = run_step_ * kernels_.most_rows * classes + kernels_.lanes;
    starts_size_ = run_step_ + classes;
  }
}

// The farthest place, back from a position, that a tap reads.
template <class T>
std::int64_t Convolver<T>::farthest_tap() const {
  std::int64_t farthest = 0;
  for (std::size_t a = 0; a < 3; ++a) {
    std::int64_t shift = 0;
    for (const AxisClass& one : phases_.axis[a].classes) shift = std::max(shift, one.shifts.back());
    farthest = capped_sum({capped_product({farthest, extent_[a]}), shift});
  }
  return farthest;
}

template <class T>
void Convolver<T>::lay_out_panel(const Axes& positions, std::int64_t most_phases) {
  run_step_ = odd_lines<T>(capped_product({volume(positions), blocking_.images}));
  std::int64_t depth = 0;
  for (const Class& one : classes_)
    for (std::size_t first = 0, end = 0; first < one.parts.size(); first = end) {
      end = gathered_end(one, first);
      depth = std::max(depth, one.parts[end - 1].end - one.parts[first].begin);
    }
  const std::int64_t outs = std::min(blocking_.bundle, outs_), classes = as_index(panel_classes());
  panel_class_step_ = capped_product({run_step_, outs, most_phases});
  sums_size_ = capped_sum({capped_product({panel_class_step_, classes}), kernels_.lanes});
  panel_size_ = capped_sum({capped_product({run_step_, depth}), kernels_.lanes});
  fits_ = panel_size_ <= most_elements && sums_size_ < most_size;
  if (!fits_) return;
  for (std::int64_t k = 0; k < depth; ++k) panel_offsets_.push_back(static_cast<std::int32_t>(k * run_step_));
  panel_offsets_.resize(panel_offsets_.size() + gemm_ahead);
  for (std::int64_t i = 0; i < run_step_; i += kernels_.lanes) panel_starts_.push_back(static_cast<std::int32_t>(i));
}

template <class T>
std::int64_t Convolver<T>::packed_size() const {
  return packed_each_ * convolution_.out_channels;
}

template <class T>
std::int64_t Convolver<T>::scratch_size() const {
  const std::int64_t bundle = blocking_.late ? odd_lines<T>(capped_product({blocking_.bundle, packed_each_})) : 0;
  return capped_sum({odd_lines<T>(patch_size_), odd_lines<T>(sums_size_), odd_lines<T>(panel_size_),
                     odd_lines<T>(starts_size_), odd_lines<T>(4 * kernels_.lanes), bundle});
}

template <class T>
std::int64_t Convolver<T>::splits() const {
  return ceil_div(convolution_.out_channels, blocking_.channels);
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
  rows.blocks = ceil_div(rows.rows / rows.granule, granules);
  return rows;
}

template <class T>
void Convolver<T>::run(const Item& item, const ChainKernels<T>& chain) const {
  Run run;
  for (std::size_t a = 0; a < 3; ++a) {
    run.positions[a] = phases_.axis[a].positions(item.outputs[a]);
    run.inputs[a] = phases_.axis[a].inputs(item.outputs[a]);
  }
  run.patch = item.scratch;
  run.sums = run.patch + odd_lines<T>(patch_size_);
  run.panel = run.sums + odd_lines<T>(sums_size_);
  run.row = run.panel + odd_lines<T>(panel_size_);
  run.starts = reinterpret_cast<std::int32_t*>(run.row + odd_lines<T>(4 * kernels_.lanes));
  run.columns = run.starts + run_step_;
  run.bundle = run.row + odd_lines<T>(4 * kernels_.lanes) + odd_lines<T>(starts_size_);
  const Interval outs = channels(item.split);
  run.outs = outs;
  read_patch(item, run, chain);
  if (!phases_.axis[0].complete || !phases_.axis[1].complete || !phases_.axis[2].complete) clear(item);
  for (std::int64_t first = outs.begin; first < outs.end; first += blocking_.bundle) {
    run.outs = {first, std::min(first + blocking_.bundle, outs.end)};
    bool finite = item.finite;
    if (item.packed == nullptr) finite = pack_bundle({item.kernel, *item.space, {0, ins_}, run.outs, run.bundle});
    run.packed = item.packed == nullptr ? run.bundle : item.packed + first * packed_each_;
    if (blocking_.panel)
      run_panel(item, run);
    else
      run_direct(item, run);
    if (!finite) add_nonfinite(item, run);
  }
  if (item.to.stream) kernels_.flush();
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

template class Convolver<float>;
template class Convolver<double>;

}  // namespace convt::core::cpu
