// SPDX-License-Identifier: Apache-2.0
#include "plan/program.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "base/dtype.hpp"
#include "base/error.hpp"
#include "epilogue/text.hpp"
#include "plan/algebra.hpp"

namespace convt::core {
namespace {

double element(const void* data, convt_dtype dtype, std::int64_t index) {
  return visit_dtype(dtype, [&]<class T>(T*) { return to_double(static_cast<const T*>(data)[index]); });
}

// a of every channel is the same, which is why the reduction could move.
void reduce(const Op& op, std::vector<Line>& lines) {
  const double factor = *linear_reduction(op, static_cast<std::int64_t>(lines.size()));
  double sum = 0;
  for (const Line& line : lines) sum += line.b;
  lines.resize(1);
  lines[0].b = factor * sum;
}

// One axis of the asked kernel's taps: where each goes in the program's kernel.
std::vector<TapRun> places(const Program& program, std::size_t axis) {
  const Convolution &asked = program.asked->convolution, &now = program.convolution;
  const KernelChange& change = program.kernel_change;
  std::vector<TapRun> runs;
  for (std::int64_t tap = 0; tap < asked.kernel[axis]; ++tap) {
    TapRun run = windowed_places(asked, axis, tap, change.window[axis], change.window_stride[axis]);
    run.first = (run.first + now.padding[axis]) / now.dilation[axis];
    runs.push_back(run);
  }
  return runs;
}

// Where the taps of a row of the asked kernel go in a row of the program's.
struct RowMoves {
  struct Move {
    std::int64_t from, to;
  };
  std::vector<Move> moves;
  std::int64_t taps = 0;
  bool same = true;  // each to its own place

  explicit RowMoves(const std::vector<TapRun>& runs) : taps(static_cast<std::int64_t>(runs.size())) {
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      const TapRun& run = runs[static_cast<std::size_t>(tap)];
      same &= run.first == tap && run.count == 1;
      for (std::int64_t at = run.first; at < run.first + run.count; ++at) moves.push_back({tap, at});
    }
  }
  template <class T>
  void add(const T* from, double* to) const {
    if (same)
      for (std::int64_t tap = 0; tap < taps; ++tap) to[tap] += to_double(from[tap]);
    else
      for (const Move& move : moves) to[move.to] += to_double(from[move.from]);
  }
};

template <class From, class To>
void change(const Program& program, const From* from, To* to, std::int64_t first, std::int64_t end) {
  const Convolution& asked = program.asked->convolution;
  const KernelChange& change = program.kernel_change;
  const std::vector<TapRun> planes = places(program, 0), rows = places(program, 1);
  const RowMoves row(places(program, 2));
  const Axes& now = program.convolution.kernel;
  const std::int64_t asked_taps = volume(asked.kernel);
  const std::int64_t summed = change.sums_channels ? asked.out_channels / asked.groups : 1;
  std::vector<double> taps(static_cast<std::size_t>(volume(now)));
  from += first * summed * asked_taps;
  to += first * volume(now);
  for (std::int64_t pair = first; pair < end; ++pair) {
    std::fill(taps.begin(), taps.end(), 0.0);
    for (std::int64_t i = 0; i < summed; ++i)
      for (const TapRun& d : planes)
        for (const TapRun& h : rows) {
          for (std::int64_t z = d.first; z < d.first + d.count; ++z)
            for (std::int64_t y = h.first; y < h.first + h.count; ++y)
              row.add(from, taps.data() + (z * now[1] + y) * now[2]);
          from += row.taps;
        }
    for (const double tap : taps) *to++ = static_cast<To>(change.factor * tap);
  }
}

template <class To>
void change_from_asked(const Program& program, const void* asked_kernel, To* kernel, std::int64_t first,
                       std::int64_t end) {
  assert(program.kernel_change.any());
  visit_dtype(program.asked->dtype,
              [&]<class From>(From*) { change(program, static_cast<const From*>(asked_kernel), kernel, first, end); });
}

}  // namespace

std::string print(const Affine::Part& part) {
  const std::string op = print(part.stage.op);
  return part.role == Affine::Part::weight_and_bias ? "weight and bias of " + op : op;
}

std::string print(const Step& step) {
  if (const Op* op = std::get_if<Op>(&step.what)) return print(*op);
  std::vector<std::string> parts;
  for (const Affine::Part& part : std::get<Affine>(step.what).parts) parts.push_back(print(part));
  return joined(parts, ", ");
}

namespace {

bool has_term(const Step& step, Term::Kind kind) {
  const Op* any = std::get_if<Op>(&step.what);
  return any != nullptr && std::visit(
                               [&]<class T>(const T& op) {
                                 if constexpr (std::derived_from<T, Combine>) return op.term.kind == kind;
                                 return false;
                               },
                               *any);
}

}  // namespace

bool takes_channel_values(const Step& step) { return has_term(step, Term::channel); }
bool takes_number(const Step& step) { return has_term(step, Term::scalar); }

const Name* kept_name(const Step& step) {
  const Op* op = std::get_if<Op>(&step.what);
  return op == nullptr ? nullptr : kept_name(*op);
}
const Name* used_name(const Step& step) {
  const Op* op = std::get_if<Op>(&step.what);
  return op == nullptr ? nullptr : used_name(*op);
}

std::size_t Program::kept_at(const Name& name) const {
  const auto keeps = [&](const Step& step) {
    const Name* own = kept_name(step);
    return own != nullptr && *own == name;
  };
  return static_cast<std::size_t>(std::find_if(steps.begin(), steps.end(), keeps) - steps.begin());
}

bool Program::keeps_conv() const {
  return std::any_of(steps.begin(), steps.end(), [](const Step& step) {
    const Op* op = std::get_if<Op>(&step.what);
    return op != nullptr && uses_conv(*op);
  });
}

bool Program::prologue_keeps_zero() const {
  return std::all_of(prologue.begin(), prologue.end(), [](const Step& step) {
    if (const Affine* affine = std::get_if<Affine>(&step.what)) {
      const Line line = planned(*affine);
      return std::isfinite(line.a) && line.b == 0;
    }
    return std::visit(
        []<class T>(const T& op) {
          if constexpr (std::derived_from<T, Pointwise>) return op.apply(0.0) == 0;
          return false;  // 0 times a channel's value is not 0 where that is not finite
        },
        std::get<Op>(step.what));
  });
}

Line apply(const Affine::Part& part, Line line, const OperandValues& operands) {
  return std::visit(
      [&]<class T>(const T& op) -> Line {
        if constexpr (LinearCombine<T>) {
          return apply_line(op, line, operands.data());
        } else if constexpr (std::derived_from<T, ops::Norm>) {
          return apply_line(op, op.region().kind == Region::given, line, operands.data());
        } else {
          assert(false);
          return line;
        }
      },
      part.stage.op);
}

std::optional<double> linear_reduction(const Op& any, std::int64_t count) {
  return std::visit(
      [&]<class T>(const T& op) -> std::optional<double> {
        if constexpr (std::derived_from<T, Reduce> && std::derived_from<T, ops::SumFold>)
          if constexpr (!T::two_pass) return op.result(op.centre(1.0, static_cast<double>(count)), 0.0);
        return std::nullopt;
      },
      any);
}

std::optional<double> linear_pool(const Op& any, double count) {
  return std::visit(
      [&]<class T>(const T& op) -> std::optional<double> {
        if constexpr (std::derived_from<T, Pool> && std::derived_from<T, ops::SumFold>) return op.result(1.0, count);
        return std::nullopt;
      },
      any);
}

void evaluate(const Program& program, const Affine& affine, std::span<const void* const> operands, std::span<double> a,
              std::span<double> b) {
  std::vector<Line> lines(static_cast<std::size_t>(affine.parts.front().stage.in.channels));
  for (const Affine::Part& part : affine.parts) {
    if (part.role == Affine::Part::reduction) {
      reduce(part.stage.op, lines);
      continue;
    }
    OperandValues values{};
    for (std::size_t channel = 0; channel < lines.size(); ++channel) {
      for (std::size_t i = 0; i < part.stage.operand_count; ++i) {
        const std::size_t operand = part.stage.first_operand + i;
        values[i] =
            element(operands[operand], program.asked->operands[operand].dtype, static_cast<std::int64_t>(channel));
      }
      lines[channel] = apply(part, lines[channel], values);
    }
  }
  assert(a.size() == lines.size() && b.size() == lines.size());
  for (std::size_t channel = 0; channel < lines.size(); ++channel) {
    a[channel] = lines[channel].a;
    b[channel] = lines[channel].b;
  }
}

std::int64_t changed_pairs(const Program& program) { return program.kernel_count / volume(program.convolution.kernel); }

void change_kernel(const Program& program, const void* asked_kernel, float* kernel, std::int64_t first,
                   std::int64_t end) {
  change_from_asked(program, asked_kernel, kernel, first, end);
}
void change_kernel(const Program& program, const void* asked_kernel, double* kernel, std::int64_t first,
                   std::int64_t end) {
  change_from_asked(program, asked_kernel, kernel, first, end);
}

}  // namespace convt::core
