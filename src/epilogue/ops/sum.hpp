// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Sum : Reduce, SumFold {
  static constexpr std::string_view about = "sum over channels, to one channel";
  static constexpr std::string_view torch = "x.sum(1, keepdim=True)";
  static constexpr std::string_view examples = "sum";
  static constexpr auto fields() { return std::tuple(); }
  static constexpr bool two_pass = false;

  template <class V>
  CONVT_FN V centre(V folded, [[maybe_unused]] V count) const {
    return folded;
  }
  template <class V>
  CONVT_FN V result(V centre, [[maybe_unused]] V scale) const {
    return centre;
  }
};

}  // namespace convt::core::CONVT_OPS
