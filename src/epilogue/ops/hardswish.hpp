// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Hardswish : Pointwise {
  static constexpr bool unrolled = true;
  static constexpr std::string_view about = "x * clamp(x + 3, 0, 6) / 6";
  static constexpr std::string_view torch = "F.hardswish(x)";
  static constexpr std::string_view examples = "hardswish";
  static constexpr auto fields() { return std::tuple(); }

  template <class V>
  CONVT_FN V apply(V x) const {
    return x * minimum(maximum(x + V(3), V(0)), V(6)) * V(1.0 / 6);
  }
};

}  // namespace convt::core::CONVT_OPS
