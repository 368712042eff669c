// SPDX-License-Identifier: Apache-2.0
// Shape rules and operands of each family.
#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "epilogue/op.hpp"

namespace convt::core {
namespace {

std::string member(std::string_view op, std::string_view name) { return formatted("{}.{}", op, name); }

void check_extents(const std::string& argument, const Extents& extents, int dims, std::int64_t least) {
  if (extents.rank > 1 && extents.rank != dims)
    reject(argument, "takes one size{} (got {})", dims == 1 ? "" : formatted(" or {}, one per spatial axis", dims),
           extents.rank);
  for (int i = 0; i < extents.rank; ++i) {
    const std::int64_t size = extents.sizes[static_cast<std::size_t>(i)];
    if (size < least) reject(argument, "must be at least {} on every axis (got {})", least, size);
  }
}

// PyTorch's rule: with ceil, the last window must still start inside the image or its left padding.
std::int64_t pooled(std::int64_t in, std::int64_t size, std::int64_t stride, std::int64_t padding, bool ceil) {
  const std::int64_t room = in - size + 2 * padding;  // no overflow: padding <= size/2
  if (room < 0 && !ceil) return 0;
  const bool partial = ceil && room % stride != 0;
  std::int64_t out = (room >= 0 ? room / stride + partial : -((-room) / stride)) + 1;
  if (ceil && (out - 1) * stride >= in + padding) --out;
  return std::max<std::int64_t>(out, 0);
}

Shape rule(std::string_view name, const Pool& pool, const Shape& in) {
  check_extents(member(name, "size"), pool.size, in.dims, 1);
  check_extents(member(name, "stride"), pool.stride, in.dims, 1);
  check_extents(member(name, "padding"), pool.padding, in.dims, 0);
  const auto [size, stride, padding] = windows_of(pool, in);
  Shape out = in;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const char letter = axis_letters[axis];
    if (padding[axis] > size[axis] / 2)
      reject(member(name, "padding"), "must be at most half the size on axis {} (got padding {}, size {})", letter,
             padding[axis], size[axis]);
    out.space[axis] = pooled(in.space[axis], size[axis], stride[axis], padding[axis], pool.ceil);
    if (out.space[axis] < 1)
      reject(member(name, "size"), "leaves an empty output on axis {} (input {}, size {}, stride {}, padding {})",
             letter, in.space[axis], size[axis], stride[axis], padding[axis]);
  }
  return out;
}

Shape rule(std::string_view name, const Region& region, const Shape& in) {
  if (region.kind == Region::groups && (region.parameter < 1 || in.channels % region.parameter != 0))
    reject(member(name, "groups"), "must divide the {} channels (got {})", in.channels, region.parameter);
  if (region.kind == Region::trailing && (region.parameter < 1 || region.parameter > in.dims + 1))
    reject(member(name, "trailing"), "must be from 1 to {}, the axes but the batch (got {})", in.dims + 1,
           region.parameter);
  return in;
}

void check_axes(std::string_view name, AxisSet axes, const Shape& in) {
  for (std::size_t axis = 0; axis + static_cast<std::size_t>(in.dims) < 3; ++axis)
    if (axes.space(axis))
      reject(member(name, "axes"), "must be some of c{} (got {})",
             std::string_view("dhw").substr(3 - static_cast<std::size_t>(in.dims)), axis_letters[axis]);
}

// Axis by axis equal, or one of both 1.
Shape broadcast(std::string_view name, const Shape& in, const KeptShape& kept) {
  const auto join = [&](std::int64_t a, std::int64_t b) {
    if (a != b && a != 1 && b != 1)
      reject(member(name, "other"), "{} must have the running value's sizes, or 1 where they differ (got {}, and {})",
             kept.name.view(), joined(kept.shape.sizes(), "x"), joined(in.sizes(), "x"));
    return std::max(a, b);
  };
  Shape out = in;
  out.channels = join(in.channels, kept.shape.channels);
  for (std::size_t a = 0; a < 3; ++a) out.space[a] = join(in.space[a], kept.shape.space[a]);
  return out;
}

Shape rule(std::string_view name, const Term& term, const Shape& in, std::span<const KeptShape> kept) {
  if (term.kind == Term::conv) {
    const Shape& conv = kept.front().shape;
    if (!(in == conv))
      reject(member(name, "other"), "conv needs a value of the convolution's own shape (got {} where it is {})",
             joined(in.sizes(), "x"), joined(conv.sizes(), "x"));
  }
  if (term.kind != Term::kept) return in;
  const auto found =
      std::find_if(kept.begin(), kept.end(), [&](const KeptShape& one) { return one.name == term.name; });
  if (found == kept.end())
    reject(member(name, "other"), "must be a number, channel, tensor, conv, or a value that was kept before (got '{}')",
           term.name.view());
  return broadcast(name, in, *found);
}

std::vector<std::int64_t> trailing_sizes(const Shape& in, std::int64_t axes) {
  const auto all = in.sizes();
  return {all.end() - axes, all.end()};
}

template <class T>
concept Choosy = requires(const T& op) {
  op.complaint();
};

}  // namespace

Windows windows_of(const Pool& pool, const Shape& in) {
  Windows windows;
  windows.size = pool.size.rank == 0 ? in.space : resolve(pool.size, in.dims, 1);
  windows.stride = pool.stride.rank == 0 ? windows.size : resolve(pool.stride, in.dims, 1);
  windows.padding = resolve(pool.padding, in.dims, 0);
  return windows;
}

Shape infer(const Op& any, const Shape& in, std::span<const KeptShape> kept) {
  const std::string_view name = name_of(any);
  return std::visit(
      [&]<class T>(const T& op) -> Shape {
        if constexpr (Choosy<T>)
          if (const std::string_view rule = op.complaint(); !rule.empty()) reject(name, "{}", rule);
        if constexpr (std::derived_from<T, Pool>) {
          return rule(name, op, in);
        } else if constexpr (std::derived_from<T, Normalise>) {
          if (op.region().kind == Region::axes) check_axes(name, {static_cast<unsigned>(op.region().parameter)}, in);
          return rule(name, op.region(), in);
        } else if constexpr (std::derived_from<T, Reduce>) {
          check_axes(name, op.axes, in);
          Shape out = in;
          if (op.axes.channels()) out.channels = 1;
          for (std::size_t a = 0; a < 3; ++a)
            if (op.axes.space(a)) out.space[a] = 1;
          return out;
        } else if constexpr (std::derived_from<T, Combine>) {
          return rule(name, op.term, in, kept);
        } else {
          if constexpr (std::derived_from<T, Keeps>)
            for (const KeptShape& one : kept)
              if (one.name == op.name)
                reject(member(name, "name"), "'{}' is the name of another value", op.name.view());
          return in;
        }
      },
      any);
}

std::vector<OperandSpec> operands_of(const Op& any, const Shape& in) {
  const std::string_view name = name_of(any);
  std::vector<OperandSpec> specs;
  std::visit(
      [&]<class T>(const T& op) {
        if constexpr (std::derived_from<T, Combine>) {
          if (op.term.kind == Term::channel)
            specs.push_back({member(name, "other"), OperandSpec::per_channel, {in.channels}, op.dtype});
          if (op.term.kind == Term::tensor)
            specs.push_back({member(name, "other"), OperandSpec::whole, in.sizes(), op.dtype});
        }
        if constexpr (std::derived_from<T, Normalise>) {
          const Region region = op.region();
          if (region.kind == Region::given)
            for (const char* statistic : {"mean", "var"})
              specs.push_back({member(name, statistic), OperandSpec::per_channel, {in.channels}, op.dtype});
          const bool trailing = region.kind == Region::trailing;
          if (op.affine)
            for (const char* part : {"weight", "bias"})
              specs.push_back({member(name, part), trailing ? OperandSpec::per_trailing : OperandSpec::per_channel,
                               trailing ? trailing_sizes(in, region.parameter) : std::vector{in.channels}, op.dtype});
        }
      },
      any);
  return specs;
}

const Name* kept_name(const Op& any) {
  return std::visit(
      []<class T>(const T& op) -> const Name* {
        if constexpr (std::derived_from<T, Keeps>) return &op.name;
        return nullptr;
      },
      any);
}

const Name* used_name(const Op& any) {
  return std::visit(
      []<class T>(const T& op) -> const Name* {
        if constexpr (std::derived_from<T, Combine>)
          if (op.term.kind == Term::kept) return &op.term.name;
        return nullptr;
      },
      any);
}

void use_conv(Op& any) {
  std::visit(
      []<class T>(T& op) {
        if constexpr (std::derived_from<T, Combine>) op.term = {Term::conv, 0, {}};
      },
      any);
}

bool uses_conv(const Op& any) {
  return std::visit(
      []<class T>(const T& op) {
        if constexpr (std::derived_from<T, Combine>)
          return op.term.kind == Term::conv;
        else
          return false;
      },
      any);
}

}  // namespace convt::core
