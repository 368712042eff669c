// SPDX-License-Identifier: Apache-2.0
// Steps with the operands of one call: constants go to their places in the workspace, as T.
#pragma once

#include <algorithm>
#include <vector>

#include "cpu/convert.hpp"
#include "cpu/lines.hpp"
#include "cpu/schedule.hpp"

namespace convt::core::cpu {

template <class T>
struct Binder {
  const Program& program;
  const Call& call;
  std::byte* workspace;

  // With what is the same for every image.
  BoundStep<T> operator()(const Step& step, const typename Schedule<T>::Constants& of) const {
    const Descriptor& asked = *program.asked;
    BoundStep<T> bound;
    bound.step = &step;
    if (const Affine* affine = std::get_if<Affine>(&step.what)) {
      const auto channels = static_cast<std::size_t>(step.out.channels);
      std::vector<double> a(channels), b(channels);
      evaluate(program, *affine, call.operands, a, b);
      const Lines<T> lines{at<T>(of.a), at<T>(of.b), at<double>(of.wide)};
      if (lines.fill(a, b)) bound.wide = lines.wide;
      bound.a = lines.a;
      bound.b = lines.b;
    } else if (needs_space(step)) {
      bound.regions = regions_of(step);
      if (step.operand_count == 2) {
        bound.weight = converted(step.first_operand, of.weight);
        bound.bias = converted(step.first_operand + 1, of.bias);
      }
    } else if (takes_channel_values(step)) {
      bound.a = converted(step.first_operand, of.a);
    } else if (step.operand_count == 1) {
      bound.tensor.dtype = asked.operands[step.first_operand].dtype;
      bound.tensor.layout = asked.output_layout;
      bound.tensor.channels = step.in.channels;
      bound.tensor.space = step.in.space;
    }
    return bound;
  }

 private:
  template <class U>
  U* at(Place place) const {
    return reinterpret_cast<U*>(workspace + place);
  }
  const T* converted(std::size_t operand, Place to) const {
    const Operand& of = program.asked->operands[operand];
    visit_dtype(of.dtype, [&]<class E>(E*) {
      const auto* from = static_cast<const E*>(call.operands[operand]);
      std::transform(from, from + of.count, at<T>(to), [](E x) { return to_real<T>(x); });
    });
    return at<T>(to);
  }
};

}  // namespace convt::core::cpu
