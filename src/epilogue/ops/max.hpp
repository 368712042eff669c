// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Max : Reduce, MaxFold {
  static constexpr std::string_view about =
      "largest over channels, or over the axes that are named; to one element each";
  static constexpr std::string_view torch = "x.amax(dims, keepdim=True)";
  static constexpr std::string_view examples = "max\nmax(axes=w)\nmax(axes=cw)";
  static constexpr auto fields() { return std::tuple(field_of<Max>("axes", &Max::axes)); }
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
