// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct LogSoftmax : Normalise, MaxFold {
  AxisSet axes;

  static constexpr bool unrolled = true;
  static constexpr std::string_view about =
      "x minus the log of the sum of exp(x) over channels, or over the axes that are named";
  static constexpr std::string_view torch = "along(torch.log_softmax, x, dims)";
  static constexpr std::string_view examples = "log_softmax\nlog_softmax(axes=w)\nlog_softmax(axes=cw)";
  static constexpr auto fields() { return std::tuple(field_of<LogSoftmax>("axes", &LogSoftmax::axes)); }
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
    return log(total);
  }
  template <class V>
  CONVT_FN V map(V x, V centre, V scale) const {
    return (x - centre) - scale;
  }
};

}  // namespace convt::core::CONVT_OPS
