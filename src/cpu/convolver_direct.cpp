// SPDX-License-Identifier: Apache-2.0
// Products that read the patch itself.
#include <algorithm>

#include "cpu/convolver.hpp"
#include "cpu/sizes.hpp"

namespace convt::core::cpu {

template <class T>
typename Convolver<T>::Vectors Convolver<T>::lay_vectors(std::int64_t rows, std::int64_t width,
                                                         std::int64_t planes) const {
  const std::int64_t lanes = kernels_.lanes, each_row = ceil_div(width, lanes);
  const std::int64_t end_to_end = ceil_div((rows - 1) * extent_[2] + width, lanes);
  Vectors v;
  v.by_row = rows * each_row <= end_to_end;
  v.each_row = each_row;
  v.each_plane = v.by_row ? rows * each_row : end_to_end;
  v.row_step = v.by_row ? each_row * lanes : extent_[2];
  v.run = direct_run(planes, v.each_plane * lanes * as_index(sizeof(T)));
  return v;
}

template <class T>
void Convolver<T>::run_direct(const Item& item, const Run& run) const {
  const std::int64_t plane = extent_[1] * extent_[2];
  const std::size_t w_classes = phases_.axis[2].classes.size();
  const std::int64_t first_group = run.outs.begin / outs_, last_group = (run.outs.end - 1) / outs_;
  std::int64_t width = 0;
  for (std::size_t w = 0; w < w_classes; ++w) {
    const Interval columns = phases_.axis[2].positions(phases_.axis[2].classes[w], item.outputs[2]);
    width = std::max(width, columns.size());
    run.columns[w] = columns.size() > 0 ? static_cast<std::int32_t>(columns.begin - run.inputs[2].begin) : -1;
  }
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
      const T* const packed = run.packed + (outs.begin - run.outs.begin) * packed_each_;
      const T* const x = run.patch + (group - first_group) * ins_ * channel_step_ +
                         (d.begin - run.inputs[0].begin) * plane + (h.begin - run.inputs[1].begin) * extent_[2];
      const Rows rows = rows_of(one, outs.size());
      for (std::int64_t b = 0; b < rows.blocks; ++b) {
        const Interval block{rows.begin(b), rows.begin(b + 1)};
        for (std::int64_t p = 0; p < d.size(); p += vectors.run) {
          const std::int64_t planes = std::min(vectors.run, d.size() - p);
          for (std::size_t w = 0; w < w_classes; ++w) {
            if (run.columns[w] < 0) continue;  // no output of these phases
            const Class& its = classes_[first + w];
            const std::int64_t depth = ins_ * its.taps;
            for (const Interval& part : its.parts)
              kernels_.gemm(
                  {.x = x + p * plane + run.columns[w],
                   .starts = run.starts,
                   .vectors = planes * vectors.each_plane,
                   .offsets = its.offsets.data() + part.begin,
                   .depth = part.size(),
                   .w = packed + outs.size() * its.packed_before + block.begin * depth + part.begin * block.size(),
                   .rows = static_cast<int>(block.size()),
                   .c = run.sums + as_index(w) * kernels_.most_rows * run_step_,
                   .c_step = run_step_,
                   .accumulate = part.begin > 0});
          }
          store(item, run,
                {.channel = outs.begin - channels(item.split).begin,
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

template Convolver<float>::Vectors Convolver<float>::lay_vectors(std::int64_t, std::int64_t, std::int64_t) const;
template Convolver<double>::Vectors Convolver<double>::lay_vectors(std::int64_t, std::int64_t, std::int64_t) const;
template void Convolver<float>::run_direct(const Item&, const Run&) const;
template void Convolver<double>::run_direct(const Item&, const Run&) const;

}  // namespace convt::core::cpu
