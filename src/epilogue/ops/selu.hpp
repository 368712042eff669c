// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Selu : Pointwise {
  static constexpr std::string_view about =
      "scale*x if x > 0, else scale*alpha*(exp(x) - 1), with the constants that keep mean 0 and variance 1";
  static constexpr std::string_view torch = "F.selu(x)";
  static constexpr std::string_view examples = "selu";
  static constexpr auto fields() { return std::tuple(); }

  template <class V>
  CONVT_FN V apply(V x) const {
    const V scale = V(1.0507009873554804934), alpha = V(1.6732632423543772848);
    return scale * select(x > V(0), x, alpha * expm1(x));
  }
};

}  // namespace convt::core::CONVT_OPS
