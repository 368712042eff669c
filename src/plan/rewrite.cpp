// SPDX-License-Identifier: Apache-2.0
// The planner's algebra. The chain becomes steps, one by one; then the rules below are applied until none does
// anything.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "base/error.hpp"
#include "epilogue/text.hpp"
#include "plan/algebra.hpp"
#include "plan/passes.hpp"
#include "plan/phases.hpp"

namespace convt::core {
namespace {

using Steps = std::vector<Step>;

Affine* affine_of(Step& step) { return std::get_if<Affine>(&step.what); }

// ---- What is known at planning.

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

// With `operand` for every operand's element.
Line planned(const Affine::Part& part, Line line, double operand = unknown) {
  if (part.role != Affine::Part::reduction) return apply(part, line, {operand, operand, operand, operand});
  const std::int64_t channels = part.stage.in.channels;
  line.b *= static_cast<double>(channels) * *linear_reduction(part.stage.op, channels);
  return line;
}
Line planned(std::span<const Affine::Part> parts, Line line, double operand) {
  for (const Affine::Part& part : parts) line = planned(part, line, operand);
  return line;
}

}  // namespace

Line planned(const Affine& affine) { return planned(affine.parts, Line(), unknown); }

namespace {

// Whether constants of one Affine stay in the range of what is computed in: 0*Inf is NaN where the ops, one by one,
// give 0. What operands hold is not known: constants beside them stay near 1.
bool stays_in_range(const Line& known, bool operands, convt_dtype dtype) {
  const bool doubles = dtype == CONVT_F64;
  const double most = operands  ? 0x1p32
                      : doubles ? std::numeric_limits<double>::max()
                                : static_cast<double>(std::numeric_limits<float>::max());
  const double least = operands  ? 0x1p-32
                       : doubles ? std::numeric_limits<double>::min()
                                 : static_cast<double>(std::numeric_limits<float>::min());
  const double a = std::abs(known.a), b = std::abs(known.b);
  return (a == 0 || (a >= least && a <= most)) && b <= most;
}

// ---- The rules. Each says whether it did something.

bool merge_neighbours(Program& program) {
  Steps merged;
  Line known, all;  // of the last Affine: with 1 for its operands, and with what planning knows
  for (Step& step : program.steps) {
    Affine* next = affine_of(step);
    Affine* last = merged.empty() ? nullptr : affine_of(merged.back());
    const bool follows = next != nullptr && last != nullptr;
    if (next != nullptr) {
      const Line ones = planned(next->parts, follows ? known : Line(), 1);
      const Line together = planned(next->parts, follows ? all : Line(), unknown);
      if (follows && stays_in_range(ones, std::isnan(together.a) || std::isnan(together.b), program.asked->dtype)) {
        last->parts.insert(last->parts.end(), next->parts.begin(), next->parts.end());
        merged.back().out = step.out;
        known = ones;
        all = together;
        continue;
      }
      known = planned(next->parts, Line(), 1);
      all = planned(next->parts, Line(), unknown);
    }
    merged.push_back(std::move(step));
  }
  const bool changed = merged.size() != program.steps.size();
  program.steps = std::move(merged);
  return changed;
}

bool changes_nothing(Step& step) {
  if (const Affine* affine = affine_of(step)) {
    const Line line = planned(*affine);
    return line.a == 1 && line.b == 0;
  }
  return step.in.channels == 1 && linear_reduction(std::get<Op>(step.what), 1).has_value();
}

bool drop_identities(Program& program) {
  const auto kept = std::stable_partition(program.steps.begin(), program.steps.end(),
                                          [](Step& step) { return !changes_nothing(step); });
  const bool changed = kept != program.steps.end();
  for (auto step = kept; step != program.steps.end(); ++step)
    program.notes.push_back(print(*step) + " changes nothing");
  program.steps.erase(kept, program.steps.end());
  return changed;
}

// Which shifts of its input a norm does not notice.
enum class Deaf { to_none, to_constants, to_channels };
Deaf deafness(const Step& step) {
  const Op* any = std::get_if<Op>(&step.what);
  if (any == nullptr) return Deaf::to_none;
  return std::visit(
      [&]<class T>(const T& op) {
        if constexpr (std::derived_from<T, ops::Norm>) {
          const Region region = op.region();
          const bool within_channel =
              region.kind == Region::instance || (region.kind == Region::trailing && region.parameter <= step.in.dims);
          return within_channel ? Deaf::to_channels : Deaf::to_constants;
        }
        return Deaf::to_none;
      },
      *any);
}

// Drops the parts of an affine that only shift what a deaf norm sees next.
bool cancel_shifts(Program& program, Affine& affine, const Step& norm) {
  const Deaf deaf = deafness(norm);
  bool changed = false;
  for (std::size_t i = affine.parts.size(); deaf != Deaf::to_none && i-- > 0;) {
    const Affine::Part& part = affine.parts[i];
    const Line line = planned(part, Line());
    if (part.role == Affine::Part::op && line.a == 1 && (deaf == Deaf::to_channels || std::isfinite(line.b))) {
      program.notes.push_back(formatted("{} cancels in {}", print(part), print(norm)));
      affine.parts.erase(affine.parts.begin() + static_cast<std::ptrdiff_t>(i));
      changed = true;
    } else if (part.role == Affine::Part::reduction || (deaf == Deaf::to_constants && !std::isfinite(line.a))) {
      break;
    }
  }
  return changed;
}

bool cancel_shifts(Program& program) {
  bool changed = false;
  for (std::size_t i = 0; i + 1 < program.steps.size(); ++i)
    if (Affine* affine = affine_of(program.steps[i])) changed |= cancel_shifts(program, *affine, program.steps[i + 1]);
  std::erase_if(program.steps, [](Step& step) { return affine_of(step) != nullptr && affine_of(step)->parts.empty(); });
  return changed;
}

bool is_max_pool(const Step& step) {
  const Op* any = std::get_if<Op>(&step.what);
  return any != nullptr &&
         std::visit([]<class T>(const T&) { return std::derived_from<T, Pool> && std::derived_from<T, ops::MaxFold>; },
                    *any);
}

// A shift of whole channels before a max pool is the same behind it, where there are fewer pixels.
bool delay_shifts(Program& program) {
  bool changed = false;
  for (std::size_t i = 0; i + 1 < program.steps.size(); ++i) {
    Step &step = program.steps[i], &next = program.steps[i + 1];
    const Affine* affine = affine_of(step);
    if (affine == nullptr || planned(*affine).a != 1 || !is_max_pool(next)) continue;
    program.notes.push_back(formatted("{} moves behind {}", print(step), print(next)));
    step.in = step.out = next.out;
    std::swap(step, next);
    changed = true;
  }
  return changed;
}

// The step commutes with sums over channels: what it does to a channel is linear and the same for all of them.
bool treats_channels_alike(Step& step) {
  if (const Affine* affine = affine_of(step)) return std::isfinite(planned(*affine).a);
  return linear_pool(std::get<Op>(step.what), 1).has_value();
}

bool move_reduction(Program& program) {
  Convolution& c = program.convolution;
  Steps& steps = program.steps;
  const auto found = std::find_if_not(steps.begin(), steps.end(), treats_channels_alike);
  if (found == steps.end() || affine_of(*found) != nullptr || program.keeps_conv()) return false;
  const Op op = std::get<Op>(found->what);
  const auto factor = linear_reduction(op, c.out_channels);
  if (!factor) return false;
  const Stage reduction{op, found->in, found->out, 0, 0};
  for (auto step = steps.begin(); step != found; ++step) {
    if (Affine* affine = affine_of(*step)) affine->parts.push_back({Affine::Part::reduction, reduction});
    step->in.channels = step->out.channels = 1;
  }
  program.notes.push_back(formatted("{} moves into the kernel: 1 output channel instead of {}{}", print(op),
                                    c.out_channels, c.groups == 1 ? "" : ", no groups"));
  steps.erase(found);
  c.groups = c.out_channels = program.conv.channels = 1;
  program.kernel_change.sums_channels = true;
  program.kernel_change.factor *= *factor;
  return true;
}

// Taps along an axis up to which a pool is considered: planning looks at each.
constexpr std::int64_t most_taps = 1 << 10;

// A convolution and the pool behind it, as one; or why there is none.
struct MovedPool {
  Convolution convolution;
  KernelChange change;
  std::string why_not;
};

// One axis of it. Returns the number of taps that reach a window: their products were needed before. 0: `why_not` says
// why no convolution does it, or only one with taps that are zero; a zero times an infinite input is not zero.
std::int64_t move_axis(MovedPool& moved, std::size_t axis, std::int64_t window, std::int64_t stride) {
  Convolution& c = moved.convolution;
  const auto decline = [&](std::string why) {
    moved.why_not = std::move(why);
    return 0;
  };
  if (c.stride[axis] % stride != 0)
    return decline(formatted("its stride {} does not divide the convolution's {} along {}", stride, c.stride[axis],
                             axis_letters[axis]));
  if (c.kernel[axis] > most_taps)
    return decline(formatted("the kernel has more than {} taps along {}", most_taps, axis_letters[axis]));
  std::int64_t live = 0, first = 0, last = 0, step = 0, places = 0;
  for (std::int64_t tap = 0; tap < c.kernel[axis]; ++tap) {
    const TapRun run = windowed_places(c, axis, tap, window, stride);
    if (run.count == 0) continue;
    const std::int64_t end = run.first + run.count;
    places += live == 0 ? run.count : std::max<std::int64_t>(end - std::max(run.first, last + 1), 0);
    if (live++ == 0) first = std::min<std::int64_t>(run.first, 0);  // padding cannot be negative
    step = std::gcd(step, run.count > 1 ? 1 : run.first - first);
    last = end - 1;
  }
  if (live == 0) return decline(formatted("no tap reaches a window along {}", axis_letters[axis]));
  const std::int64_t dilation = std::max<std::int64_t>(step, 1), kernel = (last - first) / dilation + 1;
  if (kernel != places) return decline(formatted("taps of the new kernel would be 0 along {}", axis_letters[axis]));
  c.stride[axis] /= stride;
  c.dilation[axis] = dilation;
  c.kernel[axis] = kernel;
  c.padding[axis] = -first;
  return live;
}

// No window reaches outside the image.
bool all_inside(const Windows& windows, const Step& step) {
  for (std::size_t axis = 0; axis < 3; ++axis)
    if (windows.padding[axis] != 0 ||
        (step.out.space[axis] - 1) * windows.stride[axis] > step.in.space[axis] - windows.size[axis])
      return false;
  return true;
}

std::string sizes(const Program& program, const Axes& axes) {
  return joined(std::span(axes.end() - program.conv.dims, axes.end()), "x");
}

// Of the linear pool at `at`, when the convolution or an Affine step alone comes before it. With a step that shifts,
// only an average can move: sums of windows have the shift once for each element.
MovedPool moved_pool(const Program& program, std::size_t at) {
  const std::vector<Step>& steps = program.steps;
  const Convolution& c = program.convolution;
  const Op op = std::get<Op>(steps[at].what);
  const Windows windows = std::visit(
      [&]<class T>(const T& pool) -> Windows {
        if constexpr (std::derived_from<T, Pool>) return windows_of(pool, steps[at].in);
        return {};
      },
      op);
  MovedPool moved{c, program.kernel_change, reaches_too_far(c)};
  if (!moved.why_not.empty()) return moved;
  if (!all_inside(windows, steps[at])) {
    moved.why_not = "windows reach outside the image";
    return moved;
  }
  double count = 1, taps = 1, live = 1;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    // Windows of windows are windows where those before touch and do not overlap.
    if (moved.change.window[axis] != moved.change.window_stride[axis]) {
      moved.why_not = "windows that moved before it overlap or leave gaps";
      return moved;
    }
    count *= static_cast<double>(windows.size[axis]);
    live *= static_cast<double>(move_axis(moved, axis, windows.size[axis], windows.stride[axis]));
    if (!moved.why_not.empty()) return moved;
    Convolution& now = moved.convolution;
    now.output[axis] = steps[at].out.space[axis];
    now.output_padding[axis] = now.output[axis] - 1 - (c.input[axis] - 1) * now.stride[axis] + 2 * now.padding[axis] -
                               (now.kernel[axis] - 1) * now.dilation[axis];
    taps *= static_cast<double>(now.kernel[axis]);
    moved.change.window[axis] *= windows.size[axis];
    moved.change.window_stride[axis] *= windows.stride[axis];
  }
  const double factor = *linear_pool(op, count);
  moved.change.factor *= factor;
  const Affine* affine = std::get_if<Affine>(&steps[0].what);
  if (taps > live)
    moved.why_not = formatted("the kernel would have {} taps instead of {}", sizes(program, moved.convolution.kernel),
                              sizes(program, c.kernel));
  else if (affine != nullptr && factor != 1 / count && planned(*affine).b != 0)
    moved.why_not = formatted("its sums have the shift of {} once for each element", print(steps[0]));
  return moved;
}

bool is_linear_pool(const Step& step) {
  const Op* op = std::get_if<Op>(&step.what);
  return op != nullptr && linear_pool(*op, 1).has_value();
}

bool move_one_pool(Program& program, std::size_t at) {
  if (!is_linear_pool(program.steps[at])) return false;
  const MovedPool moved = moved_pool(program, at);
  if (!moved.why_not.empty()) return false;
  program.notes.push_back(
      formatted("{} moves into the kernel: {} taps at stride {} instead of {} at {}", print(program.steps[at]),
                sizes(program, moved.convolution.kernel), sizes(program, moved.convolution.stride),
                sizes(program, program.convolution.kernel), sizes(program, program.convolution.stride)));
  program.convolution = moved.convolution;
  program.kernel_change = moved.change;
  program.conv.space = moved.convolution.output;
  return true;
}

// As many as stand one behind the other: a chain can be long.
bool move_pools(Program& program) {
  Steps& steps = program.steps;
  if (program.keeps_conv()) return false;
  const std::size_t first = !steps.empty() && affine_of(steps[0]) != nullptr ? 1 : 0;
  std::size_t end = first;
  while (end < steps.size() && move_one_pool(program, end)) ++end;
  if (end == first) return false;
  if (first == 1) steps[0].in.space = steps[0].out.space = program.conv.space;
  steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(first), steps.begin() + static_cast<std::ptrdiff_t>(end));
  return true;
}

// The constants, sums and averages that stay where they are, each with the reason. What folds all of space is left to
// engines, which have ways of their own for it.
void note_declined(Program& program, const Unmoved& unmoved) {
  Steps& steps = program.steps;
  const auto note = [&](const Step& step, const std::string& why) {
    if (!why.empty()) program.declined.push_back(formatted("{} stays behind the convolution: {}", print(step), why));
  };
  const std::string kept = program.keeps_conv() ? "a later step uses the convolution's result" : "";
  for (std::size_t i = 0; i + 1 < steps.size(); ++i)
    if (affine_of(steps[i]) != nullptr && affine_of(steps[i + 1]) != nullptr)
      program.declined.push_back(formatted("{} and {} stay apart: their constants may leave the range together",
                                           print(steps[i]), print(steps[i + 1])));

  const std::size_t first = !steps.empty() && affine_of(steps[0]) != nullptr ? 1 : 0;
  if (first < steps.size() && is_linear_pool(steps[first]) && !folds_space(steps[first])) {
    const std::string why = !kept.empty() ? kept : moved_pool(program, first).why_not;
    note(steps[first], why.empty() ? unmoved.why : why);
  }

  std::string why = kept.empty() ? unmoved.why : kept;
  for (Step& step : steps) {
    if (const Op* op = std::get_if<Op>(&step.what); op != nullptr && linear_reduction(*op, 1)) return note(step, why);
    if (affine_of(step) == nullptr && !is_linear_pool(step)) return;
    if (!treats_channels_alike(step)) why = formatted("{} is not the same for all channels", print(step));
  }
}

// Kept values that nobody uses are not kept. What is kept of the convolution's own result is that result, which engines
// have at hand, where all uses have its shape.
void settle_kept(Program& program) {
  Steps& steps = program.steps;
  const auto uses = [&](const Name& name) {
    std::vector<Step*> all;
    for (Step& step : steps)
      if (const Name* used = used_name(step); used != nullptr && *used == name) all.push_back(&step);
    return all;
  };
  for (std::size_t i = 0; i < steps.size();) {
    const Name* name = kept_name(steps[i]);
    if (name == nullptr) {
      ++i;
      continue;
    }
    const std::vector<Step*> all = uses(*name);
    const bool same = std::all_of(all.begin(), all.end(), [&](const Step* step) { return step->in == program.conv; });
    if (!all.empty() && !(i == 0 && same)) {
      ++i;
      continue;
    }
    for (Step* step : all) use_conv(std::get<Op>(step->what));
    steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// An axis with one input has any stride. With the kernel's size, each output has the one tap that it sees, and no
// output has taps that only see the outside of the image.
void spread_single_inputs(Program& program) {
  Convolution& c = program.convolution;
  for (std::size_t a = 0; a < 3; ++a) {
    if (c.input[a] != 1 || c.dilation[a] != 1 || c.kernel[a] <= c.stride[a]) continue;
    c.stride[a] = c.kernel[a];
    program.notes.push_back(formatted("axis {} has one input: stride {}", axis_letters[a], c.stride[a]));
  }
}

// What the rules for single steps and neighbours make of the prologue, as if it were a chain of its own.
void add_prologue(Program& program) {
  Program before;
  before.asked = program.asked;
  for (const Stage& stage : program.asked->prologue) add_steps(before.steps, stage, program.asked->dtype);
  while (merge_neighbours(before) || drop_identities(before)) {
  }
  for (Step& step : before.steps)
    if (const Affine* affine = affine_of(step); affine != nullptr && affine->parts.size() > 1)
      program.notes.push_back("before the convolution, " + print(step) + ": one multiply-add per channel");
  for (const std::string& note : before.notes) program.notes.push_back("before the convolution, " + note);
  program.prologue = std::move(before.steps);
}

}  // namespace

Program rewrite(std::shared_ptr<const Descriptor> asked, const Unmoved& unmoved) {
  Program program;
  program.convolution = asked->convolution;
  program.conv = asked->conv;
  program.asked = std::move(asked);
  add_prologue(program);
  for (const Stage& stage : program.asked->stages) {
    const std::size_t before = program.steps.size();
    add_steps(program.steps, stage, program.asked->dtype);
    if (program.steps.size() > before + 2) program.notes.push_back(print(stage.op) + ": written out in simpler steps");
  }
  while (merge_neighbours(program) || drop_identities(program) || cancel_shifts(program) || delay_shifts(program) ||
         (!unmoved.sums && move_reduction(program)) || (!unmoved.windows && move_pools(program))) {
  }
  note_declined(program, unmoved);
  settle_kept(program);
  for (const Step& step : program.steps)
    if (broadcasts_space(program, step))
      program.notes.push_back(print(step) +
                              " sees a value and what was folded from it over space: no tile is smaller than an image");
  spread_single_inputs(program);
  const Convolution& c = program.convolution;
  program.kernel_count = c.in_channels * (c.out_channels / c.groups) * volume(c.kernel);
  for (Step& step : program.steps)
    if (const Affine* affine = affine_of(step); affine != nullptr && affine->parts.size() > 1)
      program.notes.push_back(print(step) + ": one multiply-add per channel");
  return program;
}

}  // namespace convt::core
