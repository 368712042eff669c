// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Logsigmoid : Pointwise {
  static constexpr std::string_view about = "log(1 / (1 + exp(-x)))";
  static constexpr std::string_view torch = "F.logsigmoid(x)";
  static constexpr std::string_view examples = "logsigmoid";
  static constexpr auto fields() { return std::tuple(); }

  template <class V>
  CONVT_FN V apply(V x) const {
    const V size = maximum(x, V(0) - x);
    return minimum(x, V(0)) - log1p(exp(V(0) - size));
  }
};

}  // namespace convt::core::CONVT_OPS
