// SPDX-License-Identifier: Apache-2.0
// Chains that run on accumulators in registers: which are, and how.
#pragma once

#include "cuda/generic/convolver.hpp"
#include "cuda/sm90/params.hpp"

namespace convt::core::cuda::sm90 {

enum class Part { line, norm, gelu, relu, other };

// The places of a short chain that steps take, one behind the other.
class ShortOrder {
 public:
  enum Place { start, before_norm, norm, behind_norm, activation, last, nowhere };
  Place take(Part part) {
    Place to = nowhere;
    // A line goes as early as it can: a norm or an activation may follow.
    if (part == Part::line) to = at_ < before_norm ? before_norm : at_ < behind_norm ? behind_norm : last;
    if (part == Part::norm) to = norm;
    if (part == Part::gelu || part == Part::relu) to = activation;
    if (to <= at_) to = nowhere;
    at_ = to;
    return to;
  }

 private:
  Place at_ = start;
};
Part part_of(const Step& step);

// Puts what takes the scale of filters away (f16 in place of tf32) into the first line of chains, or into the eps of a
// norm that follows the convolution. undo: by output channel; null where all have common_scale.
void undo_scales(const ConvJob& job, const float* undo, ConvParams& p);

// Whether the chain is a short one, and which.
bool shorten(const Chain& chain, int channels, ShortChain& to);
// How the fold and the chains before and behind it run. `whole`: all columns are channels.
void prepare_chains(const ConvJob& job, convt_dtype dtype, std::int64_t phases, bool whole, ConvParams& p);

}  // namespace convt::core::cuda::sm90
