// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Sub : Combine {
  static constexpr bool linear = true;
  static constexpr std::string_view about =
      "subtracts a number, one value per channel, a whole tensor, the convolution's own result, or a kept value";
  static constexpr std::string_view torch = "x - other";
  static constexpr std::string_view examples =
      "sub(0.75)\n"
      "sub(channel)\n"
      "sub(tensor)\n"
      "sub(conv)\n"
      "sub(channel, dtype=f32)\n"
      "sub(tensor, dtype=f32)";
  static constexpr auto fields() {
    return std::tuple(field_of<Sub>("other", &Sub::term, required), field_of<Sub>("dtype", &Sub::dtype));
  }

  template <class V>
  CONVT_FN V apply(V x, V other) const {
    return x - other;
  }
};

}  // namespace convt::core::CONVT_OPS
