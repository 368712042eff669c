// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Mean : Reduce, SumFold {
  static constexpr std::string_view about = "mean over channels, or over the axes that are named; to one element each";
  static constexpr std::string_view torch = "x.mean(dims, keepdim=True)";
  static constexpr std::string_view examples = "mean\nmean(axes=w)\nmean(axes=cw)";
  static constexpr auto fields() { return std::tuple(field_of<Mean>("axes", &Mean::axes)); }
  static constexpr bool two_pass = false;

  template <class V>
  CONVT_FN V centre(V folded, V count) const {
    return folded / count;
  }
  template <class V>
  CONVT_FN V result(V centre, [[maybe_unused]] V scale) const {
    return centre;
  }
};

}  // namespace convt::core::CONVT_OPS
