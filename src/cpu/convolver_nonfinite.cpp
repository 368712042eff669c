// SPDX-License-Identifier: Apache-2.0
// Weights that are Inf or NaN. The products leave them out, since a patch has zeros around the image and 0*Inf is NaN;
// here they are added, each to the outputs that its tap touches and to no others. Slow, and never needed by a kernel of
// numbers.
#include <algorithm>
#include <cmath>

#include "cpu/convert.hpp"
#include "cpu/convolver.hpp"
#include "cpu/sizes.hpp"

namespace convt::core::cpu {

template <class T>
void Convolver<T>::add_nonfinite(const Item& item, const Run& run) const {
  const std::int64_t taps = volume(convolution_.kernel), plane = convolution_.kernel[1] * convolution_.kernel[2];
  const Interval outs = channels(item.split);
  visit_dtype(item.kernel.dtype, [&]<class E>(E*) {
    for (std::int64_t out = run.outs.begin; out < run.outs.end; ++out)
      for (std::int64_t i = 0; i < ins_; ++i) {
        const std::int64_t in = out / outs_ * ins_ + i;
        const E* const from = static_cast<const E*>(item.kernel.data) + (in * outs_ + out % outs_) * taps;
        for (std::int64_t k = 0; k < taps; ++k)
          if (const T weight = to_real<T>(from[k]); !std::isfinite(weight))
            add_product(item, run,
                        {k / plane, k / convolution_.kernel[2] % convolution_.kernel[1], k % convolution_.kernel[2]},
                        weight, {in - outs.begin / outs_ * ins_, out - outs.begin, 0});
      }
  });
}

// Input channel channels[0] of the patch times one weight, to output channel channels[1] of the item.
template <class T>
void Convolver<T>::add_product(const Item& item, const Run& run, const Axes& tap, T weight,
                               const Axes& channels) const {
  std::array<Interval, 3> inputs;  // that the tap sends to outputs of the item
  Axes offset{};                   // of their outputs in the item: input*stride + offset
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t stride = convolution_.stride[a];
    offset[a] = tap[a] * convolution_.dilation[a] - convolution_.padding[a] - item.outputs[a].begin;
    inputs[a] = {std::max<std::int64_t>(ceil_div(-offset[a], stride), 0),
                 std::min(floor_div(item.outputs[a].size() - 1 - offset[a], stride) + 1, convolution_.input[a])};
  }
  for (std::int64_t image = 0; image < as_index(item.inputs.size()); ++image) {
    const T* const x = run.patch + image * image_step_ + channels[0] * channel_step_;
    T* const y = item.to.data + image * item.to.image_step + channels[1] * item.to.channel_step;
    for (std::int64_t d = inputs[0].begin; d < inputs[0].end; ++d)
      for (std::int64_t h = inputs[1].begin; h < inputs[1].end; ++h) {
        const T* const from = x + ((d - run.inputs[0].begin) * extent_[1] + h - run.inputs[1].begin) * extent_[2];
        T* const to = y + (d * convolution_.stride[0] + offset[0]) * item.to.plane_step +
                      (h * convolution_.stride[1] + offset[1]) * item.to.row_step;
        for (std::int64_t w = inputs[2].begin; w < inputs[2].end; ++w)
          to[w * convolution_.stride[2] + offset[2]] += weight * from[w - run.inputs[2].begin];
      }
  }
}

template void Convolver<float>::add_nonfinite(const Item&, const Run&) const;
template void Convolver<double>::add_nonfinite(const Item&, const Run&) const;

}  // namespace convt::core::cpu
