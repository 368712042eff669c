// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct BatchNorm : Norm {
  static constexpr std::string_view about = "normalises each channel with a given mean and variance";
  static constexpr std::string_view torch = "F.batch_norm(x, mean, var, weight, bias, False, 0.0, eps)";
  static constexpr std::string_view examples =
      "batch_norm\nbatch_norm(affine)\nbatch_norm(affine, eps=0.001, dtype=f32)";
  static constexpr auto fields() {
    return std::tuple(field_of<BatchNorm>("affine", &BatchNorm::affine), field_of<BatchNorm>("eps", &BatchNorm::eps),
                      field_of<BatchNorm>("dtype", &BatchNorm::dtype));
  }
  Region region() const { return {Region::given, 0}; }
};

}  // namespace convt::core::CONVT_OPS
