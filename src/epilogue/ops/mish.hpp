// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Mish : Pointwise {
  static constexpr std::string_view about = "x * tanh(log(1 + exp(x)))";
  static constexpr std::string_view torch = "F.mish(x)";
  static constexpr std::string_view examples = "mish";
  static constexpr auto fields() { return std::tuple(); }

  template <class V>
  CONVT_FN V apply(V x) const {
    return x * tanh(log1p(exp(x)));
  }
};

}  // namespace convt::core::CONVT_OPS
