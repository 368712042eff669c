// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Mish : Pointwise {
  static constexpr bool unrolled = true;
  static constexpr std::string_view about = "x * tanh(log(1 + exp(x)))";
  static constexpr std::string_view torch = "F.mish(x)";
  static constexpr std::string_view examples = "mish";
  static constexpr auto fields() { return std::tuple(); }

  template <class V>
  CONVT_FN V apply(V x) const {
    // tanh(log(t)) is (t*t - 1) / (t*t + 1). From 20 on it is 1 in any type, and exp(x) must not overflow.
    const V e = exp(minimum(x, V(20))), square = e * (e + V(2));
    return x * (square / (square + V(2)));
  }
};

}  // namespace convt::core::CONVT_OPS
