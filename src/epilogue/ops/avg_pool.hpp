// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct AvgPool : Pool, SumFold {
  bool count_include_pad = true;

  static constexpr std::string_view about = "average of each window";
  static constexpr std::string_view torch = "avg_pool(x, size, stride or size, padding or 0, ceil, count_include_pad)";
  static constexpr std::string_view examples =
      "avg_pool(2)\n"
      "avg_pool(3)\n"
      "avg_pool(3, stride=2, padding=1)\n"
      "avg_pool(3, stride=2, padding=1, count_include_pad=false)\n"
      "avg_pool(2, stride=3, ceil)\n"
      "avg_pool(3, stride=2, padding=1, ceil)";
  static constexpr auto fields() {
    return std::tuple(field_of<AvgPool>("size", &AvgPool::size, required),
                      field_of<AvgPool>("stride", &AvgPool::stride), field_of<AvgPool>("padding", &AvgPool::padding),
                      field_of<AvgPool>("ceil", &AvgPool::ceil),
                      field_of<AvgPool>("count_include_pad", &AvgPool::count_include_pad));
  }
  CONVT_FN bool divides_by_whole_window() const { return count_include_pad; }

  template <class V>
  CONVT_FN V result(V folded, V count) const {
    return folded / count;
  }
};

}  // namespace convt::core::CONVT_OPS
