// SPDX-License-Identifier: Apache-2.0
// Which stores the layout of the output allows: with 32-bit steps, of pairs, of quads, of vectors.
#pragma once

#include <array>

#include "cuda/sm90/host/tiles.hpp"

namespace convt::core::cuda::sm90 {

bool are_equal(const Strides& a, const Strides& b);
// Whether direct stores can count their steps in 32 bits. phases: of the output, along each axis.
bool has_near_results(const Strides& to, const Axes& phases);
// Whether writers can count from a tile's first output to its last in 32 bits.
bool has_near_ends(const Strides& to, const std::array<int, 3>& size);
// Whether rows of `width` elements consist of aligned groups of 2 or 4.
bool are_groups(int size, const View& to, int width);
bool are_pairs(const View& to, int width);
// Whether two neighbouring phases are stored as one: rows, phases and the tensor are aligned to pairs, and channels
// come in whole groups of 8.
bool is_paired(const View& to, const ConvAxis& axis, int channels);
// Whether folded results of 2 bytes are stored 16 bytes at a time: 8 positions are neighbours, all or none of them are
// outputs, and they are aligned to 16 bytes; bands are whole.
bool has_vectors(const View& to, const ConvAxis& axis, const Geometry& geometry);

}  // namespace convt::core::cuda::sm90
