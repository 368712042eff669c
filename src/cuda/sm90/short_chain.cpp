// SPDX-License-Identifier: Apache-2.0
#include "cuda/sm90/short_chain.hpp"

#include <cmath>
#include <cstring>
#include <utility>

#include "cuda/sm90/gelu_fit.hpp"
#include "plan/algebra.hpp"

namespace convt::core::cuda::sm90 {
namespace {

// The place of an op in ops.def, by its type.
template <class Wanted>
constexpr int number_of() {
  int number = -1, next = 0;
#define CONVT_OP(name, Type)                            \
  if (std::is_same_v<Wanted, ops::Type>) number = next; \
  ++next;
#include "epilogue/ops.def"
#undef CONVT_OP
  return number;
}

Part part_of(const Op& op) {
  if (const auto* layer_norm = std::get_if<ops::LayerNorm>(&op)) return layer_norm->channels ? Part::norm : Part::other;
  if (const auto* gelu = std::get_if<ops::Gelu>(&op)) return gelu->by_tanh ? Part::other : Part::gelu;
  return std::holds_alternative<ops::Relu>(op) ? Part::relu : Part::other;
}
// As bind_step() made it of such a step.
template <class T>
T op_of(const ChainStep& step) {
  T op;
  std::memcpy(&op, step.params.bytes, sizeof op);
  return op;
}
Part part_of(const ChainStep& step) {
  const bool channels = step.kind == ChainStep::map_channels, point = step.kind == ChainStep::pointwise;
  if (step.kind == ChainStep::affine) return Part::line;
  if (channels && step.op == number_of<ops::LayerNorm>()) return part_of(op_of<ops::LayerNorm>(step));
  if (point && step.op == number_of<ops::Gelu>()) return part_of(op_of<ops::Gelu>(step));
  return point && step.op == number_of<ops::Relu>() ? Part::relu : Part::other;
}

// Without a and b where it is a factor that planning knows.
ShortChain::Line line_of(const ChainStep& step) {
  const Line planned = op_of<Line>(step);
  const auto factor = static_cast<float>(planned.a);
  if (planned.b == 0 && std::isfinite(factor)) return {true, nullptr, nullptr, factor};
  return {true, static_cast<const float*>(step.data[0]), static_cast<const float*>(step.data[1])};
}

bool ends_with_norm(const ShortChain& chain) {
  return chain.norm != 0 && !chain.lines[ShortChain::behind_norm].there && chain.activation == ShortChain::none &&
         !chain.lines[ShortChain::last].there;
}

}  // namespace

Part part_of(const Step& step) {
  const Op* const op = std::get_if<Op>(&step.what);
  return op == nullptr ? Part::line : part_of(*op);
}

bool shorten(const Chain& chain, int channels, ShortChain& to) {
  ShortOrder order;
  for (int i = 0; i < chain.count; ++i) {
    const ChainStep& step = chain.steps[i];
    const Part part = part_of(step);
    const ShortOrder::Place place = order.take(part);
    if (place == ShortOrder::nowhere) return false;
    if (part == Part::line) {
      const auto line = place == ShortOrder::before_norm   ? ShortChain::before_norm
                        : place == ShortOrder::behind_norm ? ShortChain::behind_norm
                                                           : ShortChain::last;
      to.lines[line] = line_of(step);
    }
    if (place == ShortOrder::norm) {
      to.norm = 1;
      to.each = 1.0f / static_cast<float>(channels);
      to.eps = static_cast<float>(op_of<ops::LayerNorm>(step).eps);
    }
    if (place == ShortOrder::activation) to.activation = part == Part::gelu ? ShortChain::gelu : ShortChain::relu;
  }
  return true;
}

void undo_scales(const ConvJob& job, const float* undo, ConvParams& p) {
  // Powers of two commute with folds.
  p.undo_behind = job.pool != nullptr && job.chain.count == 0;
  ShortChain& chain = p.undo_behind ? p.behind : p.quick;
  ShortChain::Line& line = chain.lines[ShortChain::before_norm];
  p.undo = undo;
  if (undo == nullptr && chain.norm != 0 && !line.there && !p.undo_behind) {
    chain.eps *= common_scale * common_scale;
    return;
  }
  line.there = true;
  if (undo == nullptr) line.a_times /= common_scale;
}

void prepare_chains(const ConvJob& job, convt_dtype dtype, std::int64_t phases, bool whole, ConvParams& p) {
  const bool ends = job.to.dtype == dtype;
  bool of_norms = false;
  ShortChain::Line& first_behind = p.behind.lines[ShortChain::before_norm];
  p.lines_by_channel = p.undo != nullptr;
  if (job.pool != nullptr) {
    const bool max = std::holds_alternative<ops::MaxPool>(std::get<Op>(job.pool->what));
    p.fold.kind = max && job.chain.count == 0 ? Fold::max_of_sums
                  : max                       ? Fold::max
                  : ends_with_norm(p.quick)   ? Fold::sum_of_norm
                                              : Fold::sum;
    if (!max) {
      of_norms = p.fold.kind == Fold::sum_of_norm && !first_behind.there;
      first_behind.there = true;
      first_behind.a_times /= static_cast<float>(phases);
    }
  }
  prepare_gelu(p.quick, dtype, false, job.pool == nullptr && ends);
  prepare_gelu(p.behind, dtype, of_norms, ends);
  // The norm multiplies anyway.
  const float factor = std::abs(first_behind.a_times);
  if (p.fold.kind == Fold::sum_of_norm && first_behind.a == nullptr && factor >= 0x1p-16f && factor <= 0x1p16f)
    p.quick.gain *= std::exchange(first_behind, {}).a_times;
  // What chains are now, when other parts may have taken lines over.
  for (ShortChain* const chain : {&p.quick, &p.behind}) {
    const bool before = chain->lines[ShortChain::before_norm].there;
    const bool behind = chain->lines[ShortChain::behind_norm].there || chain->lines[ShortChain::last].there;
    const bool gelu = chain->activation == ShortChain::gelu || chain->activation == ShortChain::gelu_of_norm;
    chain->missing = chain->norm == 0 && chain->activation == ShortChain::none && !behind && ends;
    chain->only_gelu = chain->norm == 0 && gelu && !behind;
    chain->only_relu = chain->norm == 0 && chain->activation == ShortChain::relu && !behind;
    chain->bare = chain->norm != 0 && !before && whole;
    for (const ShortChain::Line& line : chain->lines) p.lines_by_channel |= line.a != nullptr;
  }
  if (p.fold.kind == Fold::sum_of_norm && p.quick.bare) p.fold.kind = Fold::sum_of_bare_norm;
}

}  // namespace convt::core::cuda::sm90
