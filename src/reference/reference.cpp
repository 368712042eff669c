// SPDX-License-Identifier: Apache-2.0
// One image at a time: read as doubles, convolve, run the chain, round once.
#include "reference/reference.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <optional>

#include "base/checked.hpp"
#include "base/dtype.hpp"
#include "plan/work.hpp"
#include "reference/chain.hpp"

namespace convt::core {
namespace {

// Workspace for one image, in doubles: what each part holds and where it begins.
struct Parts {
  std::int64_t input = 0, kernel = 0, even = 0, odd = 0, conv = 0, total = 0;
  std::vector<std::int64_t> kept;  // by stage; of those that keep a value
};

Shape one_image(Shape shape) {
  shape.batch = 1;
  return shape;
}

// Nothing when the parts pass what memory can be.
std::optional<Parts> lay_out(const Descriptor& d) {
  // The convolution's result is value 0, and stage i makes value i + 1; neighbours need different places.
  std::array<std::int64_t, 2> largest{one_image(d.conv).count(), 0};
  for (std::size_t i = 0; i < d.stages.size(); ++i)
    largest[(i + 1) % 2] = std::max(largest[(i + 1) % 2], one_image(d.stages[i].out).count());
  Parts parts;
  bool overflow = false;
  const auto place = [&](std::int64_t count) {
    const std::int64_t begin = parts.total;
    overflow |= __builtin_add_overflow(parts.total, count, &parts.total);
    return begin;
  };
  parts.input = place(one_image(d.input).count());
  parts.kernel = place(d.kernel_count);
  parts.even = place(largest[0]);
  parts.odd = place(largest[1]);
  parts.conv = place(d.keeps_conv() ? one_image(d.conv).count() : 0);
  for (const Stage& stage : d.stages)
    parts.kept.push_back(kept_name(stage.op) == nullptr ? -1 : place(one_image(stage.out).count()));
  if (overflow || !checked_product(std::array<std::int64_t, 2>{parts.total, sizeof(double)})) return std::nullopt;
  return parts;
}

void read(const void* tensor, convt_dtype dtype, std::int64_t offset, std::int64_t count, double* to) {
  visit_dtype(dtype, [&]<class T>(T*) {
    const T* from = static_cast<const T*>(tensor) + offset;
    for (std::int64_t i = 0; i < count; ++i) to[i] = to_double(from[i]);
  });
}

// To [channel][pixel].
void read_image(const Descriptor& d, const void* input, std::int64_t image, double* to) {
  const std::int64_t pixels = volume(d.input.space), channels = d.input.channels;
  const Pitches step = d.input_pitches();
  visit_dtype(d.dtype, [&]<class T>(T*) {
    const T* from = static_cast<const T*>(input) + image * step.image;
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t p = 0; p < pixels; ++p) to[c * pixels + p] = to_double(from[c * step.channel + p * step.pixel]);
  });
}

// The only rounding.
void write_image(const Descriptor& d, const double* from, std::int64_t image, void* output) {
  const std::int64_t pixels = volume(d.output.space), channels = d.output.channels;
  const Pitches step = d.output_pitches();
  visit_dtype(d.dtype, [&]<class T>(T*) {
    T* to = static_cast<T*>(output) + image * step.image;
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t p = 0; p < pixels; ++p)
        to[c * step.channel + p * step.pixel] = from_double<T>(from[c * pixels + p]);
  });
}

// Inputs [begin, end) that a tap sends to outputs inside the image; input i goes to i*stride + offset.
struct Reach {
  std::int64_t begin, end, offset;
};
Reach reach(const Convolution& c, std::size_t axis, std::int64_t tap) {
  const std::int64_t offset = tap * c.dilation[axis] - c.padding[axis], stride = c.stride[axis];
  const std::int64_t begin = offset < 0 ? (-offset - 1) / stride + 1 : 0;
  const std::int64_t room = c.output[axis] - offset;  // outputs from the offset to the end of the image
  const std::int64_t end = room > 0 ? std::min((room - 1) / stride + 1, c.input[axis]) : 0;
  return {begin, end, offset};
}

// The definition: every input, times every tap, added where it falls.
void convolve(const Convolution& c, const double* input, const double* kernel, double* output) {
  const std::int64_t in_pixels = volume(c.input), out_pixels = volume(c.output), taps = volume(c.kernel);
  const std::int64_t ins = c.in_channels / c.groups, outs = c.out_channels / c.groups;
  std::fill_n(output, c.out_channels * out_pixels, 0.0);
  for (std::int64_t oc = 0; oc < c.out_channels; ++oc)
    for (std::int64_t i = 0; i < ins; ++i) {
      const std::int64_t ic = oc / outs * ins + i;
      const double* x = input + ic * in_pixels;
      const double* w = kernel + (ic * outs + oc % outs) * taps;
      double* y = output + oc * out_pixels;
      for (std::int64_t kd = 0; kd < c.kernel[0]; ++kd)
        for (std::int64_t kh = 0; kh < c.kernel[1]; ++kh)
          for (std::int64_t kw = 0; kw < c.kernel[2]; ++kw) {
            const double weight = *w++;
            const Reach d = reach(c, 0, kd), h = reach(c, 1, kh), v = reach(c, 2, kw);
            for (std::int64_t id = d.begin; id < d.end; ++id)
              for (std::int64_t ih = h.begin; ih < h.end; ++ih) {
                const std::int64_t od = id * c.stride[0] + d.offset, oh = ih * c.stride[1] + h.offset;
                const double* from = x + (id * c.input[1] + ih) * c.input[2];
                double* to = y + (od * c.output[1] + oh) * c.output[2];
                for (std::int64_t iw = v.begin; iw < v.end; ++iw) to[iw * c.stride[2] + v.offset] += weight * from[iw];
              }
          }
    }
}

class ReferenceExecutable : public Executable {
 public:
  ReferenceExecutable(std::shared_ptr<const Descriptor> descriptor, const Parts& parts)
      : descriptor_(std::move(descriptor)), parts_(parts) {}

  void pack_kernel(const void* kernel, void*) override {
    std::vector<double> packed(static_cast<std::size_t>(descriptor_->kernel_count));
    read(kernel, descriptor_->dtype, 0, descriptor_->kernel_count, packed.data());
    packed_ = std::move(packed);
  }

  void execute(const Call& call) const override {
    const Descriptor& d = *descriptor_;
    auto* const workspace = static_cast<double*>(call.workspace);
    const double* kernel = packed_.data();
    if (packed_.empty()) {
      read(call.kernel, d.dtype, 0, d.kernel_count, workspace + parts_.kernel);
      kernel = workspace + parts_.kernel;
    }
    for (std::int64_t image = 0; image < d.input.batch; ++image) {
      double* const input = workspace + parts_.input;
      double* const conv = workspace + parts_.conv;
      double* value = workspace + parts_.even;
      double* next = workspace + parts_.odd;
      read_image(d, call.input, image, input);
      for (const Stage& stage : d.prologue) {  // in place: each of its ops sees one element at a time
        const OperandViews views = operands(stage, call, image);
        run_stage(stage, {input, nullptr, views, input});
      }
      convolve(d.convolution, input, kernel, value);
      if (d.keeps_conv()) std::copy_n(value, one_image(d.conv).count(), conv);
      for (std::size_t i = 0; i < d.stages.size(); ++i) {
        const Stage& stage = d.stages[i];
        const OperandViews views = operands(stage, call, image);
        Image now{value, conv, views, next};
        if (const Name* name = used_name(stage.op)) {
          const std::size_t from = d.kept_at(*name);
          now.other = workspace + parts_.kept[from];
          now.other_shape = d.stages[from].out;
        }
        run_stage(stage, now);
        std::swap(value, next);
        if (parts_.kept[i] >= 0) std::copy_n(value, one_image(stage.out).count(), workspace + parts_.kept[i]);
      }
      write_image(d, value, image, call.output);
    }
  }

 private:
  // Nothing is allocated once the output is being written: no failure can leave it half done.
  static constexpr std::size_t most_operands = 4;  // a batch norm's
  using OperandViews = std::array<OperandView, most_operands>;

  OperandViews operands(const Stage& stage, const Call& call, std::int64_t image) const {
    const Descriptor& d = *descriptor_;
    OperandViews views;
    assert(stage.operand_count <= most_operands);
    for (std::size_t i = stage.first_operand; i < stage.first_operand + stage.operand_count; ++i) {
      const Operand& operand = d.operands[i];
      const Pitches step = pitches_of(d.output_layout, stage.in, stage.in.channels);
      const auto* data = static_cast<const char*>(call.operands[i]);
      if (operand.spec.kind == OperandSpec::whole)
        data += image * one_image(stage.in).count() * static_cast<std::int64_t>(size_of(operand.dtype));
      views[i - stage.first_operand] = {data, operand.dtype, step.channel, step.pixel};
    }
    return views;
  }

  std::shared_ptr<const Descriptor> descriptor_;
  Parts parts_;
  std::vector<double> packed_;
};

class ReferenceEngine final : public Engine {
 public:
  std::string_view name() const override { return "reference"; }

  std::vector<Candidate> candidates(const Request& request) const override {
    Candidate candidate;
    candidate.name = name();
    const auto parts = lay_out(*request.program->asked);
    if (request.location.device != CONVT_DEVICE_CPU)
      candidate.rejection = "runs on the CPU only";
    else if (!parts)
      candidate.rejection = "one image as doubles passes 2^63 bytes";
    if (!candidate.rejection.empty()) return {candidate};
    candidate.workspace = static_cast<std::size_t>(parts->total) * sizeof(double);
    // Measured on one 2.8 GHz core: 1 to 2 ns per product, whatever the shape.
    candidate.seconds = 1.5e-9 * scattered_products(*request.program->asked);
    candidate.build = [descriptor = request.program->asked, parts = *parts] {
      return std::make_unique<ReferenceExecutable>(descriptor, parts);
    };
    return {candidate};
  }
};

}  // namespace

const Engine& reference_engine() {
  static constinit const ReferenceEngine engine;
  return engine;
}

}  // namespace convt::core
