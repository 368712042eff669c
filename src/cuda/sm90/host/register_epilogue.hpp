// SPDX-License-Identifier: Apache-2.0
// Which chains are register epilogues, and how they are made.
#pragma once

#include <span>

#include "cuda/schedule/convolver.hpp"
#include "cuda/sm90/config/params.hpp"

namespace convt::core::cuda::sm90 {

enum class Part { scale_bias, norm, gelu, relu, other };

// The order of a register epilogue's parts. take() says which part a step becomes.
class EpilogueOrder {
 public:
  enum Position { start, before_norm, norm, after_norm, activation, last, nowhere };
  Position take(Part part) {
    Position to = nowhere;
    // A scale and bias goes as early as possible: a norm or an activation may follow.
    if (part == Part::scale_bias) to = at_ < before_norm ? before_norm : at_ < after_norm ? after_norm : last;
    if (part == Part::norm) to = norm;
    if (part == Part::gelu || part == Part::relu) to = activation;
    if (to <= at_) to = nowhere;
    at_ = to;
    return to;
  }

 private:
  Position at_ = start;
};
Part part_of(const Step& step);

// tf32-as-f16: undoes the filters' scales in the first scale and bias, or in the eps of a norm that follows the
// convolution. undo: by output channel; null if all filters have common_scale.
void undo_scales(const ConvJob& job, const float* undo, ConvParams& p);

// Whether steps of a plan make a register epilogue.
bool are_short(std::span<const Step> steps);
// Whether the chain is a register epilogue, and which.
bool match_epilogue(const Chain& chain, int channels, RegisterEpilogue& to);
// Prepares the fold and the epilogues before and after it. whole: all columns are channels.
void prepare_epilogues(const ConvJob& job, convt_dtype dtype, std::int64_t phases, bool whole, bool precise,
                       ConvParams& p);

}  // namespace convt::core::cuda::sm90
