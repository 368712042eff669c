// SPDX-License-Identifier: Apache-2.0
// Inputs on their way to the patch, and through the prologue.
#include <algorithm>

#include "cpu/convolver.hpp"
#include "cpu/sizes.hpp"

namespace convt::core::cpu {
namespace {

// Of a patch's channels that go through the prologue together, as many as a first-level cache holds, beside constants.
constexpr std::int64_t chunk_bytes = 24 << 10;
// Channels last: those of a cache line, which is read once then, whatever its elements.
constexpr std::int64_t line_channels = 32;

// What of an axis of a window lies in the image.
Interval inside(const Box& box, const Axes& space, std::size_t axis) {
  const std::int64_t begin = std::clamp<std::int64_t>(-box.origin[axis], 0, box.size[axis]);
  return {begin, std::clamp(space[axis] - box.origin[axis], begin, box.size[axis])};
}

// One channel of one image: zeros where the window reaches outside it.
template <class T>
void clear_outside(const Window& window, const Axes& space, T* to) {
  const auto& size = window.box.size;
  const Interval d = inside(window.box, space, 0), h = inside(window.box, space, 1), w = inside(window.box, space, 2);
  const std::int64_t plane = (size[1] - 1) * window.row_step + size[2];
  for (std::int64_t z = 0; z < size[0]; ++z) {
    T* const rows = to + z * window.plane_step;
    if (z < d.begin || z >= d.end) {
      std::fill_n(rows, plane, T(0));
      continue;
    }
    for (std::int64_t y = 0; y < size[1]; ++y) {
      T* const row = rows + y * window.row_step;
      const bool there = y >= h.begin && y < h.end;
      std::fill_n(row, there ? w.begin : size[2], T(0));
      if (there) std::fill(row + w.end, row + size[2], T(0));
    }
  }
}

bool all_inside(const Box& box, const Axes& space) {
  for (std::size_t axis = 0; axis < 3; ++axis)
    if (inside(box, space, axis).size() != box.size[axis]) return false;
  return true;
}

}  // namespace

template <class T>
void Convolver<T>::read_patch(const Item& item, const Run& run, const ChainKernels<T>& chain) const {
  Window window;
  const std::int64_t first = run.outs.begin / outs_, last = (run.outs.end - 1) / outs_;  // groups
  const Interval channels{first * ins_, (last + 1) * ins_};
  for (std::size_t a = 0; a < 3; ++a) {
    window.box.origin[a] = run.inputs[a].begin;
    window.box.size[a] = run.inputs[a].size();
  }
  window.channel_step = channel_step_;
  window.plane_step = extent_[1] * extent_[2];
  window.row_step = extent_[2];
  const std::int64_t chunk = item.prologue.empty() ? channels.size() : prologue_chunk(item);
  for (std::int64_t c = channels.begin; c < channels.end; c += chunk) {
    window.first_channel = c;
    window.channels = std::min(chunk, channels.end - c);
    T* const to = run.patch + (c - channels.begin) * channel_step_;
    for (std::size_t i = 0; i < item.inputs.size(); ++i)
      chain.read(item.inputs[i], window, to + as_index(i) * image_step_);
    if (!item.prologue.empty()) run_prologue(item, window, chain, to);
  }
}

template <class T>
std::int64_t Convolver<T>::prologue_chunk(const Item& item) const {
  const std::int64_t channel = as_index(item.inputs.size()) * image_step_ * as_index(sizeof(T));
  const std::int64_t fit = std::max<std::int64_t>(chunk_bytes / channel, 1);
  if (item.inputs.front().layout == CONVT_CHANNELS_FIRST) return fit;
  return ceil_div(fit, line_channels) * line_channels;
}

// On some channels of the patch. What lies between its rows goes along, and is never looked at.
template <class T>
void Convolver<T>::run_prologue(const Item& item, const Window& window, const ChainKernels<T>& chain, T* to) const {
  const auto& size = window.box.size;
  const std::int64_t images = as_index(item.inputs.size());
  const std::int64_t pixels =
      (images - 1) * image_step_ + (size[0] - 1) * window.plane_step + (size[1] - 1) * window.row_step + size[2];
  Tile<T> tile;
  tile.data = to;
  tile.channel_step = channel_step_;
  tile.first_channel = window.first_channel;
  tile.channels = window.channels;
  tile.box.size = {1, 1, pixels};
  chain.run(item.prologue, tile, {}, nullptr);
  if (item.prologue_keeps_zero || all_inside(window.box, convolution_.input)) return;
  for (std::int64_t c = 0; c < window.channels; ++c)
    for (std::int64_t i = 0; i < images; ++i)
      clear_outside(window, convolution_.input, to + c * channel_step_ + i * image_step_);
}

template void Convolver<float>::read_patch(const Item&, const Run&, const ChainKernels<float>&) const;
template void Convolver<double>::read_patch(const Item&, const Run&, const ChainKernels<double>&) const;

}  // namespace convt::core::cpu
