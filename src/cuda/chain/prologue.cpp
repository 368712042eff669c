// SPDX-License-Identifier: Apache-2.0
#include "cuda/chain/prologue.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "base/dtype.hpp"

namespace convt::core::cuda {
namespace {

PrologueParams::Step bind(const PrologueJob& job, const Step& step, const LinePlaces& places) {
  PrologueParams::Step to;
  if (std::holds_alternative<Affine>(step.what)) {
    to.data[0] = job.workspace + places.a;
    to.data[1] = job.workspace + places.b;
    return to;
  }
  const Op& any = std::get<Op>(step.what);
  to.op = static_cast<int>(any.index());
  std::visit(
      [&]<class T>(const T& op) {
        if constexpr (std::derived_from<T, Pointwise> || std::derived_from<T, Combine>) {
          static_assert(sizeof op <= sizeof to.params);
          std::memcpy(to.params.bytes, &op, sizeof op);
          to.kind = std::derived_from<T, Pointwise> ? ChainStep::pointwise : ChainStep::combine;
        } else {
          assert(false && "no other op stands before a convolution");
        }
      },
      any);
  // An op without data has its number among its members.
  if (to.kind == ChainStep::combine && !takes_number(step)) {
    assert(takes_channel_values(step));
    to.data[0] = job.call.operands[step.first_operand];
    to.dtype = job.program.asked->operands[step.first_operand].dtype;
  }
  return to;
}

}  // namespace

template <class T>
void run_prologue(const PrologueJob& job) {
  const Descriptor& d = *job.program.asked;
  const std::int64_t pixels = volume(d.input.space), element = static_cast<std::int64_t>(size_of(d.dtype));
  const bool first = d.input_layout == CONVT_CHANNELS_FIRST;
  const Pitches pitches = d.input_pitches();
  PrologueParams p;
  p.from = static_cast<const std::byte*>(job.call.input) + job.images.begin * pitches.image * element;
  p.to = job.to;
  p.dtype = d.dtype;
  p.count = job.images.size() * d.input.channels * pixels;
  p.run = first ? d.input.channels * pixels : d.input.channels;
  p.apart = first ? pitches.image : pitches.pixel;
  p.channel_run = first ? pixels : 1;
  p.channels = d.input.channels;
  const auto& steps = job.program.prologue;
  std::size_t done = 0;
  do {
    p.steps = 0;
    for (; done < steps.size() && p.steps < PrologueParams::most_steps; ++done)
      p.step[p.steps++] = bind(job, steps[done], job.places[done]);
    launch_prologue<T>(p, static_cast<cudaStream_t>(job.call.stream));
    p.from = p.to;
    p.apart = p.run;
  } while (done < steps.size());
}
template void run_prologue<float>(const PrologueJob&);
template void run_prologue<double>(const PrologueJob&);

}  // namespace convt::core::cuda
