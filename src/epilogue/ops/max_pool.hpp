// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct MaxPool : Pool, MaxFold {
  static constexpr std::string_view about = "largest in each window";
  static constexpr std::string_view torch = "max_pool(x, size, stride or size, padding or 0, ceil_mode=ceil)";
  static constexpr std::string_view examples =
      "max_pool(2)\n"
      "max_pool(3)\n"
      "max_pool(3, stride=2, padding=1)\n"
      "max_pool(2, stride=3)\n"
      "max_pool(3, stride=2, ceil)";
  static constexpr auto fields() {
    return std::tuple(field_of<MaxPool>("size", &MaxPool::size, required),
                      field_of<MaxPool>("stride", &MaxPool::stride), field_of<MaxPool>("padding", &MaxPool::padding),
                      field_of<MaxPool>("ceil", &MaxPool::ceil));
  }
  CONVT_FN bool divides_by_whole_window() const { return false; }

  template <class V>
  CONVT_FN V result(V folded, [[maybe_unused]] V count) const {
    return folded;
  }
};

}  // namespace convt::core::CONVT_OPS
