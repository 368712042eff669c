// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Softplus : Pointwise {
  double beta = 1;
  double threshold = 20;

  static constexpr bool unrolled = true;
  static constexpr std::string_view about = "log(1 + exp(beta*x)) / beta, and x itself where beta*x > threshold";
  static constexpr std::string_view torch = "F.softplus(x, beta, threshold)";
  static constexpr std::string_view examples = "softplus\nsoftplus(beta=2, threshold=1.5)";
  static constexpr auto fields() {
    return std::tuple(field_of<Softplus>("beta", &Softplus::beta),
                      field_of<Softplus>("threshold", &Softplus::threshold));
  }

  template <class V>
  CONVT_FN V apply(V x) const {
    const V bx = V(beta) * x;
    return select(bx > V(threshold), x, log1p(exp(bx)) / V(beta));
  }
};

}  // namespace convt::core::CONVT_OPS
