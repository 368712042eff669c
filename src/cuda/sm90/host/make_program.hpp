// SPDX-License-Identifier: Apache-2.0
// Which chains are register programs, and how they are made.
#pragma once

#include <span>

#include "cuda/schedule/convolver.hpp"
#include "cuda/sm90/config/program.hpp"
#include "plan/passes.hpp"

namespace convt::core::cuda::sm90 {

// Whether these steps after the convolution make a register program. together: a warpgroup has all channels.
bool has_program(std::span<const Step> steps, bool together);

// Whether a step takes a whole tensor.
bool takes_tensor(const Step& step);

// Makes the program of a chain whose results go to `results`; returns whether it has one. channels: of the convolution.
bool make_program(const Chain& chain, const View& results, int channels, bool together, RegisterProgram& to);

// Whether some step mixes channels.
bool has_mixing_steps(const RegisterProgram& program);

// tf32-as-f16: inserts the step that undoes the filters' scales. by_channel: ConvParams::undo has them; else all
// filters have common_scale.
void undo_scales(bool by_channel, RegisterProgram& program);

// The steps after a convolution, up to a pool, or to a kept value that does not stay in registers. together: as above.
std::span<const Step> chain_of(const Program& program, const Pass& pass, bool together);

// Where a chain runs: as a register epilogue, as a register program, or in a strip.
enum class ChainPlace { epilogue, program, strip };
// The place that the steps allow, if their results can be stored from it. together: as above.
ChainPlace place_of(std::span<const Step> steps, bool together);
// The cost of a chain, in clocks of a multiprocessor for each value. That of a register epilogue is a part of its
// stores'.
double chain_clocks_of(std::span<const Step> steps, ChainPlace place);

}  // namespace convt::core::cuda::sm90
