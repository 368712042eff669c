// SPDX-License-Identifier: Apache-2.0
// Sums of products to their places among the outputs.
#include <algorithm>

#include "cpu/convolver.hpp"
#include "cpu/sizes.hpp"

namespace convt::core::cpu {
template <class T>
void Convolver<T>::store(const Item& item, const Run& run, const Sums& sums) const {
  const AxisPhases &ad = phases_.axis[0], &ah = phases_.axis[1];
  const auto d_phases = as_index(sums.axes[0]->phases.size()), h_phases = as_index(sums.axes[1]->phases.size()),
             w_phases = as_index(sums.axes[2]->phases.size());
  const std::int64_t all_phases = d_phases * h_phases * w_phases;
  std::int64_t phase_d = -1, phase_h = -1;
  Interval d, h;
  // Rows go out together that are phases of W of one channel, one behind the other, or channels with one phase each.
  std::int64_t channel = sums.rows.begin / all_phases, phase = sums.rows.begin % all_phases;
  for (std::int64_t r = sums.rows.begin, end = 0; r < sums.rows.end; phase += end - r, r = end) {
    if (phase == all_phases) {
      phase = 0;
      ++channel;
    }
    const std::int64_t first = w_phases == 1 ? 0 : phase % w_phases;
    end = all_phases == 1 ? sums.rows.end : std::min(sums.rows.end, r + w_phases - first);
    // Divisions are slow, and mostly these do not change.
    const std::int64_t next_d = all_phases == 1
                                    ? sums.axes[0]->phases.front()
                                    : sums.axes[0]->phases[static_cast<std::size_t>(phase / (h_phases * w_phases))];
    const std::int64_t next_h = all_phases == 1
                                    ? sums.axes[1]->phases.front()
                                    : sums.axes[1]->phases[static_cast<std::size_t>(phase / w_phases % h_phases)];
    if (next_d != phase_d || next_h != phase_h) {
      phase_d = next_d;
      phase_h = next_h;
      h = ah.positions(phase_h, item.outputs[1]);
      d = ad.positions(phase_d, item.outputs[0]);
      d = {std::max(d.begin, sums.d.begin), std::min(d.end, sums.d.end)};
    }
    if (h.size() <= 0) continue;
    RowsOut<T> out;
    out.from_step = sums.row_step;
    out.rows = h.size();
    // The step of one row alone can pass 63 bits.
    out.to_step = out.rows > 1 ? ah.stride * item.to.row_step : 0;
    out.first_phase = first;
    out.phases = all_phases == 1 ? 1 : end - r;
    out.channels = all_phases == 1 ? end - r : 1;
    // Where an image is one row of positions, the images are the rows.
    const bool by_image = d.size() == 1 && h.size() == 1;
    if (by_image) {
      out.rows = sums.images;
      out.from_step = sums.image_step;
      out.to_step = item.to.image_step;
    }
    for (std::int64_t i = 0; i < (by_image ? 1 : sums.images); ++i)
      for (std::int64_t q = d.begin; q < d.end; ++q) {
        out.from = run.sums + (r - sums.rows.begin) * run_step_ + i * sums.image_step +
                   (q - sums.d.begin) * sums.plane_step + (h.begin - sums.h.begin) * sums.row_step;
        out.to = item.to.data + i * item.to.image_step + (sums.channel + channel) * item.to.channel_step +
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
    kernels_.interleave({.channels = out.channels,
                         .from_channel = run_step_,
                         .to_channel = item.to.channel_step,
                         .from = out.from,
                         .phases = aw.stride,
                         .phase_step = all_classes ? sums.class_step : run_step_,
                         .lead = outputs.begin + aw.padding - run.positions[2].begin * aw.stride,
                         .common = !all_classes,
                         .stream = item.to.stream,
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
    for (std::int64_t c = 0; c < out.channels; ++c)
      for (std::int64_t y = 0; y < out.rows; ++y) {
        const T* from = out.from + c * run_step_ + as_index(w) * sums.class_step + y * out.from_step;
        T* to = out.to + c * item.to.channel_step + y * out.to_step;
        for (std::int64_t q = columns.begin; q < columns.end; ++q, ++from)
          for (std::int64_t p = 0; p < out.phases; ++p) {
            const std::int64_t x = aw.output(phases[p], q) - outputs.begin;
            if (x >= 0 && x < outputs.size()) to[x] = from[p * run_step_];
          }
      }
  }
}

template void Convolver<float>::store(const Item&, const Run&, const Sums&) const;
template void Convolver<double>::store(const Item&, const Run&, const Sums&) const;

}  // namespace convt::core::cpu
