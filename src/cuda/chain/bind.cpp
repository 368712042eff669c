// SPDX-License-Identifier: Apache-2.0
#include "cuda/chain/bind.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "base/dtype.hpp"
#include "cuda/chain/launchers.hpp"
#include "plan/algebra.hpp"

namespace convt::core::cuda {
namespace {

int to_int(std::int64_t value) {
  assert(value >= 0 && value < (std::int64_t{1} << 31));
  return static_cast<int>(value);
}

template <int size>
int put_op(const Op& any, OpBytes<size>& bytes) {
  std::visit(
      [&]<class T>(const T& op) {
        static_assert(std::is_trivially_copyable_v<T>);
        static_assert(sizeof(T) <=
                      (std::derived_from<T, Pool> ? sizeof(PoolParams::params) : sizeof(ChainStep::params)));
        if constexpr (sizeof(T) <= size) std::memcpy(bytes.bytes, &op, sizeof op);
        assert(sizeof(T) <= size);
      },
      any);
  return static_cast<int>(any.index());
}

const void* advance(const void* data, std::int64_t elements, convt_dtype dtype) {
  return static_cast<const char*>(data) + elements * static_cast<std::int64_t>(size_of(dtype));
}

// Row-major over axes [first, last) of space; 0 for the others.
Strides space_strides(const Axes& space, int first, int last) {
  std::int64_t steps[3] = {}, step = 1;
  for (int a = last - 1; a >= first; --a) {
    steps[a] = step;
    step *= space[static_cast<std::size_t>(a)];
  }
  return {0, 0, steps[0], steps[1], steps[2]};
}

Strides region_strides(const Step& step, const Regions& regions) {
  Strides result = space_strides(step.in.space, 0, regions.axes);
  result.n = regions.count;
  result.c = regions.outer;
  return result;
}

void bind_space(const Program& program, const Step& step, const Call& call, const StepData& data, const Slab& slab,
                ChainStep& to) {
  const Regions regions = regions_of(step);
  const convt_dtype real = program.asked->dtype == CONVT_F64 ? CONVT_F64 : CONVT_F32;
  to.kind = ChainStep::map_space;
  to.step = region_strides(step, regions);
  const std::int64_t from = offset_of(to.step, slab, data.first_image);
  to.data[0] = advance(data.centre, from, real);
  to.data[1] = advance(data.scale, from, real);
  to.channels_each = to_int(regions.channels_each);
  if (step.operand_count != 2) return;
  to.weight_step = space_strides(step.in.space, regions.axes, 3);
  if (regions.channels_each > 1) to.weight_step.c = volume(step.in.space);
  to.dtype = program.asked->operands[step.first_operand].dtype;
  for (std::size_t i = 0; i < 2; ++i)
    to.weight[i] =
        advance(call.operands[step.first_operand + i], offset_of(to.weight_step, slab, slab.images.begin), to.dtype);
}

void bind_combine(const Program& program, const Step& step, const Call& call, const StepData& data, const Slab& slab,
                  ChainStep& to) {
  const Descriptor& asked = *program.asked;
  to.kind = ChainStep::combine;
  if (takes_number(step)) return;
  if (const Name* name = used_name(step)) {
    if (data.kept == nullptr) return;
    const Shape& kept = program.steps[program.kept_at(*name)].out;
    to.dtype = data.kept_type;
    to.step = broadcast(dense_strides(kept.channels, data.kept_box), kept, step.out);
    Slab inside = slab;
    for (std::size_t a = 0; a < 3; ++a) inside.box.origin[a] -= data.kept_box.origin[a];
    to.data[0] = advance(data.kept, offset_of(to.step, inside, slab.images.begin), to.dtype);
    return;
  }
  if (uses_conv(step)) {
    to.dtype = asked.dtype == CONVT_F64 ? CONVT_F64 : CONVT_F32;
    to.step = dense_strides(step.in.channels, data.conv_box);
    Slab inside = slab;
    for (std::size_t a = 0; a < 3; ++a) inside.box.origin[a] -= data.conv_box.origin[a];
    to.data[0] = advance(data.conv, offset_of(to.step, inside, slab.images.begin), to.dtype);
    return;
  }
  to.dtype = asked.operands[step.first_operand].dtype;
  to.step = takes_channel_values(step) ? Strides{.c = 1} : strides_of(asked.output_layout, step.in);
  to.data[0] = advance(call.operands[step.first_operand], offset_of(to.step, slab), to.dtype);
}

AffineParams::Part bind_part(const Program& program, const Affine::Part& part, const Call& call) {
  AffineParams::Part to;
  const Stage& stage = part.stage;
  if (part.role == Affine::Part::reduction) {
    to.role = AffineParams::Part::reduction;
    to.factor = *linear_reduction(stage.op, stage.in.channels);
    return to;
  }
  std::visit(
      [&]<class T>(const T& op) {
        if constexpr (std::derived_from<T, Normalise>)
          to.role = op.region().kind == Region::given ? AffineParams::Part::norm_given : AffineParams::Part::norm;
      },
      stage.op);
  to.op = put_op(stage.op, to.params);
  to.operand_count = static_cast<int>(stage.operand_count);
  for (std::size_t i = 0; i < stage.operand_count; ++i) {
    to.operands[i] = call.operands[stage.first_operand + i];
    to.dtypes[i] = program.asked->operands[stage.first_operand + i].dtype;
  }
  return to;
}

}  // namespace

Strides strides_of(convt_layout layout, const Shape& shape, std::int64_t within) {
  const Axes& space = shape.space;
  const auto [image, channel, pixel] = pitches_of(layout, shape, within == 0 ? shape.channels : within);
  return {image, channel, space[1] * space[2] * pixel, space[2] * pixel, pixel};
}

Strides dense_strides(std::int64_t channels, const Box& box) {
  return {channels * box.pixels(), box.pixels(), box.size[1] * box.size[2], box.size[2], 1};
}

Strides broadcast(Strides step, const Shape& from, const Shape& to) {
  if (from.channels != to.channels) step.c = 0;
  if (from.space[0] != to.space[0]) step.d = 0;
  if (from.space[1] != to.space[1]) step.h = 0;
  if (from.space[2] != to.space[2]) step.w = 0;
  return step;
}

std::int64_t offset_of(const Strides& step, const Slab& slab, std::int64_t first_image) {
  const Axes& origin = slab.box.origin;
  return (slab.images.begin - first_image) * step.n + origin[0] * step.d + origin[1] * step.h + origin[2] * step.w;
}

View view_of(void* data, convt_dtype dtype, const Strides& step, const Slab& slab, std::int64_t first_image) {
  return {const_cast<void*>(advance(data, offset_of(step, slab, first_image), dtype)), step, dtype};
}

bool mixes_channels(const Step& step) {
  const Op* const any = std::get_if<Op>(&step.what);
  if (any == nullptr) return false;
  return std::visit(
      []<class T>(const T& op) {
        if constexpr (std::derived_from<T, Normalise>) return op.region().kind == Region::channels;
        return std::derived_from<T, Reduce>;
      },
      *any);
}

ChainStep bind_step(const Program& program, std::size_t number, const Call& call, const StepData& data,
                    const Slab& slab) {
  const Step& step = program.steps[number];
  ChainStep to;
  const Op* const any = std::get_if<Op>(&step.what);
  if (any == nullptr) {
    to.kind = ChainStep::affine;
    to.data[0] = data.a;
    to.data[1] = data.b;
    const Line line = planned(std::get<Affine>(step.what));
    static_assert(sizeof line <= sizeof to.params);
    std::memcpy(to.params.bytes, &line, sizeof line);
    return to;
  }
  to.op = put_op(*any, to.params);
  std::visit(
      [&]<class T>(const T&) {
        if constexpr (std::derived_from<T, Pointwise>) to.kind = ChainStep::pointwise;
        if constexpr (std::derived_from<T, Reduce>) to.kind = ChainStep::reduce_channels;
        // Only register programs have such a step. A later combine without data uses the value.
        if constexpr (std::derived_from<T, Keeps>) to.kind = ChainStep::pointwise;
        if constexpr (std::derived_from<T, Combine>) bind_combine(program, step, call, data, slab, to);
        if constexpr (std::derived_from<T, Normalise>) {
          if (needs_space(step))
            bind_space(program, step, call, data, slab, to);
          else
            to.kind = ChainStep::map_channels;
        }
      },
      *any);
  return to;
}

PoolParams bind_pool(const Step& step, const Box& in, const Box& out) {
  PoolParams to;
  to.op = put_op(std::get<Op>(step.what), to.params);
  std::visit(
      [&]<class T>(const T& op) {
        if constexpr (std::derived_from<T, Pool>) {
          to.whole_window = op.divides_by_whole_window();
          const Windows windows = windows_of(op, step.in);
          for (std::size_t a = 0; a < 3; ++a)
            to.axis[a] = {out.origin[a] * windows.stride[a] - windows.padding[a],
                          windows.stride[a],
                          windows.size[a],
                          step.in.space[a],
                          windows.padding[a],
                          in.origin[a]};
        }
      },
      std::get<Op>(step.what));
  return to;
}

std::int64_t region_count(const Step& step) { return needs_space(step) ? regions_of(step).count : step.in.channels; }

RegionParams bind_regions(const Step& step, const RegionSums& sums, const Slab& slab) {
  RegionParams to;
  to.op = put_op(std::get<Op>(step.what), to.params);
  to.values = sums.values;
  to.image_step = sums.image_step;
  to.images = to_int(slab.images.size());
  to.channels = to_int(step.in.channels);
  to.elements = slab.box.pixels();
  to.step = {step.in.channels, 1, 0, 0, 0};
  if (needs_space(step)) {
    const Regions regions = regions_of(step);
    to.step = region_strides(step, regions);
    to.channels = to_int(step.in.channels / regions.channels_each);
    to.elements *= regions.channels_each;
    for (int a = 0; a < regions.axes; ++a) {
      to.size[a] = to_int(slab.box.size[static_cast<std::size_t>(a)]);
      to.elements /= to.size[a];
    }
  }
  to.chunks = to_int((to.elements + RegionParams::chunk - 1) / RegionParams::chunk);
  to.partials = sums.partials;
  to.sums = static_cast<char*>(sums.sums) + offset_of(to.step, slab, sums.first_image) * sums.element;
  to.first = sums.first;
  return to;
}

std::int64_t partial_count(const Step& step, const Slab& slab) {
  const RegionParams p = bind_regions(step, {}, slab);
  return slab.images.size() * p.channels * p.size[0] * p.size[1] * p.size[2] * p.chunks;
}

FinishParams bind_finish(const Step& step, const void* sums, std::int64_t count) {
  FinishParams to;
  to.op = put_op(std::get<Op>(step.what), to.params);
  to.sums = sums;
  to.count = count;
  to.elements = static_cast<double>(volume(step.in.space));
  return to;
}

template <class T>
void evaluate_affine(const Program& program, const Affine& affine, const Call& call, const AffinePlaces& places) {
  AffineParams params;
  params.lines = places.lines;
  params.a = places.a;
  params.b = places.b;
  std::int64_t channels = affine.parts.front().stage.in.channels;
  for (std::size_t first = 0; first < affine.parts.size(); first += AffineParams::most_parts) {
    params.first = first == 0;
    params.channels = to_int(channels);
    params.count = static_cast<int>(std::min<std::size_t>(AffineParams::most_parts, affine.parts.size() - first));
    params.last = first + AffineParams::most_parts >= affine.parts.size();
    for (int i = 0; i < params.count; ++i) {
      const Affine::Part& part = affine.parts[first + static_cast<std::size_t>(i)];
      params.parts[i] = bind_part(program, part, call);
      if (part.role == Affine::Part::reduction) channels = 1;
    }
    launch_affine<T>(params, static_cast<cudaStream_t>(call.stream));
  }
}
template void evaluate_affine<float>(const Program&, const Affine&, const Call&, const AffinePlaces&);
template void evaluate_affine<double>(const Program&, const Affine&, const Call&, const AffinePlaces&);

}  // namespace convt::core::cuda
