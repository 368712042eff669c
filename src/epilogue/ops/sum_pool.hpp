// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct SumPool : Pool, SumFold {
  static constexpr std::string_view about = "sum of each window";
  static constexpr std::string_view torch =
      "avg_pool(x, size, stride or size, 0, False, True) * "
      "torch.Size((size,) * (x.dim() - 2) if isinstance(size, int) else size).numel()";
  static constexpr std::string_view examples = "sum_pool(2)\nsum_pool(3, stride=2)";
  static constexpr auto fields() {
    return std::tuple(field_of<SumPool>("size", &SumPool::size, required),
                      field_of<SumPool>("stride", &SumPool::stride));
  }
  CONVT_FN bool divides_by_whole_window() const { return false; }

  template <class V>
  CONVT_FN V result(V folded, [[maybe_unused]] V count) const {
    return folded;
  }
};

}  // namespace convt::core::CONVT_OPS
