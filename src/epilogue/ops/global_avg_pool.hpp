// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct GlobalAvgPool : Pool, SumFold {
  static constexpr std::string_view about = "average over all of space";
  static constexpr std::string_view torch = "x.mean(tuple(range(2, x.dim())), keepdim=True)";
  static constexpr std::string_view examples = "global_avg_pool";
  static constexpr auto fields() { return std::tuple(); }
  CONVT_FN bool divides_by_whole_window() const { return false; }

  template <class V>
  CONVT_FN V result(V folded, V count) const {
    return folded / count;
  }
};

}  // namespace convt::core::CONVT_OPS
