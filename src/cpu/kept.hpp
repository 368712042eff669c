// SPDX-License-Identifier: Apache-2.0
// Tiles of values that are kept until a later step uses them.
#pragma once

#include <algorithm>
#include <array>

#include "cpu/kernels.hpp"
#include "cpu/schedule.hpp"

namespace convt::core::cpu {

// A part of a tile, copied to `to`: without the halo that pools on the way needed.
template <class T>
Tile<T> crop(const Tile<T>& tile, const Box& box, T* to) {
  Tile<T> part = tile;
  part.box = box;
  part.channel_step = tile_step<T>(box);
  part.data = to;
  for (std::int64_t c = 0; c < tile.channels; ++c)
    for (std::int64_t d = 0; d < box.size[0]; ++d)
      for (std::int64_t h = 0; h < box.size[1]; ++h) {
        const Axes at{box.origin[0] + d - tile.box.origin[0], box.origin[1] + h - tile.box.origin[1],
                      box.origin[2] - tile.box.origin[2]};
        const T* from =
            tile.data + c * tile.channel_step + (at[0] * tile.box.size[1] + at[1]) * tile.box.size[2] + at[2];
        std::copy_n(from, box.size[2], part.data + c * part.channel_step + (d * box.size[1] + h) * box.size[2]);
      }
  return part;
}

// A tile of a value of this shape, seen from a box of a value that it is broadcast to.
template <class T>
Broadcast<T> broadcast(const Tile<T>& tile, const Shape& shape, const Box& box) {
  const Axes& size = tile.box.size;
  const std::array<std::int64_t, 3> steps{size[1] * size[2], size[2], 1};
  Broadcast<T> from{tile.data, shape.channels == 1 ? 0 : tile.channel_step, 0, 0, shape.space[2] == 1};
  for (std::size_t a = 0; a < 3; ++a)
    if (shape.space[a] != 1) from.data += (box.origin[a] - tile.box.origin[a]) * steps[a];
  if (shape.space[0] != 1) from.plane_step = steps[0];
  if (shape.space[1] != 1) from.row_step = steps[1];
  return from;
}

}  // namespace convt::core::cpu
