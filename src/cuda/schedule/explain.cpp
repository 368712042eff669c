// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "base/format.hpp"
#include "cuda/schedule/schedule.hpp"
#include "epilogue/text.hpp"

namespace convt::core::cuda::schedule {

namespace {

std::string print(const Prediction& predicted) {
  std::string line = "bound by " + std::string(Prediction::names[predicted.binds()]) + "; microseconds, which overlap:";
  for (std::size_t i = 0; i < Prediction::parts; ++i)
    line += formatted("{} {} {:.3g}", i == 0 ? "" : ",", Prediction::names[i], 1e6 * predicted.of[i]);
  return line;
}

}  // namespace

std::vector<std::string> Schedule::explain() const {
  std::vector<std::string> lines;
  const PassPlan& first = passes.front();
  lines.push_back(convolver->explain(planned_job(first, first.stages.front(), first.images)));
  if (copies_input) {
    std::string line = "input";
    for (const Step& step : program->prologue) line += " + " + print(step);
    line += " -> memory, in a pass of its own: ";
    line += program->prologue.empty() ? "a dense copy"
                                      : formatted("prologue rounded to {}", name_of(program->asked->dtype));
    lines.push_back(formatted("{}, {:.3g} us", line, 1e6 * predict_prologue(program->asked->input.batch).seconds));
  }
  for (const PassPlan& p : passes) {
    std::string line = p.stages.front().convolves ? "convolution" : "stored values";
    const bool passes_l2 = buffer_bytes(p) * static_cast<double>(p.images) > static_cast<double>(device.l2_bytes);
    for (const Stage& stage : p.stages) {
      if (&stage != &p.stages.front()) {
        line += passes_l2 ? " -> memory" : " -> L2";
        if (static_cast<std::int64_t>(size_of(stage.reads)) < real)
          line += formatted(", rounded to {}", name_of(stage.reads));
      }
      if (stage.pool != Stage::no_pool) line += " -> " + print(program->steps[stage.pool]);
      for (std::size_t i = stage.begin; i < stage.end; ++i) line += " + " + print(program->steps[i]);
    }
    if (p.pass.sink == Pass::Sink::fold && static_cast<std::int64_t>(size_of(p.stages.back().writes)) < real)
      line += formatted(", rounded to {}", name_of(p.stages.back().writes));
    line += p.pass.sink == Pass::Sink::output ? " -> output" : " -> " + print(program->steps[p.pass.end]) + " measures";
    if (p.pass.stores) line += store_in_output ? ", kept in the output" : ", kept in the workspace";
    if (p.pass.stores && static_cast<std::int64_t>(size_of(p.stored)) < real)
      line += formatted(", rounded to {}", name_of(p.stored));
    lines.push_back(line);
    if (p.tiles() > 1 || p.images < flight)
      lines.push_back(
          formatted("slabs of {} images x {} pixels, {} per image", p.images, joined(p.tile, "x"), p.tiles()));
  }
  if (flight < program->asked->input.batch) lines.push_back(formatted("{} images at a time", flight));
  lines.push_back(print(predicted));
  return lines;
}

}  // namespace convt::core::cuda::schedule
