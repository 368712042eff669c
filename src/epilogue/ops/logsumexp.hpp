// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Logsumexp : Reduce, MaxFold {
  static constexpr bool unrolled = true;
  static constexpr std::string_view about =
      "log of the sum of exp over channels, or over the axes that are named; to one element each";
  static constexpr std::string_view torch = "torch.logsumexp(x, dims, keepdim=True)";
  static constexpr std::string_view examples = "logsumexp\nlogsumexp(axes=w)\nlogsumexp(axes=cw)";
  static constexpr auto fields() { return std::tuple(field_of<Logsumexp>("axes", &Logsumexp::axes)); }
  static constexpr bool two_pass = true;

  // An infinite maximum would make Inf - Inf; without a shift exp() overflows or vanishes to the right limit by itself.
  template <class V>
  CONVT_FN V centre(V folded, [[maybe_unused]] V count) const {
    return select(is_infinite(folded), V(0), folded);
  }
  template <class V>
  CONVT_FN V deviation(V x, V centre) const {
    return exp(x - centre);
  }
  template <class V>
  CONVT_FN V scale(V total, [[maybe_unused]] V count) const {
    return total;
  }
  template <class V>
  CONVT_FN V result(V centre, V scale) const {
    return centre + log(scale);
  }
};

}  // namespace convt::core::CONVT_OPS
