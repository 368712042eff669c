// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Pow : Pointwise {
  double exponent = 1;

  static constexpr std::string_view about = "x to the power of a number; NaN below 0 where the number is not whole";
  static constexpr std::string_view torch = "torch.pow(x, exponent)";
  static constexpr std::string_view examples = "pow(2)\npow(3)\npow(-1)\npow(0.5)\npow(1.75)\npow(-2.5)";
  static constexpr auto fields() { return std::tuple(field_of<Pow>("exponent", &Pow::exponent, required)); }
  constexpr std::string_view complaint() const {
    return exponent - exponent == 0 ? "" : "takes an exponent that is finite";
  }

  // The error grows with |exponent * log(x)|; exponents that people write have none to speak of.
  template <class V>
  CONVT_FN V apply(V x) const {
    if (exponent == 0) return V(1);
    if (exponent == 1) return x;
    if (exponent == 2) return x * x;
    if (exponent == 3) return x * x * x;
    if (exponent == -1) return V(1) / x;
    if (exponent == 0.5) return sqrt(x);
    if (exponent == -0.5) return V(1) / sqrt(x);
    const V size = maximum(x, V(0) - x);
    const V root = exp(V(exponent) * log(size));
    const double half = exponent * 0.5;
    if (half == std::floor(half)) return root;
    if (exponent == std::floor(exponent)) return select(x < V(0), V(0) - root, root);
    // Of a negative number there is none; infinities of either sign have the same limit.
    return select(x < V(0), select(is_infinite(x), root, V(0) / V(0)), root);
  }
};

}  // namespace convt::core::CONVT_OPS
