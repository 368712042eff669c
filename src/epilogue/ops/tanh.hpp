// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Tanh : Pointwise {
  static constexpr bool unrolled = true;
  static constexpr std::string_view about = "hyperbolic tangent";
  static constexpr std::string_view torch = "torch.tanh(x)";
  static constexpr std::string_view examples = "tanh";
  static constexpr auto fields() { return std::tuple(); }

  template <class V>
  CONVT_FN V apply(V x) const {
    return tanh(x);
  }
};

}  // namespace convt::core::CONVT_OPS
