// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Threshold : Pointwise {
  double threshold = 0;
  double value = 0;

  static constexpr bool unrolled = true;
  static constexpr std::string_view about = "x where x > threshold, else value";
  static constexpr std::string_view torch = "F.threshold(x, threshold, value)";
  static constexpr std::string_view examples = "threshold(0.25, -1)";
  static constexpr auto fields() {
    return std::tuple(field_of<Threshold>("threshold", &Threshold::threshold, required),
                      field_of<Threshold>("value", &Threshold::value, required));
  }

  template <class V>
  CONVT_FN V apply(V x) const {
    return select(x <= V(threshold), V(value), x);
  }
};

}  // namespace convt::core::CONVT_OPS
