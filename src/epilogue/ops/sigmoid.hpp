// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Sigmoid : Pointwise {
  static constexpr bool unrolled = true;
  static constexpr std::string_view about = "1 / (1 + exp(-x))";
  static constexpr std::string_view torch = "torch.sigmoid(x)";
  static constexpr std::string_view examples = "sigmoid";
  static constexpr auto fields() { return std::tuple(); }

  template <class V>
  CONVT_FN V apply(V x) const {
    return V(1) / (V(1) + exp(V(0) - x));
  }
};

}  // namespace convt::core::CONVT_OPS
