// SPDX-License-Identifier: Apache-2.0
#include "cuda/sm90/host/make_program.hpp"

#include <algorithm>
#include <array>
#include <bitset>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/dtype.hpp"
#include "cuda/schedule/chain_cost.hpp"
#include "cuda/sm90/config/params.hpp"
#include "cuda/sm90/host/outputs.hpp"
#include "cuda/sm90/host/register_epilogue.hpp"
#include "plan/algebra.hpp"
#include "plan/passes.hpp"

namespace convt::core::cuda::sm90 {
namespace {

// Calls f(op) for the op of a bound step.
template <class F>
void with_op(const ChainStep& step, F&& f) {
  int number = 0;
#define CONVT_OP(name, Type)                        \
  if (number++ == step.op) {                        \
    ops::Type op;                                   \
    std::memcpy(&op, step.params.bytes, sizeof op); \
    f(op);                                          \
  }
#include "epilogue/ops.def"
#undef CONVT_OP
}

// Passes an op's numbers as floats, so that threads need not convert them.
template <class T>
void put_numbers(const T& op, RegisterProgram::Step& to) {
  if constexpr (std::derived_from<T, ops::Norm>) {
    to.numbers[0] = static_cast<float>(op.eps);
  } else if constexpr (std::derived_from<T, Pointwise> || std::derived_from<T, Normalise> ||
                       std::derived_from<T, Reduce>) {
    static_assert(std::tuple_size_v<decltype(T::fields())> <= RegisterProgram::most_numbers);
    [[maybe_unused]] std::size_t index = 0;
    std::apply(
        [&](const auto&... field) {
          [[maybe_unused]] const auto put = [&](const auto& value) {
            if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, double>)
              to.numbers[index] = static_cast<float>(value);
            ++index;
          };
          (put(op.*field.member), ...);
        },
        T::fields());
  }
}

// Traits of ops, by their index in ops.def.
struct OpTraits {
  bool unrolled = false, reduces = false, linear = false;
};
constexpr auto op_traits = [] {
  std::array<OpTraits, RegisterProgram::ops_each> all{};
  std::size_t number = 0;
#define CONVT_OP(name, Type) \
  all[number++] = {Unrolled<ops::Type>, std::derived_from<ops::Type, Reduce>, LinearCombine<ops::Type>};
#include "epilogue/ops.def"
#undef CONVT_OP
  all[RegisterProgram::norm] = {.unrolled = Unrolled<ops::Norm>};
  return all;
}();
OpTraits traits_of(int code) { return op_traits[static_cast<std::size_t>(code % RegisterProgram::ops_each)]; }
bool has_use(int code, int use) { return code >= use && code < use + RegisterProgram::ops_each; }

// Whether a step computes a statistic of all channels, which a narrow step cannot: it has only some of them.
bool needs_all(int code) { return has_use(code, RegisterProgram::folds) || has_use(code, RegisterProgram::scales); }
bool can_be_wide(const RegisterProgram::Step& step) {
  const int code = step.code;
  if (code == RegisterProgram::keep || has_use(code, RegisterProgram::with_kept)) return false;
  if (has_use(code, RegisterProgram::with_tensor)) return traits_of(code).linear;
  if (code == RegisterProgram::scale_bias) return step.row >= 0;
  if (code < 0 || needs_all(code)) return true;
  const bool near = code >= RegisterProgram::folds || step.row >= 0 || step.data[0] == nullptr;  // per-channel values
  return near && traits_of(code).unrolled;
}

// Divides the steps into passes; returns false if that is impossible. Steps that could be wide are narrow in three
// cases: between narrow steps; while a kept value waits for its use; and after a reduction, which leaves few
// accumulators.
bool set_passes(RegisterProgram& program) {
  int keep = 0, one = program.count, tensors = 0;
  std::bitset<RegisterProgram::most_steps> waits;
  for (int s = 0; s < program.count; ++s) {
    const int code = program.codes[s] = program.steps[s].code;
    if (code == RegisterProgram::keep) keep = s;
    if (has_use(code, RegisterProgram::with_kept))
      for (int in = keep; in <= s; ++in) waits.set(static_cast<std::size_t>(in));
    if (code >= RegisterProgram::maps && traits_of(code).reduces) one = s;
    if (has_use(code, RegisterProgram::with_tensor)) ++tensors;
  }
  const auto is_wide = [&](int s) {
    return can_be_wide(program.steps[s]) && !waits.test(static_cast<std::size_t>(s)) && s <= one;
  };
  program.tensors = tensors;
  program.pass_count = 0;
  for (int s = 0; s < program.count;) {
    const bool wide = is_wide(s);
    int end = s + 1;
    for (int next = end; next < program.count; ++next) {
      if (wide ? !is_wide(next) : needs_all(program.codes[next])) break;
      if (wide == is_wide(next)) end = next + 1;
    }
    if (!wide)
      for (int in = s; in < end; ++in)
        if (needs_all(program.codes[in])) return false;
    program.passes[program.pass_count++] = {static_cast<std::int16_t>(s), static_cast<std::int16_t>(end), wide,
                                            s >= one};
    s = end;
  }
  return true;
}

bool goes_by_channel(const Strides& step) {
  return step.n == 0 && step.c == 1 && step.d == 0 && step.h == 0 && step.w == 0;
}

// steps_of_mixing: most steps of a norm or reduction. steps_inserted: steps before all others, which keep the
// convolution's result and undo scales.
constexpr int steps_of_mixing = 4, steps_inserted = 2;

// Makes a program step by step.
class Maker {
 public:
  Maker(const View& results, int channels, bool together, RegisterProgram& to)
      : results_(results), together_(together), program_(to) {
    program_ = {};
    program_.channels = channels;
  }

  bool add(const ChainStep& step) {
    const bool mixes = step.kind == ChainStep::map_channels || step.kind == ChainStep::reduce_channels;
    if (program_.count + (mixes ? steps_of_mixing : 1) + steps_inserted > RegisterProgram::most_steps) return false;
    switch (step.kind) {
      case ChainStep::affine:
        return add_line(step);
      case ChainStep::pointwise:
        return add_op(step, keeps(step) ? int{RegisterProgram::keep} : step.op);
      case ChainStep::combine:
        return add_combine(step);
      case ChainStep::map_channels:
      case ChainStep::reduce_channels:
        return add_mixing(step);
      case ChainStep::map_space:
        break;
    }
    return false;
  }
  // Called after the last step. Returns whether the steps make a program.
  bool end() {
    if (keeps_conv_) insert_first({.code = RegisterProgram::keep}, program_);
    return set_passes(program_);
  }
  // Inserts a step before all others.
  static void insert_first(const RegisterProgram::Step& step, RegisterProgram& program) {
    std::copy_backward(program.steps, program.steps + program.count, program.steps + program.count + 1);
    program.steps[0] = step;
    ++program.count;
    for (int r = 0; r < program.rows; ++r) ++program.row_steps[r];
  }

 private:
  static bool keeps(const ChainStep& step) {
    bool does = false;
    with_op(step, [&]<class T>(const T&) { does = std::derived_from<T, Keeps>; });
    return does;
  }
  RegisterProgram::Step& next() { return program_.steps[program_.count]; }
  bool add_op(const ChainStep& step, int code) {
    RegisterProgram::Step& to = next();
    to.code = code;
    to.params = step.params;
    to.channels = program_.channels;
    with_op(step, [&](const auto& op) { put_numbers(op, to); });
    ++program_.count;
    return true;
  }
  void take_row() {
    if (program_.rows == RegisterProgram::most_rows) return;
    next().row = program_.rows;
    program_.row_steps[program_.rows++] = program_.count;
  }
  bool add_line(const ChainStep& step) {
    RegisterProgram::Step& to = next();
    Line planned;
    std::memcpy(&planned, step.params.bytes, sizeof planned);
    to.channels = program_.channels;
    if (!std::isnan(planned.a) && !std::isnan(planned.b)) {
      to.code = RegisterProgram::scale_bias_by_number;
      to.numbers[0] = static_cast<float>(planned.a);
      to.numbers[1] = static_cast<float>(planned.b);
    } else {
      to.code = RegisterProgram::scale_bias;
      std::ranges::copy(step.data, to.data);
      take_row();
    }
    ++program_.count;
    return true;
  }
  bool add_combine(const ChainStep& step) {
    RegisterProgram::Step& to = next();
    to.data[0] = step.data[0];
    to.dtype = step.dtype;
    Term term;
    with_op(step, [&](const auto& op) {
      if constexpr (std::derived_from<std::remove_cvref_t<decltype(op)>, Combine>) term = op.term;
    });
    keeps_conv_ |= term.kind == Term::conv;
    if (term.kind == Term::conv || (term.kind == Term::kept && step.data[0] == nullptr))
      return add_op(step, RegisterProgram::with_kept + step.op);
    if (term.kind == Term::scalar) {
      add_op(step, step.op);
      program_.steps[program_.count - 1].numbers[0] = static_cast<float>(term.number);
      return true;
    }
    if (goes_by_channel(step.step)) {
      take_row();
      return add_op(step, step.op);
    }
    // An element's offset must be that of its result.
    if (!are_equal(step.step, results_.step)) return false;
    const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(step.data[0]) / size_of(step.dtype);
    to.aligned = address % 4 == 0 ? 4 : address % 2 == 0 ? 2 : 1;
    return add_op(step, RegisterProgram::with_tensor + step.op);
  }
  bool add_mixing(const ChainStep& step) {
    if (!together_ || one_) return false;
    int number = step.op;
    bool two_pass = false;
    with_op(step, [&]<class T>(const T&) {
      if constexpr (std::derived_from<T, ops::Norm>) number = RegisterProgram::norm;
      if constexpr (std::derived_from<T, Normalise> || std::derived_from<T, Reduce>) two_pass = T::two_pass;
    });
    add_op(step, RegisterProgram::folds + number);
    if (two_pass) {
      add_op(step, RegisterProgram::deviates + number);
      if (!traits_of(number).unrolled) add_op(step, RegisterProgram::scales + number);
    }
    add_op(step, RegisterProgram::maps + number);
    one_ = traits_of(number).reduces;
    if (one_) program_.channels = 1;
    return true;
  }

  const View& results_;
  bool together_;
  RegisterProgram& program_;
  bool one_ = false, keeps_conv_ = false;
};

}  // namespace

bool make_program(const Chain& chain, const View& results, int channels, bool together, RegisterProgram& to) {
  Maker maker(results, channels, together, to);
  for (int i = 0; i < chain.count; ++i)
    if (!maker.add(chain.steps[i])) return false;
  return maker.end();
}

bool has_mixing_steps(const RegisterProgram& program) {
  return std::any_of(program.codes, program.codes + program.count,
                     [](int code) { return code >= RegisterProgram::folds; });
}

void undo_scales(bool by_channel, RegisterProgram& program) {
  RegisterProgram::Step undo;
  if (!by_channel) {
    undo.numbers[0] = 1 / common_scale;
  } else {
    // fill_channel_values() multiplies row 0 by the inverse scale. A scale and bias that comes first includes it.
    if (program.count > 0 && program.steps[0].code == RegisterProgram::scale_bias) return;
    undo.code = RegisterProgram::scale_bias;
    undo.row = 0;
    undo.channels = program.steps[0].channels;
    if (program.rows == RegisterProgram::most_rows) program.steps[program.row_steps[--program.rows]].row = -1;
    for (int r = program.rows++; r > 0; --r) program.row_steps[r] = program.row_steps[r - 1];
    program.row_steps[0] = -1;  // the step before all others
    for (RegisterProgram::Step& step : program.steps)
      if (step.row >= 0) ++step.row;
  }
  Maker::insert_first(undo, program);
  set_passes(program);
}

namespace {

// What a step after the convolution needs: only the value; a whole tensor; the convolution's result or a value that a
// step `keep` named; all channels.
enum class Role { one_value, tensor, conv, kept, keep, norm, reduction, other };
Role role_of(const Step& step) {
  const Op* const any = std::get_if<Op>(&step.what);
  if (any == nullptr || takes_channel_values(step) || takes_number(step)) return Role::one_value;
  if (uses_conv(step)) return Role::conv;
  if (used_name(step) != nullptr) return Role::kept;
  if (kept_name(step) != nullptr) return Role::keep;
  return std::visit(
      [&]<class T>(const T&) {
        if constexpr (std::derived_from<T, Pointwise>) return Role::one_value;
        if constexpr (std::derived_from<T, Combine>) return Role::tensor;
        if constexpr (std::derived_from<T, Reduce>) return Role::reduction;
        if constexpr (std::derived_from<T, Normalise>) return mixes_channels(step) ? Role::norm : Role::other;
        return Role::other;
      },
      *any);
}

// Finds the steps during which a kept value waits for its last use. The convolution's own result waits from the first
// step on. A thread keeps one value at a time: returns false if two wait at once, if a use has another shape, or if its
// value was kept before these steps.
bool find_waiting(std::span<const Step> steps, std::vector<bool>& waits) {
  const auto wait = [&](std::size_t from, std::size_t last) {
    for (std::size_t i = from; i <= last; ++i) {
      if (waits[i]) return false;
      waits[i] = true;
    }
    return true;
  };
  waits.assign(steps.size(), false);
  for (std::size_t i = steps.size(); i-- > 0;)
    if (role_of(steps[i]) == Role::conv) {
      if (!wait(0, i)) return false;
      break;
    }
  std::size_t uses = 0, found = 0;
  for (const Step& step : steps) uses += role_of(step) == Role::kept ? 1 : 0;
  for (std::size_t k = 0; k < steps.size(); ++k) {
    const Name* const name = kept_name(steps[k]);
    if (name == nullptr) continue;
    std::size_t last = k;
    for (std::size_t i = k + 1; i < steps.size(); ++i)
      if (const Name* used = used_name(steps[i]); used != nullptr && *used == *name) {
        if (!(steps[i].in == steps[k].out)) return false;
        ++found;
        last = i;
      }
    if (!wait(k, last)) return false;
  }
  return found == uses;
}

}  // namespace

bool has_program(std::span<const Step> steps, bool together) {
  constexpr int most_mixing = 4;
  static_assert(Chain::most_steps + (steps_of_mixing - 1) * most_mixing + steps_inserted <=
                RegisterProgram::most_steps);
  if (steps.size() > Chain::most_steps) return false;
  std::vector<bool> waits;
  if (!find_waiting(steps, waits)) return false;
  bool one = false;
  int mixing_steps = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    const Role role = role_of(step);
    const bool mixing = role == Role::norm || role == Role::reduction;
    if (role == Role::other || (mixing && (!together || one))) return false;
    if (role == Role::tensor && !(step.in == steps.back().out)) return false;
    if (mixing && waits[i]) return false;  // a copy of all accumulators would be needed
    mixing_steps += mixing ? 1 : 0;
    one |= role == Role::reduction;
  }
  return mixing_steps <= most_mixing;
}

bool takes_tensor(const Step& step) { return role_of(step) == Role::tensor; }

// The chain after the convolution, up to a pool, or to a kept value that does not stay in registers.
std::span<const Step> chain_of(const Program& program, const Pass& pass, bool together) {
  const auto all = std::span(program.steps).subspan(pass.begin, pass.end - pass.begin);
  if (all.size() == program.steps.size() && has_program(all, together)) return all;
  const auto ends = [](const Step& step) { return is_pool(step) || kept_name(step) != nullptr; };
  return all.first(static_cast<std::size_t>(std::ranges::find_if(all, ends) - all.begin()));
}

ChainPlace place_of(std::span<const Step> steps, bool together) {
  if (are_short(steps)) return ChainPlace::epilogue;
  return has_program(steps, together) ? ChainPlace::program : ChainPlace::strip;
}

double chain_clocks_of(std::span<const Step> steps, ChainPlace place) {
  if (place == ChainPlace::epilogue) return 0;
  return place == ChainPlace::program ? value_clocks(steps) : strip_clocks(steps);
}

}  // namespace convt::core::cuda::sm90
