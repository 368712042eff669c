// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Silu : Pointwise {
  static constexpr bool unrolled = true;
  static constexpr std::string_view about = "x * sigmoid(x)";
  static constexpr std::string_view torch = "F.silu(x)";
  static constexpr std::string_view examples = "silu";
  static constexpr auto fields() { return std::tuple(); }

  template <class V>
  CONVT_FN V apply(V x) const {
    return x / (V(1) + exp(V(0) - x));
  }
};

}  // namespace convt::core::CONVT_OPS
