// SPDX-License-Identifier: Apache-2.0
// How a pass is cut: which tiles, which images and channels go together, and how the convolution runs on them. Chosen
// by predicted cycles among a few hundred candidates; nothing is tried out.
#pragma once

#include "cpu/convolver.hpp"
#include "plan/passes.hpp"

namespace convt::core::cpu {

// What the model knows of the kernels.
struct KernelShape {
  int lanes = 1, most_rows = 1;
  const int* most_vectors = nullptr;  // by rows
  std::int64_t element = 4;           // bytes
};

struct Cut {
  Axes tile{1, 1, 1};  // of the pass's output
  Blocking blocking;
  double cycles = 0;  // of one thread, for the whole pass
};

// Where sums are taken tile by tile and joined, the tiles depend on the shape alone, so that results do not depend on
// the number of threads.
Cut choose_cut(const Program& program, const Pass& pass, const KernelShape& kernels, std::size_t threads,
               bool whole_image);

}  // namespace convt::core::cpu
