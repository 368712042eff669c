// SPDX-License-Identifier: Apache-2.0
#include "plan/passes.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"

namespace convt::core {
namespace {

template <class Family, class F, class Result>
Result if_family(const Step& step, Result otherwise, F&& f) {
  const Op* op = std::get_if<Op>(&step.what);
  if (op == nullptr) return otherwise;
  return std::visit(
      [&]<class T>(const T& one) -> Result {
        if constexpr (std::derived_from<T, Family>)
          return f(one);
        else
          return otherwise;
      },
      *op);
}

Pass from_store(std::size_t begin, const Shape& in) {
  Pass pass;
  pass.source = Pass::Source::store;
  pass.begin = begin;
  pass.in = in;
  return pass;
}

// Whether steps from `first` on use the convolution's own result, or what was kept before.
bool looks_back(const Program& program, std::size_t first) {
  for (std::size_t i = first; i < program.steps.size(); ++i) {
    const Name* name = used_name(program.steps[i]);
    if (uses_conv(program.steps[i]) || (name != nullptr && program.kept_at(*name) < first)) return true;
  }
  return false;
}

}  // namespace

bool needs_space(const Step& step) {
  return if_family<Normalise>(step, false, [](const auto& op) {
    const Region::Kind kind = op.region().kind;
    return kind == Region::trailing || kind == Region::groups || kind == Region::instance;
  });
}

bool is_pool(const Step& step) {
  return if_family<Pool>(step, false, [](const auto&) { return true; });
}

bool folds_space(const Step& step) {
  return if_family<Pool>(step, false, [&](const auto& op) {
    const auto [size, stride, padding] = windows_of(op, step.in);
    return volume(step.out.space) == 1 && size == step.in.space && padding == Axes{0, 0, 0};
  });
}

bool uses_conv(const Step& step) {
  const Op* op = std::get_if<Op>(&step.what);
  return op != nullptr && core::uses_conv(*op);
}

bool uses_conv(const Program& program, std::size_t begin, std::size_t end) {
  const auto first = program.steps.begin();
  return std::any_of(first + static_cast<std::ptrdiff_t>(begin), first + static_cast<std::ptrdiff_t>(end),
                     [](const Step& step) { return uses_conv(step); });
}

bool broadcasts(const Program& program, const Step& step) {
  const Name* name = used_name(step);
  return name != nullptr && !(step.in == program.steps[program.kept_at(*name)].out);
}

bool broadcasts_space(const Program& program, const Step& step) {
  const Name* name = used_name(step);
  return name != nullptr && step.in.space != program.steps[program.kept_at(*name)].out.space;
}

bool needs_whole_image(const Program& program) {
  return std::any_of(program.steps.begin(), program.steps.end(),
                     [&](const Step& step) { return broadcasts_space(program, step); });
}

Regions regions_of(const Step& step) {
  const Region region = if_family<Normalise>(step, Region{}, [](const auto& op) { return op.region(); });
  Regions result;
  if (region.kind == Region::groups) result.channels_each = step.in.channels / region.parameter;
  if (region.kind == Region::trailing) {
    if (region.parameter > step.in.dims)
      result.channels_each = step.in.channels;
    else
      result.axes = static_cast<int>(3 - region.parameter);
  }
  for (int a = 0; a < result.axes; ++a) result.outer *= step.in.space[static_cast<std::size_t>(a)];
  result.count = step.in.channels / result.channels_each * result.outer;
  return result;
}

std::vector<Pass> passes_of(const Program& program, Between between, bool whole_image) {
  std::vector<Pass> passes;
  Pass pass;
  pass.in = program.conv;
  pass.whole_image = whole_image;
  Pass restart = pass;  // where a recomputing pass begins
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    const auto rest = program.steps.begin() + static_cast<std::ptrdiff_t>(i);
    const bool conv_later = looks_back(program, i);
    const bool moments = needs_space(step) && !whole_image;
    // Behind a fold there is no convolution any more; a step that wants its result keeps the pool in the tile.
    const bool fold = folds_space(step) && !whole_image && !conv_later;
    if (!moments && !fold) continue;
    pass.sink = moments ? Pass::Sink::moments : Pass::Sink::fold;
    pass.end = i;
    pass.out = step.in;
    // A pass that reads the store may write it too where every tile keeps to its own place: not behind a pool.
    const auto first = program.steps.begin() + static_cast<std::ptrdiff_t>(pass.begin);
    const bool moves = pass.source == Pass::Source::store && std::any_of(first, rest, is_pool);
    pass.stores = moments && between == Between::store && !conv_later && !moves;
    passes.push_back(pass);
    if (fold) {
      pass = from_store(i + 1, step.out);
      restart = pass;
    } else if (pass.stores) {
      // Also where a recomputing pass begins from now on: the store has no earlier values any more.
      pass = from_store(i, step.in);
      restart = pass;
    } else {
      pass = restart;
    }
  }
  pass.end = program.steps.size();
  pass.out = program.steps.empty() ? program.conv : program.steps.back().out;
  passes.push_back(pass);
  return passes;
}

std::string too_many_steps(const std::vector<Pass>& passes) {
  constexpr std::size_t most = 4096;
  std::size_t steps = 0;
  for (const Pass& pass : passes) steps += pass.end - pass.begin;
  return steps <= most ? "" : formatted("its {} passes take {} steps, more than {}", passes.size(), steps, most);
}

std::int64_t channels_together(const Program& program, const Pass& pass) {
  std::int64_t together = 1;
  const std::size_t end = pass.sink == Pass::Sink::moments ? pass.end + 1 : pass.end;
  for (std::size_t i = pass.begin; i < end; ++i) {
    const Step& step = program.steps[i];
    if (step.out.channels != step.in.channels) return pass.in.channels;  // a reduction
    std::int64_t these = if_family<Normalise>(step, std::int64_t{1}, [&](const auto& op) {
      return op.region().kind == Region::channels ? pass.in.channels : std::int64_t{1};
    });
    if (needs_space(step)) these = regions_of(step).channels_each;
    together = std::lcm(together, these);
  }
  return std::min(together, pass.in.channels);
}

namespace {

void widen(Interval& one, const Interval& by) {
  if (by.size() <= 0) return;
  one = one.size() <= 0 ? by : Interval{std::min(one.begin, by.begin), std::max(one.end, by.end)};
}

// The levels where each has at least what `least` says.
Levels walk_back(const Program& program, const Pass& pass, std::size_t axis, const Interval& out, const Levels& least) {
  Levels levels(pass.end - pass.begin + 1);
  levels.back() = out;
  for (std::size_t i = pass.end; i-- > pass.begin;) {
    const Step& step = program.steps[i];
    const std::size_t level = i - pass.begin;
    const Interval behind = levels[level + 1];
    if (pass.whole_image && needs_space(step)) {
      levels[level] = levels[level + 1] = {0, step.in.space[axis]};
      continue;
    }
    if (step.in.space[axis] != step.out.space[axis] && used_name(step) != nullptr) {
      levels[level] = {0, step.in.space[axis]};
      continue;
    }
    levels[level] = if_family<Pool>(step, behind, [&](const auto& op) -> Interval {
      const auto [size, stride, padding] = windows_of(op, step.in);
      const std::int64_t in = step.in.space[axis], last = (behind.end - 1) * stride[axis] - padding[axis];
      // Compared by difference: last + size can pass 63 bits.
      return {std::max<std::int64_t>(behind.begin * stride[axis] - padding[axis], 0),
              size[axis] < in - last ? last + size[axis] : in};
    });
    widen(levels[level], least[level]);
  }
  return levels;
}

// What levels need besides: a kept value has what its uses take, also where a pool between drops some of it, and steps
// that move nothing have as much behind them as before them.
Levels needed_besides(const Program& program, const Pass& pass, std::size_t axis, const Levels& levels) {
  Levels least(levels.size());
  for (std::size_t i = pass.begin; i < pass.end; ++i) {
    const Step& step = program.steps[i];
    const std::size_t level = i - pass.begin;
    if (const Name* name = used_name(step)) {
      const std::size_t kept = program.kept_at(*name);
      const bool spread = program.steps[kept].out.space[axis] != step.out.space[axis];
      const Interval used = spread ? Interval{0, 1} : levels[level + 1];
      if (kept >= pass.begin)
        for (std::size_t k = 0; k < 2; ++k) widen(least[kept - pass.begin + k], used);
    }
    if (step.in.space[axis] == step.out.space[axis] && !is_pool(step) && i + 1 < pass.end)
      widen(least[level + 1], levels[level]);
  }
  return least;
}

}  // namespace

Levels walk_back(const Program& program, const Pass& pass, std::size_t axis, const Interval& out) {
  Levels least(pass.end - pass.begin + 1);
  Levels levels = walk_back(program, pass, axis, out, least);
  const auto first = program.steps.begin();
  const bool keeps =
      std::any_of(first + static_cast<std::ptrdiff_t>(pass.begin), first + static_cast<std::ptrdiff_t>(pass.end),
                  [](const Step& step) { return used_name(step) != nullptr; });
  // Levels only grow, to the image at most.
  for (bool grew = keeps; grew;) {
    const Levels more = needed_besides(program, pass, axis, levels);
    grew = false;
    for (std::size_t level = 0; level < levels.size(); ++level) {
      Interval wide = levels[level];
      widen(wide, more[level]);
      if (wide.size() == levels[level].size()) continue;
      widen(least[level], wide);
      grew = true;
    }
    if (grew) levels = walk_back(program, pass, axis, out, least);
  }
  return levels;
}

}  // namespace convt::core
