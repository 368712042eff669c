// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Log : Pointwise {
  static constexpr std::string_view about = "natural logarithm; NaN below 0";
  static constexpr std::string_view torch = "x.log()";
  static constexpr std::string_view examples = "log";
  static constexpr auto fields() { return std::tuple(); }

  template <class V>
  CONVT_FN V apply(V x) const {
    return log(x);
  }
};

}  // namespace convt::core::CONVT_OPS
