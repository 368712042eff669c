// SPDX-License-Identifier: Apache-2.0
#include "cuda/sm90/host/make_program.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/dtype.hpp"
#include "cuda/sm90/config/params.hpp"
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

// Numbers are passed as floats, so that no thread converts them.
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

bool goes_by_channel(const Strides& step) {
  return step.n == 0 && step.c == 1 && step.d == 0 && step.h == 0 && step.w == 0;
}
bool are_equal(const Strides& a, const Strides& b) {
  return a.n == b.n && a.c == b.c && a.d == b.d && a.h == b.h && a.w == b.w;
}

// Makes a program step by step.
class Maker {
 public:
  Maker(const View& results, int channels, bool together, RegisterProgram& to)
      : results_(results), together_(together), program_(to) {
    program_ = {};
    program_.channels = channels;
  }

  bool add(const ChainStep& step) {
    // Two steps may still be inserted before all others, and a pass added after them.
    if (program_.count + 5 > RegisterProgram::most_steps || program_.pass_count + 4 > RegisterProgram::most_passes)
      return false;
    switch (step.kind) {
      case ChainStep::affine:
        return add_line(step);
      case ChainStep::pointwise:
        return add_op(step, step.op);
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
  // After the last step.
  bool end() {
    add_pass(-1, true);
    if (!keeps_) return true;
    if (program_.pass_count > 1) return false;  // statistics and kept values would share registers
    insert_first({.code = RegisterProgram::keep}, program_);
    return true;
  }
  // Inserts a step before all others, into the first pass.
  static void insert_first(const RegisterProgram::Step& step, RegisterProgram& program) {
    std::copy_backward(program.steps, program.steps + program.count, program.steps + program.count + 1);
    program.steps[0] = step;
    ++program.count;
    for (int r = 0; r < program.rows; ++r) ++program.row_steps[r];
    for (RegisterProgram::Pass& pass : std::span(program.passes, static_cast<std::size_t>(program.pass_count))) {
      ++pass.first;
      ++pass.end;
      if (pass.statistic >= 0) ++pass.statistic;
    }
    RegisterProgram::Pass& first = program.passes[0];
    first.first = 0;
    first.changes = !first.stores;
  }

 private:
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
    keeps_ |= term.kind == Term::conv;
    if (term.kind == Term::conv) return add_op(step, RegisterProgram::with_conv + step.op);
    if (term.kind == Term::scalar) {
      add_op(step, step.op);
      program_.steps[program_.count - 1].numbers[0] = static_cast<float>(term.number);
      return true;
    }
    if (goes_by_channel(step.step)) {
      take_row();
      return add_op(step, step.op);
    }
    // Elements have the same offsets as the results.
    if (!are_equal(step.step, results_.step)) return false;
    to.pairs = reinterpret_cast<std::uintptr_t>(step.data[0]) % (2 * size_of(step.dtype)) == 0;
    return add_op(step, RegisterProgram::with_tensor + step.op);
  }
  bool add_mixing(const ChainStep& step) {
    if (!together_ || one_) return false;
    int number = step.op;
    bool two_pass = false, reduces = false;
    with_op(step, [&]<class T>(const T&) {
      if constexpr (std::derived_from<T, ops::Norm>) number = RegisterProgram::norm;
      if constexpr (std::derived_from<T, Normalise> || std::derived_from<T, Reduce>) two_pass = T::two_pass;
      reduces = std::derived_from<T, Reduce>;
    });
    // Statistics of a second mixing step would overwrite those of the first.
    if (mapped_) add_pass(-1);
    add_op(step, RegisterProgram::folds + number);
    add_pass(program_.count - 1);
    if (two_pass) {
      add_op(step, RegisterProgram::deviates + number);
      add_pass(program_.count - 1);
    }
    add_op(step, RegisterProgram::maps + number);
    mapped_ = true;
    one_ = reduces;
    if (reduces) program_.channels = 1;
    return true;
  }
  void add_pass(int statistic, bool stores = false) {
    const bool changes = !stores && program_.count - first_ > (statistic < 0 ? 0 : 1);
    program_.passes[program_.pass_count++] = {first_, program_.count, statistic, changes, stores, one_};
    first_ = program_.count;
  }

  const View& results_;
  bool together_;
  RegisterProgram& program_;
  int first_ = 0;  // of the pass
  bool mapped_ = false, one_ = false, keeps_ = false;
};

}  // namespace

bool make_program(const Chain& chain, const View& results, int channels, bool together, RegisterProgram& to) {
  Maker maker(results, channels, together, to);
  for (int i = 0; i < chain.count; ++i)
    if (!maker.add(chain.steps[i])) return false;
  if (!maker.end()) return false;
  for (int s = 0; s < to.count; ++s) to.codes[s] = to.steps[s].code;
  return true;
}

bool loads_tensors(const RegisterProgram& program) {
  return std::any_of(program.codes, program.codes + program.count, [](int code) {
    return code >= RegisterProgram::with_tensor && code < RegisterProgram::with_conv;
  });
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
  for (int s = 0; s < program.count; ++s) program.codes[s] = program.steps[s].code;
}

namespace {

// What an op after the convolution needs.
enum class Role { one_value, tensor, conv, norm, reduction, other };
Role role_of(const Step& step) {
  const Op* const any = std::get_if<Op>(&step.what);
  if (any == nullptr || takes_channel_values(step) || takes_number(step)) return Role::one_value;
  if (uses_conv(step)) return Role::conv;
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

}  // namespace

bool has_program(std::span<const Step> steps, bool together) {
  // Each mixing step takes three steps and three passes.
  constexpr std::size_t most_mixing = 4;
  static_assert(Chain::most_steps + 2 * most_mixing + 2 <= RegisterProgram::most_steps);
  static_assert(3 * most_mixing + 4 <= RegisterProgram::most_passes);
  bool keeps = false, mixes = false, one = false;
  std::size_t mixing_steps = 0;
  for (const Step& step : steps) {
    const Role role = role_of(step);
    const bool mixing = role == Role::norm || role == Role::reduction;
    if (role == Role::other || (mixing && (!together || one))) return false;
    if (role == Role::tensor && !(step.in == steps.back().out)) return false;
    keeps |= role == Role::conv;
    mixes |= mixing;
    mixing_steps += mixing ? 1 : 0;
    one |= role == Role::reduction;
  }
  return !(keeps && mixes) && steps.size() <= Chain::most_steps && mixing_steps <= most_mixing;
}

bool takes_tensor(const Step& step) { return role_of(step) == Role::tensor; }

bool keeps_aside(std::span<const Step> steps, bool together) {
  return !are_short(steps) && has_program(steps, together) && std::ranges::any_of(steps, [](const Step& step) {
    const Role role = role_of(step);
    return role == Role::norm || role == Role::reduction || role == Role::conv;
  });
}

// The chain after the convolution, up to a pool or a value that is kept.
std::span<const Step> chain_of(const Program& program, const Pass& pass) {
  const auto all = std::span(program.steps).subspan(pass.begin, pass.end - pass.begin);
  const auto ends = [](const Step& step) { return is_pool(step) || kept_name(step) != nullptr; };
  return all.first(static_cast<std::size_t>(std::ranges::find_if(all, ends) - all.begin()));
}

namespace {

// Rough numbers of instructions per value: a multiply-add and its operands; the math of an op, mostly an exponential
// and a quotient; an address and a load; the passes of a norm.
double instructions_of(std::span<const Step> steps) {
  double all = 0;
  for (const Step& step : steps) {
    const Role role = role_of(step);
    const bool line = std::holds_alternative<Affine>(step.what);
    all += line ? 3 : role == Role::one_value ? 14 : role == Role::tensor ? 12 : role == Role::conv ? 3 : 24;
  }
  return all;
}

}  // namespace

// In registers a multiprocessor runs 128 instructions per clock, half of them the chain's own. In a strip, a step takes
// a clock or two for each element.
double chain_clocks_of(std::span<const Step> steps, bool together) {
  if (are_short(steps)) return 0;
  if (has_program(steps, together)) return instructions_of(steps) / 64;
  return 2 + 1.5 * static_cast<double>(steps.size());
}

}  // namespace convt::core::cuda::sm90
