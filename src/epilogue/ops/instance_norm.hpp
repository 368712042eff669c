// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct InstanceNorm : Norm {
  static constexpr std::string_view about = "normalises each channel of each image over space";
  static constexpr std::string_view torch = "F.instance_norm(x, None, None, weight, bias, True, 0.0, eps)";
  static constexpr std::string_view examples =
      "instance_norm\ninstance_norm(affine)\ninstance_norm(affine, eps=0.001, dtype=f32)";
  static constexpr auto fields() {
    return std::tuple(field_of<InstanceNorm>("affine", &InstanceNorm::affine),
                      field_of<InstanceNorm>("eps", &InstanceNorm::eps),
                      field_of<InstanceNorm>("dtype", &InstanceNorm::dtype));
  }
  Region region() const { return {Region::instance, 0}; }
};

}  // namespace convt::core::CONVT_OPS
