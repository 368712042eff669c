// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Add : Combine {
  static constexpr bool linear = true;
  static constexpr std::string_view about =
      "adds a number, one value per channel, a whole tensor, the convolution's own result, or a kept value";
  static constexpr std::string_view torch = "x + other";
  static constexpr std::string_view examples =
      "add(0.75)\n"
      "add(channel)\n"
      "add(tensor)\n"
      "add(conv)\n"
      "add(channel, dtype=f32)\n"
      "add(tensor, dtype=f32)";
  static constexpr auto fields() {
    return std::tuple(field_of<Add>("other", &Add::term, required), field_of<Add>("dtype", &Add::dtype));
  }

  template <class V>
  CONVT_FN V apply(V x, V other) const {
    return x + other;
  }
};

}  // namespace convt::core::CONVT_OPS
