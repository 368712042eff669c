// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Softmax : Normalise, MaxFold {
  AxisSet axes;

  static constexpr bool unrolled = true;
  static constexpr std::string_view about = "exp(x), divided by its sum over channels, or over the axes that are named";
  static constexpr std::string_view torch = "along(torch.softmax, x, dims)";
  static constexpr std::string_view examples = "softmax\nsoftmax(axes=w)\nsoftmax(axes=cw)";
  static constexpr auto fields() { return std::tuple(field_of<Softmax>("axes", &Softmax::axes)); }
  static constexpr bool two_pass = true;
  Region region() const { return region_of(axes); }

  template <class V>
  CONVT_FN V centre(V folded, [[maybe_unused]] V count) const {
    return folded;
  }
  template <class V>
  CONVT_FN V deviation(V x, V centre) const {
    return exp(x - centre);
  }
  template <class V>
  CONVT_FN V scale(V total, [[maybe_unused]] V count) const {
    return V(1) / total;
  }
  template <class V>
  CONVT_FN V map(V x, V centre, V scale) const {
    return exp(x - centre) * scale;
  }
};

}  // namespace convt::core::CONVT_OPS
