// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct MinPool : Pool, MinFold {
  static constexpr std::string_view about = "smallest in each window";
  static constexpr std::string_view torch = "-max_pool(-x, size, stride or size, padding or 0, ceil_mode=ceil)";
  static constexpr std::string_view examples =
      "min_pool(2)\n"
      "min_pool(3)\n"
      "min_pool(3, stride=2, padding=1)\n"
      "min_pool(2, stride=3)\n"
      "min_pool(3, stride=2, ceil)";
  static constexpr auto fields() {
    return std::tuple(field_of<MinPool>("size", &MinPool::size, required),
                      field_of<MinPool>("stride", &MinPool::stride), field_of<MinPool>("padding", &MinPool::padding),
                      field_of<MinPool>("ceil", &MinPool::ceil));
  }
  CONVT_FN bool divides_by_whole_window() const { return false; }

  template <class V>
  CONVT_FN V result(V folded, [[maybe_unused]] V count) const {
    return folded;
  }
};

}  // namespace convt::core::CONVT_OPS
