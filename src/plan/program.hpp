// SPDX-License-Identifier: Apache-2.0
// What an engine runs: the problem after the planner's algebra. The asked descriptor stays as it was; its operands keep
// their places. Every rewrite is exact in real numbers, for finite operands.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "problem/call.hpp"
#include "problem/descriptor.hpp"

namespace convt::core {

// y = a[c]*x + b[c]: one run of per-channel linear ops, folded. Engines see no linear Combine with a scalar or
// per-channel term, and no norm with given statistics; a Combine that is not linear may have a number, or one value per
// channel.
struct Affine {
  struct Part {
    enum Role {
      op,               // all that the op does
      weight_and_bias,  // of a norm, whose statistics are a step of their own
      reduction,        // over channels, of a and b; that of the convolution's result has moved into the kernel
    };
    Role role;
    Stage stage;  // of the asked descriptor
  };
  std::vector<Part> parts;  // in order
};
std::string print(const Affine::Part& part);

struct Step {
  std::variant<Op, Affine> what;
  Shape in, out;
  std::size_t first_operand = 0;  // of an Op, as in Stage
  std::size_t operand_count = 0;
};
std::string print(const Step& step);
// A Combine whose other is one value per channel, its only operand.
bool takes_channel_values(const Step& step);
// A Combine whose other is a number; only one that is not linear is a step of its own.
bool takes_number(const Step& step);

// The name under which a step keeps the running value, or uses one that was kept; nullptr where it does not.
const Name* kept_name(const Step& step);
const Name* used_name(const Step& step);

// How the kernel that the program convolves with comes from the asked one; all of it known at planning.
struct KernelChange {
  bool sums_channels = false;   // summed over output channels to one; groups dissolve
  Axes window{1, 1, 1};         // summed over windows of the asked convolution's result, this large
  Axes window_stride{1, 1, 1};  // and this far apart
  double factor = 1;            // then times this
  bool any() const { return sums_channels || volume(window) != 1 || volume(window_stride) != 1; }
};

struct Program {
  std::shared_ptr<const Descriptor> asked;
  // As rewritten. Its output sizes are what counts: its output_padding fits them, be it negative or large.
  Convolution convolution;
  Shape conv;  // its result
  std::int64_t kernel_count = 0;
  KernelChange kernel_change;
  std::vector<Step> prologue;  // of the input, before the convolution: Affine, Pointwise, Combine with channel values
  std::vector<Step> steps;
  std::vector<std::string> notes;     // one line per rewrite, for explain
  std::vector<std::string> declined;  // one line per rewrite that was not made, with the reason

  bool keeps_conv() const;                      // some step uses the convolution's own result
  std::size_t kept_at(const Name& name) const;  // the step that keeps a value under this name
  // Planning knows that the prologue makes 0 of 0, which is what lies outside the image behind it.
  bool prologue_keeps_zero() const;
};

// What stays behind the convolution although it could move into the kernel, and why; without a reason explain has no
// line on it.
struct Unmoved {
  bool sums = false, windows = false;  // over channels, and over windows
  std::string why;
};
// Takes microseconds, whatever the sizes: no data are touched.
Program rewrite(std::shared_ptr<const Descriptor> asked, const Unmoved& unmoved = {});

// a and b of an Affine step for one call, one each per channel of step.out.
void evaluate(const Program& program, const Affine& affine, std::span<const void* const> operands, std::span<double> a,
              std::span<double> b);

// The program's kernel, (in_channels, out_channels/groups, taps), from the asked one: kernel_count elements, computed
// in double and rounded once. Only where kernel_change.any(). Its pairs of channels [first, end).
std::int64_t changed_pairs(const Program& program);  // all
void change_kernel(const Program& program, const void* asked_kernel, float* kernel, std::int64_t first,
                   std::int64_t end);
void change_kernel(const Program& program, const void* asked_kernel, double* kernel, std::int64_t first,
                   std::int64_t end);

}  // namespace convt::core
