// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct GroupNorm : Norm {
  std::int64_t groups = 0;

  static constexpr std::string_view about = "normalises over space and each of `groups` groups of channels";
  static constexpr std::string_view torch = "F.group_norm(x, groups, weight, bias, eps)";
  static constexpr std::string_view examples =
      "group_norm(1)\n"
      "group_norm(2, affine)\n"
      "group_norm(3, eps=0.001)\n"
      "group_norm(2, affine, dtype=f32)";
  static constexpr auto fields() {
    return std::tuple(field_of<GroupNorm>("groups", &GroupNorm::groups, required),
                      field_of<GroupNorm>("affine", &GroupNorm::affine), field_of<GroupNorm>("eps", &GroupNorm::eps),
                      field_of<GroupNorm>("dtype", &GroupNorm::dtype));
  }
  Region region() const { return {Region::groups, groups}; }
};

}  // namespace convt::core::CONVT_OPS
