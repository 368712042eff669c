// SPDX-License-Identifier: Apache-2.0
// Any op of the vocabulary, and what can be asked of it whatever its family.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "epilogue/families.hpp"
#include "epilogue/shape.hpp"

#define CONVT_OPS ops
#include "convt_ops_includes.hpp"  // made by cmake/ops.cmake: shared.hpp, then one header per line of ops.def
#undef CONVT_OPS

namespace convt::core {

namespace detail {
struct End;  // closes the list below, where every line ends in a comma
template <class... Ops>
struct DropEnd;
template <class... Before, class... Ops>
struct DropEnd<std::variant<Before...>, End, Ops...> {
  using type = std::variant<Before...>;
};
template <class... Before, class Op, class... Ops>
struct DropEnd<std::variant<Before...>, Op, Ops...> : DropEnd<std::variant<Before..., Op>, Ops...> {};
}  // namespace detail

#define CONVT_OP(name, Type) ops::Type,
using Op = detail::DropEnd<std::variant<>,
#include "epilogue/ops.def"
                           detail::End>::type;
#undef CONVT_OP

#define CONVT_OP(name, Type)                                                                  \
  static_assert(!std::derived_from<ops::Type, Combine> || SaysWhetherLinear<ops::Type>, #name \
                ": an op derived from Combine must say `static constexpr bool linear`, true where it is a*x + b");
#include "epilogue/ops.def"
#undef CONVT_OP

#define CONVT_OP(name, Type) #name,
inline constexpr std::string_view op_names[] = {
#include "epilogue/ops.def"
};
#undef CONVT_OP

using Chain = std::vector<Op>;

inline std::string_view name_of(const Op& op) { return op_names[op.index()]; }

// A tensor that an op takes beside the running value.
struct OperandSpec {
  enum Kind { per_channel, per_trailing, whole };
  std::string name;  // "layer_norm.weight"
  Kind kind = per_channel;
  std::vector<std::int64_t> sizes;
  OperandType type = OperandType::same;
};

// A value that ops may use by its name; the convolution's own result is "conv".
struct KeptShape {
  Name name;
  Shape shape;
};
inline constexpr Name conv_name{"conv"};

// What the op makes of a value of shape `in`; throws Error where it cannot take it. `kept`: all that has a name so far.
Shape infer(const Op& op, const Shape& in, std::span<const KeptShape> kept);

// The operands it takes, for a legal `in`.
std::vector<OperandSpec> operands_of(const Op& op, const Shape& in);

// A pool's windows with every default filled in, for a legal `in`.
struct Windows {
  Axes size, stride, padding;
};
Windows windows_of(const Pool& pool, const Shape& in);

// The op uses the convolution's own result, which must therefore be kept until then.
bool uses_conv(const Op& op);
// The name under which it keeps the running value, or uses one that was kept; nullptr where it does not.
const Name* kept_name(const Op& op);
const Name* used_name(const Op& op);
// From a kept value to the convolution's own result.
void use_conv(Op& op);

}  // namespace convt::core
