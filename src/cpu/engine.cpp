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

template <class T>
Candidate candidate(const cpu::Setup& setup) {
  const auto schedule = std::make_shared<const cpu::Schedule<T>>(setup);
  Candidate result;
  result.name = formatted("cpu {}", setup.isa->name);
  if (schedule->passes.size() > 1) result.name += setup.between == Between::store ? " store" : " recompute";
  result.rejection = schedule->rejection;
  result.workspace = schedule->workspace;
  if (result.rejection.empty() && too_large(result.workspace, *setup.program->asked))
    result.rejection = formatted("needs {} bytes of workspace, far more than its tensors have", result.workspace);
  result.seconds = schedule->cycles / clock_rate / static_cast<double>(setup.threads);
  for (const auto& pass : schedule->passes) result.details.push_back(describe(pass.cut));
  for (const Step& step : setup.program->prologue)
    result.details.push_back(print(step) + ": on a tile's inputs as they are read");
  result.build = [schedule] { return cpu::make_executable<T>(schedule); };
  return result;
}

class CpuEngine final : public Engine {
 public:
  std::string_view name() const override { return "cpu"; }

  std::vector<Candidate> candidates(const Request& request) const override {
    Candidate none;
    none.name = name();
    if (request.location.device != CONVT_DEVICE_CPU) none.rejection = "runs on the CPU only";
    const Convolution& c = request.program->convolution;
    if (volume(c.kernel) > most_taps) none.rejection = "the kernel has more than 2^20 taps";
    if (capped_product({c.in_channels / c.groups, volume(c.kernel)}) > most_products)
      none.rejection = "an output has more than 2^26 products";
    if (const std::string far = reaches_too_far(c); !far.empty()) none.rejection = far;
    if (!none.rejection.empty()) return {none};
    cpu::Setup setup{request.program, &chosen_isa(), std::min(num_threads(), cpu::most_threads()), Between::store};
    const bool f64 = request.program->asked->dtype == CONVT_F64;
    const auto make = [&] { return f64 ? candidate<double>(setup) : candidate<float>(setup); };
    std::vector<Candidate> all{make()};
    const auto passes = passes_of(*request.program, Between::store, false);
    if (std::any_of(passes.begin(), passes.end(), [](const Pass& pass) { return pass.stores; })) {
      setup.between = Between::recompute;
      Candidate again = make();
      // Only where a limit on the workspace forbids the store: the choice must not depend on the number of threads.
      again.seconds = std::max(again.seconds, 1.001 * all.front().seconds);
      all.push_back(std::move(again));
    }
    return all;
  }
};

}  // namespace

const Engine& cpu_engine() {
  static constinit const CpuEngine engine;
  return engine;
}

}  // namespace convt::core
