// SPDX-License-Identifier: Apache-2.0
#include "cpu/engine.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/settings.hpp"
#include "cpu/executable.hpp"
#include "cpu/threads.hpp"
#include "plan/environment.hpp"

namespace convt::core {
namespace {

// Cycles per second, for predictions; what matters is the order of candidates.
constexpr double clock_rate = 2.5e9;
// Planning looks at each tap, and lists the taps of all input channels.
constexpr std::int64_t most_taps = 1 << 20, most_products = 1 << 26;

// The instruction set that the environment variable CONVT_ISA names, or the best one.
const cpu::Isa& chosen_isa() {
  const std::string_view wanted = environment().isa;
  std::vector<std::string_view> here;
  for (const cpu::Isa& isa : cpu::isas()) {
    if (!isa.runs_here()) continue;
    if (wanted.empty() || isa.name == wanted) return isa;
    here.push_back(isa.name);
  }
  reject("CONVT_ISA", "names no instruction set of this build and machine, which have {} (got '{}')",
         joined(here, ", "), wanted);
}

// A patch is as large as what its taps reach over, with strange dilations thousands of times the tensors. What others
// need no workspace for is theirs.
bool too_large(std::size_t workspace, const Descriptor& asked) {
  constexpr double least = 1 << 30, most_times = 16;
  const double elements = static_cast<double>(asked.input.count()) + static_cast<double>(asked.output.count()) +
                          static_cast<double>(asked.kernel_count);
  const auto bytes = static_cast<double>(workspace);
  return bytes > least && bytes > most_times * elements * static_cast<double>(size_of(asked.dtype));
}

std::string describe(const cpu::Cut& cut) {
  const cpu::Blocking& b = cut.blocking;
  return formatted("tile {}, {} images, {} channels, {}{}{}", joined(cut.tile, "x"), b.images, b.channels,
                   b.panel ? "panel" : "direct", b.merged != 0 ? " merged" : "", b.late ? " packed late" : "");
}

// One of the programs that give what was asked.
struct Variant {
  std::shared_ptr<const Program> program;
  std::string name;               // behind the instruction set's
  const SpaceSum* sum = nullptr;  // of which the program is
};

template <class T>
Candidate candidate(const cpu::Setup& setup, const Variant& variant) {
  const auto schedule = std::make_shared<const cpu::Schedule<T>>(setup);
  Candidate result;
  result.name = formatted("cpu {}{}", setup.isa->name, variant.name);
  if (schedule->passes.size() > 1) result.name += setup.between == Between::store ? " store" : " recompute";
  result.rejection = schedule->rejection;
  result.workspace = schedule->workspace;
  if (result.rejection.empty() && too_large(result.workspace, *setup.program->asked))
    result.rejection = formatted("needs {} bytes of workspace, far more than its tensors have", result.workspace);
  result.seconds = schedule->cycles / clock_rate / static_cast<double>(setup.threads);
  if (schedule->sums)
    result.details.push_back(schedule->sums->explain());
  else
    for (const auto& pass : schedule->passes) result.details.push_back(describe(pass.cut));
  for (const Step& step : setup.program->prologue)
    result.details.push_back(print(step) + ": on a tile's inputs as they are read");
  result.build = [schedule] { return cpu::make_executable<T>(schedule); };
  if (variant.sum == nullptr) result.program = setup.program;
  return result;
}

// The ways to run one program, the best first, and its cycles on one thread.
struct Ways {
  std::vector<Candidate> candidates;
  double cycles = 0;
};
template <class T>
Ways ways_of(const Variant& variant, bool compared) {
  cpu::Setup setup{variant.program, &chosen_isa(), std::min(num_threads(), cpu::most_threads()), Between::store,
                   variant.sum};
  Ways ways;
  ways.candidates.push_back(candidate<T>(setup, variant));
  if (compared && ways.candidates.front().rejection.empty()) {
    cpu::Setup alone = setup;
    alone.threads = 1;
    ways.cycles = cpu::Schedule<T>(alone).cycles;
  }
  const auto passes = passes_of(*variant.program, Between::store, false);
  if (variant.sum != nullptr || std::none_of(passes.begin(), passes.end(), [](const Pass& p) { return p.stores; }))
    return ways;
  setup.between = Between::recompute;
  Candidate again = candidate<T>(setup, variant);
  // Only where a limit on the workspace forbids the store: the choice must not depend on the number of threads.
  again.seconds = std::max(again.seconds, 1.001 * ways.candidates.front().seconds);
  ways.candidates.push_back(std::move(again));
  return ways;
}

bool is_accepted(const Ways& ways) { return ways.candidates.front().rejection.empty(); }

// Candidates of the variants. The choice among these must not depend on the number of threads either: what is slower on
// one thread is not said to be faster.
std::vector<Candidate> join(std::vector<Ways> all) {
  const auto best = std::min_element(all.begin(), all.end(), [](const Ways& a, const Ways& b) {
    return is_accepted(a) != is_accepted(b) ? is_accepted(a) : a.cycles < b.cycles;
  });
  const double least = best->candidates.front().seconds;
  std::vector<Candidate> joined;
  for (Ways& ways : all)
    for (Candidate& one : ways.candidates) {
      if (&ways != &*best) one.seconds = std::max(one.seconds, 1.001 * least);
      joined.push_back(std::move(one));
    }
  return joined;
}

// A note on the average pools that could have moved into the kernel, and did not.
void note_pools(Ways& apart, double cycles_in_kernel) {
  for (Candidate& one : apart.candidates) {
    if (!one.rejection.empty()) continue;
    auto program = std::make_shared<Program>(*one.program);
    const auto microseconds = [](double cycles) { return 1e6 * cycles / clock_rate; };
    program->declined.push_back(
        formatted("pools stay behind the convolution: one thread is predicted to take {:.1f} us, and {:.1f} us with "
                  "them in the kernel",
                  microseconds(apart.cycles), microseconds(cycles_in_kernel)));
    one.program = std::move(program);
  }
}

Candidate rejected(const std::string& name, const std::string& why) {
  Candidate none;
  none.name = "cpu" + name;
  none.rejection = why;
  return none;
}

std::string refusal(const Convolution& c) {
  if (const std::string far = reaches_too_far(c); !far.empty()) return far;
  if (volume(c.kernel) > most_taps) return "the kernel has more than 2^20 taps";
  if (capped_product({c.in_channels / c.groups, volume(c.kernel)}) > most_products)
    return "an output has more than 2^26 products";
  return "";
}

template <class T>
std::vector<Candidate> candidates_of(const std::shared_ptr<const Program>& program) {
  const bool has_windows = volume(program->kernel_change.window) != 1;
  const SpaceSum sum = sum_over_space(*program);
  const bool compared = has_windows || sum.program != nullptr;
  std::vector<Ways> all;
  const auto consider = [&](const Variant& variant) {
    const std::string refused = refusal(variant.program->convolution);
    all.push_back(refused.empty() ? ways_of<T>(variant, compared) : Ways{{rejected(variant.name, refused)}});
  };
  consider({program, ""});
  if (has_windows) {
    consider({std::make_shared<const Program>(rewrite(program->asked, {false, true, ""})), " pools apart"});
    if (is_accepted(all[0])) note_pools(all[1], all[0].cycles);
  }
  if (sum.program != nullptr)
    consider({sum.program, " sums", &sum});
  else if (std::any_of(program->steps.begin(), program->steps.end(), folds_space))
    all.push_back({{rejected(" sums", sum.rejection)}});
  return join(std::move(all));
}

class CpuEngine final : public Engine {
 public:
  std::string_view name() const override { return "cpu"; }

  std::vector<Candidate> candidates(const Request& request) const override {
    if (request.location.device != CONVT_DEVICE_CPU) return {rejected("", "runs on the CPU only")};
    const bool f64 = request.program->asked->dtype == CONVT_F64;
    return f64 ? candidates_of<double>(request.program) : candidates_of<float>(request.program);
  }
};

}  // namespace

const Engine& cpu_engine() {
  static constinit const CpuEngine engine;
  return engine;
}

}  // namespace convt::core
