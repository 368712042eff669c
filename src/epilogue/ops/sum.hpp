// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Sum : Reduce, SumFold {
  static constexpr std::string_view about = "sum over channels, or over the axes that are named; to one element each";
  static constexpr std::string_view torch = "x.sum(dims, keepdim=True)";
  static constexpr std::string_view examples = "sum\nsum(axes=w)\nsum(axes=cw)";
  static constexpr auto fields() { return std::tuple(field_of<Sum>("axes", &Sum::axes)); }
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
