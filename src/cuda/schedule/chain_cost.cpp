// SPDX-License-Identifier: Apache-2.0
#include "cuda/schedule/chain_cost.hpp"

#include <algorithm>

#include "cuda/chain/bind.hpp"
#include "plan/passes.hpp"

namespace convt::core::cuda {

// A value that counts the instructions of the math that it goes through (src/epilogue/value.hpp). Functions cost what
// fits the times of chains behind a layer in bf16, where leaky_relu took 0.02 clocks of a multiprocessor for each
// value, elu 0.08, silu 0.09 and tanh 0.13.
namespace counting {

constinit thread_local double instructions = 0;

struct Value {
  Value() = default;
  Value(double) {}  // NOLINT: constants cost nothing
};
using Mask = Value;

Value counted(double cost) {
  instructions += cost;
  return {};
}
constexpr double quotient = 4, exponential = 3, logarithm = 4, root = 4, wave = 8, bell = 14, hyperbolic = 12;

Value operator+(Value, Value) { return counted(1); }
Value operator-(Value, Value) { return counted(1); }
Value operator*(Value, Value) { return counted(1); }
Value operator/(Value, Value) { return counted(quotient); }
Mask operator>(Value, Value) { return counted(1); }
Mask operator<(Value, Value) { return counted(1); }
Mask operator>=(Value, Value) { return counted(1); }
Mask operator<=(Value, Value) { return counted(1); }
Mask operator==(Value, Value) { return counted(1); }
Mask operator!=(Value, Value) { return counted(1); }
Mask operator&&(Mask, Mask) { return {}; }
Mask operator||(Mask, Mask) { return {}; }
Mask operator!(Mask) { return {}; }
Value select(Mask, Value, Value) { return counted(1); }
Mask is_nan(Value) { return counted(1); }
Mask is_infinite(Value) { return counted(1); }
Value maximum(Value, Value) { return counted(1); }
Value minimum(Value, Value) { return counted(1); }
Value exp(Value) { return counted(exponential); }
Value expm1(Value) { return counted(exponential + 1); }
Value log(Value) { return counted(logarithm); }
Value log1p(Value) { return counted(logarithm + 1); }
Value tanh(Value) { return counted(hyperbolic); }
Value erf(Value) { return counted(bell); }
Value sin(Value) { return counted(wave); }
Value sqrt(Value) { return counted(root); }

}  // namespace counting

namespace {

using counting::Value;

// Beside the math: a line's operands, a tensor's address and load, shuffles between the threads of a pixel.
constexpr double line = 2, kept_result = 3, tensor = 18, shuffles = 3;
// A norm over space: half a millisecond for 134 million values, without what follows it.
constexpr double norm_over_space = 90;

// Instructions for a value. in_registers: it is kept there, or the step uses one that is.
double instructions_of(const Step& step, bool in_registers) {
  if (std::holds_alternative<Affine>(step.what)) return line;
  if (needs_space(step)) return norm_over_space;
  counting::instructions = 0;
  std::visit(
      []<class T>(const T& op) {
        const Value x;
        if constexpr (std::derived_from<T, Pointwise>) op.apply(x);
        if constexpr (std::derived_from<T, Combine>) op.apply(x, x);
        if constexpr (std::derived_from<T, Normalise> || std::derived_from<T, Reduce>) {
          op.join(x, x);
          if constexpr (T::two_pass) op.deviation(x, x) + x;
        }
        if constexpr (std::derived_from<T, Normalise>) op.map(x, x, x);
      },
      std::get<Op>(step.what));
  const double math = counting::instructions;
  if (in_registers) return math + kept_result;
  if (mixes_channels(step)) return math + shuffles;
  const bool combines =
      std::visit([]<class T>(const T&) { return std::derived_from<T, Combine>; }, std::get<Op>(step.what));
  return combines && !takes_channel_values(step) && !takes_number(step) ? math + tensor : math;
}

}  // namespace

// A multiprocessor runs 128 instructions per clock, of which the chain gets some 96.
double value_clocks(std::span<const Step> steps) {
  double instructions = 0;
  for (const Step& step : steps) {
    const Name* const name = used_name(step);
    const bool kept = name != nullptr && std::ranges::any_of(steps, [&](const Step& other) {
                        return kept_name(other) != nullptr && *kept_name(other) == *name;
                      });
    instructions += instructions_of(step, kept || kept_name(step) != nullptr || uses_conv(step));
  }
  return instructions / 96;
}

// From the times of one to five steps in strips, behind three layers in tf32 and bf16: a step took 0.52 to 0.62 clocks
// for each element, a norm or softmax over channels 1.6 to 2, and writing and reading the strip about 1.
double strip_clocks(std::span<const Step> steps) {
  constexpr double strip = 1, step_clocks = 0.6, mixing_clocks = 1.8;
  double clocks = strip;
  for (const Step& step : steps) clocks += mixes_channels(step) ? mixing_clocks : step_clocks;
  return clocks;
}

}  // namespace convt::core::cuda
