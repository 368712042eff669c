// SPDX-License-Identifier: Apache-2.0
// Products that read inputs gathered to dense runs.
#include <algorithm>
#include <utility>

#include "cpu/convolver.hpp"
#include "cpu/sizes.hpp"

namespace convt::core::cpu {

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
        q[2] = aw.positions(one.axes[2][w], item.outputs[2]);
        if (q[2].size() <= 0) continue;  // no output of these phases
        q[2].end = q[2].begin + width;
        PanelRun panel{.group = group - first_group, .outs = outs, .positions = q};
        panel.sums = run.sums + as_index(w) * panel_class_step_;
        run_panel_class(item, run, classes_[first + w], panel);
      }
      store(item, run,
            {.channel = outs.begin - channels(item.split).begin,
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

  const T* const corner = run.patch + panel.group * ins_ * channel_step_ + (q[0].begin - run.inputs[0].begin) * plane +
                          (q[1].begin - run.inputs[1].begin) * extent_[2] + q[2].begin - run.inputs[2].begin;
  const Rows rows = rows_of(one, panel.outs.size());
  const T* const packed =
      run.packed + (panel.outs.begin - run.outs.begin) * packed_each_ + panel.outs.size() * one.packed_before;
  // One tap and no halo: the patch has the runs already.
  const bool dense = one.taps == 1 && gather.rows * gather.planes == 1 && channel_step_ == run_step_ &&
                     (gather.images == 1 || gather.width == gather.image_step);
  const std::int64_t taps = std::max<std::int64_t>(one.taps, 1);
  for (std::size_t begin = 0, end = 0; begin < one.parts.size(); begin = end) {
    end = gathered_end(one, begin);
    const Interval all{one.parts[begin].begin, one.parts[end - 1].end};
    const T* const first = corner + all.begin / taps * channel_step_;
    gather.to = run.panel;
    for (std::int64_t i = 0; i < (dense ? 0 : all.size() / taps); ++i)
      for (const std::int64_t tap : one.tap_offsets) {
        gather.from = first + i * channel_step_ + tap;
        kernels_.gather(gather);
        gather.to += run_step_;
      }
    for (std::int64_t b = 0; b < rows.blocks; ++b) {
      const std::int64_t row = rows.begin(b), count = rows.begin(b + 1) - row;
      for (std::size_t i = begin; i < end; ++i)
        kernels_.gemm({.x = dense ? first + one.tap_offsets.front() : run.panel,
                       .starts = panel_starts_.data(),
                       .vectors = ceil_div(positions, kernels_.lanes),
                       .offsets = panel_offsets_.data() + (one.parts[i].begin - all.begin),
                       .depth = one.parts[i].size(),
                       .w = packed + row * ins_ * one.taps + one.parts[i].begin * count,
                       .rows = static_cast<int>(count),
                       .c = panel.sums + row * run_step_,
                       .c_step = run_step_,
                       .accumulate = one.parts[i].begin > 0});
    }
  }
}

template <class T>
std::size_t Convolver<T>::gathered_end(const Class& one, std::size_t first) const {
  const std::int64_t taps = std::max<std::int64_t>(one.taps, 1), most = one.parts[first].begin + blocking_.chunk * taps;
  std::size_t end = first + 1;
  const auto within_a_channel = [&] { return one.parts[end - 1].end % taps != 0; };
  while (end < one.parts.size() && (within_a_channel() || one.parts[end].end <= most)) ++end;
  return end;
}

template void Convolver<float>::run_panel(const Item&, const Run&) const;
template void Convolver<double>::run_panel(const Item&, const Run&) const;
template std::size_t Convolver<float>::gathered_end(const Class&, std::size_t) const;
template std::size_t Convolver<double>::gathered_end(const Class&, std::size_t) const;
template std::size_t Convolver<float>::panel_classes() const;
template std::size_t Convolver<double>::panel_classes() const;

}  // namespace convt::core::cpu
