// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct RmsNorm : Normalise, SumFold {
  bool channels = false;
  double eps = 1e-6;

  static constexpr bool unrolled = true;
  static constexpr std::string_view about = "divides by the root of the mean square over the channels of each pixel";
  static constexpr std::string_view torch = "F.rms_norm(x.movedim(1, -1), x.shape[1:2], None, eps).movedim(-1, 1)";
  static constexpr std::string_view examples = "rms_norm(channels)\nrms_norm(channels, eps=0.01)";
  static constexpr auto fields() {
    return std::tuple(field_of<RmsNorm>("channels", &RmsNorm::channels), field_of<RmsNorm>("eps", &RmsNorm::eps));
  }
  static constexpr bool two_pass = true;
  constexpr std::string_view complaint() const { return channels ? "" : "takes channels: it knows no other region"; }
  Region region() const { return {Region::channels, 0}; }

  template <class V>
  CONVT_FN V centre([[maybe_unused]] V folded, [[maybe_unused]] V count) const {
    return V(0);
  }
  template <class V>
  CONVT_FN V deviation(V x, [[maybe_unused]] V centre) const {
    return x * x;
  }
  template <class V>
  CONVT_FN V scale(V total, V count) const {
    return V(1) / sqrt(total / count + V(eps));
  }
  template <class V>
  CONVT_FN V map(V x, [[maybe_unused]] V centre, V scale) const {
    return x * scale;
  }
};

}  // namespace convt::core::CONVT_OPS
