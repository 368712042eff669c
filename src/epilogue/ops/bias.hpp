// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Bias : Combine {
  Bias() { term.kind = Term::channel; }

  static constexpr bool linear = true;
  static constexpr std::string_view about = "adds one value per channel";
  static constexpr std::string_view torch = "x + other";
  static constexpr std::string_view examples = "bias\nbias(dtype=f32)";
  static constexpr auto fields() { return std::tuple(field_of<Bias>("dtype", &Bias::dtype)); }

  template <class V>
  CONVT_FN V apply(V x, V other) const {
    return x + other;
  }
};

}  // namespace convt::core::CONVT_OPS
