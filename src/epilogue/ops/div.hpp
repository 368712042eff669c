// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Div : Combine {
  static constexpr bool linear = true;
  static constexpr std::string_view about =
      "divides by a number, one value per channel, a whole tensor, the convolution's own result, or a kept value";
  static constexpr std::string_view torch = "x / other";
  static constexpr std::string_view examples =
      "div(0.75)\n"
      "div(channel)\n"
      "div(tensor)\n"
      "div(conv)\n"
      "div(channel, dtype=f32)\n"
      "div(tensor, dtype=f32)";
  static constexpr auto fields() {
    return std::tuple(field_of<Div>("other", &Div::term, required), field_of<Div>("dtype", &Div::dtype));
  }

  template <class V>
  CONVT_FN V apply(V x, V other) const {
    return x / other;
  }
};

}  // namespace convt::core::CONVT_OPS
