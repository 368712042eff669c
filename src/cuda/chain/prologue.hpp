// SPDX-License-Identifier: Apache-2.0
// The prologue as a pass of its own: from the caller's input, which may be a range of a wider tensor's channels, to a
// dense copy in the same layout and element type, on which the steps have been done.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "cuda/chain/bind.hpp"

namespace convt::core::cuda {

// Some steps of it on some images, by value.
struct PrologueParams {
  static constexpr int most_steps = 48;  // parameters are at most 4 KiB; more steps take another launch
  struct Step {
    ChainStep::Kind kind = ChainStep::affine;  // or pointwise, or combine with one value per channel
    int op = 0;
    OpBytes<40> params{};
    const void* data[2] = {};       // affine: a, b; combine: the values
    convt_dtype dtype = CONVT_F32;  // combine: the values'
  };
  const void* from = nullptr;
  void* to = nullptr;
  convt_dtype dtype = CONVT_F32;  // of both
  std::int64_t count = 0;         // elements
  // Elements of `from` follow each other in runs of so many, so far apart; those of `to` all do.
  std::int64_t run = 1, apart = 1;
  std::int64_t channel_run = 1, channels = 1;  // element i of `to` is of channel i / channel_run % channels
  int steps = 0;
  Step step[most_steps];
};

template <class T>
void launch_prologue(const PrologueParams& params, cudaStream_t stream);

// Constants of an Affine step, in the workspace.
struct LinePlaces {
  std::size_t lines = 0, a = 0, b = 0;
};

// One call's pass over some images.
struct PrologueJob {
  const Program& program;
  const Call& call;
  std::span<const LinePlaces> places;  // by step of the prologue
  std::byte* workspace = nullptr;
  Interval images;
  void* to = nullptr;
};
// T is what is computed in. The constants of the steps have been evaluated.
template <class T>
void run_prologue(const PrologueJob& job);

}  // namespace convt::core::cuda
