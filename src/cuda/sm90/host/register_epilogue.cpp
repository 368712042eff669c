// SPDX-License-Identifier: Apache-2.0
#include "cuda/sm90/host/register_epilogue.hpp"

#include <cmath>
#include <cstring>
#include <utility>

#include "cuda/sm90/host/prepare_gelu.hpp"
#include "plan/algebra.hpp"

namespace convt::core::cuda::sm90 {
namespace {

// The index of an op in ops.def.
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
// The op of a bound step.
template <class T>
T op_of(const ChainStep& step) {
  T op;
  std::memcpy(&op, step.params.bytes, sizeof op);
  return op;
}
Part part_of(const ChainStep& step) {
  const bool channels = step.kind == ChainStep::map_channels, point = step.kind == ChainStep::pointwise;
  if (step.kind == ChainStep::affine) return Part::scale_bias;
  if (channels && step.op == number_of<ops::LayerNorm>()) return part_of(op_of<ops::LayerNorm>(step));
  if (point && step.op == number_of<ops::Gelu>()) return part_of(op_of<ops::Gelu>(step));
  return point && step.op == number_of<ops::Relu>() ? Part::relu : Part::other;
}

// A line that is known to be a factor needs no arrays a and b.
RegisterEpilogue::ScaleBias scale_bias_of(const ChainStep& step) {
  const Line planned = op_of<Line>(step);
  const auto factor = static_cast<float>(planned.a);
  if (planned.b == 0 && std::isfinite(factor)) return {true, nullptr, nullptr, factor};
  return {true, static_cast<const float*>(step.data[0]), static_cast<const float*>(step.data[1])};
}

bool ends_with_norm(const RegisterEpilogue& chain) {
  return chain.norm != 0 && !chain.scale_bias[RegisterEpilogue::after_norm].present &&
         chain.activation == RegisterEpilogue::none && !chain.scale_bias[RegisterEpilogue::last].present;
}

}  // namespace

Part part_of(const Step& step) {
  const Op* const op = std::get_if<Op>(&step.what);
  return op == nullptr ? Part::scale_bias : part_of(*op);
}

bool are_short(std::span<const Step> steps) {
  EpilogueOrder order;
  for (const Step& step : steps)
    if (order.take(part_of(step)) == EpilogueOrder::nowhere) return false;
  return true;
}

bool match_epilogue(const Chain& chain, int channels, RegisterEpilogue& to) {
  EpilogueOrder order;
  for (int i = 0; i < chain.count; ++i) {
    const ChainStep& step = chain.steps[i];
    const Part part = part_of(step);
    const EpilogueOrder::Position position = order.take(part);
    if (position == EpilogueOrder::nowhere) return false;
    if (part == Part::scale_bias) {
      const auto where = position == EpilogueOrder::before_norm  ? RegisterEpilogue::before_norm
                         : position == EpilogueOrder::after_norm ? RegisterEpilogue::after_norm
                                                                 : RegisterEpilogue::last;
      to.scale_bias[where] = scale_bias_of(step);
    }
    if (position == EpilogueOrder::norm) {
      to.norm = 1;
      to.each = 1.0f / static_cast<float>(channels);
      to.eps = static_cast<float>(op_of<ops::LayerNorm>(step).eps);
    }
    if (position == EpilogueOrder::activation)
      to.activation = part == Part::gelu ? RegisterEpilogue::gelu : RegisterEpilogue::relu;
  }
  return true;
}

void undo_scales(const ConvJob& job, const float* undo, ConvParams& p) {
  // Powers of two commute with folds, so without a chain before the fold they are undone after it.
  p.undo_after_fold = job.pool != nullptr && job.chain.count == 0;
  RegisterEpilogue& chain = p.undo_after_fold ? p.after_fold : p.epilogue;
  RegisterEpilogue::ScaleBias& line = chain.scale_bias[RegisterEpilogue::before_norm];
  p.undo = undo;
  if (undo == nullptr && chain.norm != 0 && !line.present && !p.undo_after_fold) {
    chain.eps *= common_scale * common_scale;
    return;
  }
  line.present = true;
  if (undo == nullptr) line.a_times /= common_scale;
}

void prepare_epilogues(const ConvJob& job, convt_dtype dtype, std::int64_t phases, bool whole, bool precise,
                       ConvParams& p) {
  const bool ends = job.to.dtype == dtype;
  bool of_norms = false;
  RegisterEpilogue::ScaleBias& first_after = p.after_fold.scale_bias[RegisterEpilogue::before_norm];
  p.scale_bias_by_channel = p.undo != nullptr;
  if (job.pool != nullptr) {
    const bool max = std::holds_alternative<ops::MaxPool>(std::get<Op>(job.pool->what));
    p.fold.mode = max && job.chain.count == 0  ? Fold::max_of_sums
                  : max                        ? Fold::max
                  : ends_with_norm(p.epilogue) ? Fold::sum_of_norm
                                               : Fold::sum;
    if (!max) {
      of_norms = p.fold.mode == Fold::sum_of_norm && !first_after.present;
      first_after.present = true;
      first_after.a_times /= static_cast<float>(phases);
    }
  }
  prepare_gelu(p.epilogue, dtype, false, job.pool == nullptr && ends, precise);
  prepare_gelu(p.after_fold, dtype, of_norms, ends, precise);
  // The norm's own multiplication includes a factor after the fold.
  const float factor = std::abs(first_after.a_times);
  if (p.fold.mode == Fold::sum_of_norm && first_after.a == nullptr && factor >= 0x1p-16f && factor <= 0x1p16f)
    p.epilogue.gain *= std::exchange(first_after, {}).a_times;
  // Finds the shortcuts, now that some parts include others.
  for (RegisterEpilogue* const chain : {&p.epilogue, &p.after_fold}) {
    const bool before = chain->scale_bias[RegisterEpilogue::before_norm].present;
    const bool after =
        chain->scale_bias[RegisterEpilogue::after_norm].present || chain->scale_bias[RegisterEpilogue::last].present;
    const bool gelu =
        chain->activation == RegisterEpilogue::gelu || chain->activation == RegisterEpilogue::gelu_of_norm;
    chain->empty = chain->norm == 0 && chain->activation == RegisterEpilogue::none && !after && ends;
    chain->only_gelu = chain->norm == 0 && gelu && !after;
    chain->only_relu = chain->norm == 0 && chain->activation == RegisterEpilogue::relu && !after;
    chain->without_affine = chain->norm != 0 && !before && whole;
    for (const RegisterEpilogue::ScaleBias& line : chain->scale_bias) p.scale_bias_by_channel |= line.a != nullptr;
  }
  if (p.fold.mode == Fold::sum_of_norm && p.epilogue.without_affine) p.fold.mode = Fold::sum_of_norm_without_affine;
}

}  // namespace convt::core::cuda::sm90
