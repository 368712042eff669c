// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Gelu : Pointwise {
  bool by_tanh = false;

  static constexpr bool unrolled = true;
  static constexpr std::string_view about = "x * Phi(x), by erf, or with the flag by its tanh approximation";
  static constexpr std::string_view torch = "F.gelu(x, approximate='tanh' if tanh else 'none')";
  static constexpr std::string_view examples = "gelu\ngelu(tanh)";
  static constexpr auto fields() { return std::tuple(field_of<Gelu>("tanh", &Gelu::by_tanh)); }

  template <class V>
  CONVT_FN V apply(V x) const {
    if (by_tanh) {
      // sqrt(2/pi), and the cubic coefficient of the approximation's definition.
      const V inner = V(0.79788456080286535588) * (x + V(0.044715) * x * x * x);
      return x / (V(1) + exp(V(-2) * inner));  // (1 + tanh(u)) / 2 is 1 / (1 + exp(-2u))
    }
    return V(0.5) * x * (V(1) + erf(x * V(0.70710678118654752440)));  // 1/sqrt(2)
  }
};

}  // namespace convt::core::CONVT_OPS
