// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Mul : Combine {
  static constexpr bool linear = true;
  static constexpr std::string_view about =
      "multiplies by a number, one value per channel, a whole tensor, the convolution's own result, or a kept value";
  static constexpr std::string_view torch = "x * other";
  static constexpr std::string_view examples =
      "mul(0.75)\n"
      "mul(channel)\n"
      "mul(tensor)\n"
      "mul(conv)\n"
      "mul(channel, dtype=f32)\n"
      "mul(tensor, dtype=f32)";
  static constexpr auto fields() {
    return std::tuple(field_of<Mul>("other", &Mul::term, required), field_of<Mul>("dtype", &Mul::dtype));
  }

  template <class V>
  CONVT_FN V apply(V x, V other) const {
    return x * other;
  }
};

}  // namespace convt::core::CONVT_OPS
