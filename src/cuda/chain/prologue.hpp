// SPDX-License-Identifier: Apache-2.0
// The prologue as a pass of its own. It reads the caller's input, which may be a range of a wider tensor's channels,
// runs the steps, and writes a dense copy of the same layout and element type.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "cuda/chain/bind.hpp"

namespace convt::core::cuda {

// The parameters of a launch, which runs some steps on some images.
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
  convt_dtype dtype = CONVT_F32;  // of `from` and `to`
  std::int64_t count = 0;         // elements
  // `from` consists of runs: their length, and the distance between their beginnings, in elements. `to` is contiguous.
  std::int64_t run = 1, apart = 1;
  std::int64_t channel_run = 1, channels = 1;  // element i of `to` has channel i / channel_run % channels
  int steps = 0;
  Step step[most_steps];
};

template <class T>
void launch_prologue(const PrologueParams& params, cudaStream_t stream);

// The offsets of an Affine step's constants in the workspace.
struct LinePlaces {
  std::size_t lines = 0, a = 0, b = 0;
};

// The prologue of one call on some images.
struct PrologueJob {
  const Program& program;
  const Call& call;
  std::span<const LinePlaces> places;  // by step of the prologue
  std::byte* workspace = nullptr;
  Interval images;
  void* to = nullptr;
};
// T: the type that is computed in. The constants of the steps must have been evaluated.
template <class T>
void run_prologue(const PrologueJob& job);

}  // namespace convt::core::cuda
