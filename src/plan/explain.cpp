// SPDX-License-Identifier: Apache-2.0
// A plan in words.
#include "base/dtype.hpp"
#include "base/error.hpp"
#include "epilogue/text.hpp"
#include "plan/plan.hpp"
#include "plan/work.hpp"

namespace convt::core {
namespace {

std::string sizes(const std::vector<std::int64_t>& all) { return joined(all, "x"); }

std::string seconds(double value) {
  if (value < 1e-3) return formatted("{:.3g} us", value * 1e6);
  if (value < 1) return formatted("{:.3g} ms", value * 1e3);
  return formatted("{:.3g} s", value);
}

std::string write(const Plan& plan) {
  const Descriptor& d = plan.descriptor();
  std::string text = d.text + "\n\nshapes\n";
  const auto row = [&](std::string_view name, const std::string& value) {
    text += formatted("  {:<44} {}\n", name, value);
  };
  row("input", sizes(d.input.sizes()));
  if (d.slices_input()) row("  its channels are a range of", formatted("{}", d.input_within));
  for (const Stage& stage : d.prologue) row(print(stage.op), sizes(stage.out.sizes()));
  row("convolution", sizes(d.conv.sizes()));
  for (const Stage& stage : d.stages) row(print(stage.op), sizes(stage.out.sizes()));
  row("output", sizes(d.output.sizes()));
  if (d.slices_output()) row("  its channels are a range of", formatted("{}", d.output_within));

  if (!d.operands.empty()) text += "\noperands\n";
  for (std::size_t i = 0; i < d.operands.size(); ++i)
    row(formatted("[{}] {}", i, d.operands[i].spec.name),
        formatted("{} {}", name_of(d.operands[i].dtype), sizes(d.operands[i].spec.sizes)));

  const Program& program = plan.program();
  if (!program.notes.empty()) text += "\nrewrites\n";
  for (const std::string& note : program.notes) text += formatted("  {}\n", note);
  if (!program.notes.empty()) {
    text += "\nrewritten\n";
    for (const Step& step : program.prologue) row(print(step), sizes(step.out.sizes()));
    row("convolution", sizes(program.conv.sizes()));
    for (const Step& step : program.steps) row(print(step), sizes(step.out.sizes()));
  }

  if (!program.declined.empty()) text += "\nnot rewritten\n";
  for (const std::string& line : program.declined) text += formatted("  {}\n", line);

  const Work work = count_work(d);
  text += "\nwork\n";
  row("GFLOP the output needs", formatted("{:.6g}", 2e-9 * work.needed));
  if (program.kernel_change.any())
    row("GFLOP the output needs, rewritten", formatted("{:.6g}", 2e-9 * count_work(program).needed));
  row("GFLOP of all inputs with all taps", formatted("{:.6g}", 2e-9 * work.scattered));

  text += "\nengines\n";
  for (const Plan::Verdict& verdict : plan.verdicts())
    row(verdict.candidate,
        verdict.reason.empty() ? "accepts, predicts " + seconds(verdict.seconds) : "rejects: " + verdict.reason);
  row("chosen", plan.choice());
  for (const std::string& detail : plan.details()) row("", detail);
  row("runs on", print(plan.location()));
  row("workspace", formatted("{} bytes", plan.workspace_size()));
  return text;
}

}  // namespace

const std::string& Plan::explain() const {
  return explanation_.get([&] { return write(*this); });
}

}  // namespace convt::core
