// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct LayerNorm : Norm {
  bool channels = false;
  std::int64_t trailing = 0;

  static constexpr std::string_view about =
      "normalises over the channels of each pixel, or over the last `trailing` axes";
  static constexpr std::string_view torch =
      "(F.layer_norm(x.movedim(1, -1), x.shape[1:2], weight, bias, eps).movedim(-1, 1) if channels else "
      "F.layer_norm(x, x.shape[-trailing:], weight, bias, eps))";
  static constexpr std::string_view examples =
      "layer_norm(channels)\n"
      "layer_norm(channels, affine)\n"
      "layer_norm(channels, affine, dtype=f32)\n"
      "layer_norm(trailing=1)\n"
      "layer_norm(trailing=2, affine, eps=0.001)\n"
      "layer_norm(trailing=3)\n"
      "layer_norm(trailing=4, affine)";
  static constexpr auto fields() {
    return std::tuple(field_of<LayerNorm>("channels", &LayerNorm::channels),
                      field_of<LayerNorm>("trailing", &LayerNorm::trailing),
                      field_of<LayerNorm>("affine", &LayerNorm::affine), field_of<LayerNorm>("eps", &LayerNorm::eps),
                      field_of<LayerNorm>("dtype", &LayerNorm::dtype));
  }
  // Nothing, or the rule that the parameters break.
  constexpr std::string_view complaint() const {
    return channels == (trailing != 0) ? "takes either channels or trailing=K, and not both" : "";
  }
  Region region() const { return channels ? Region{Region::channels, 0} : Region{Region::trailing, trailing}; }
};

}  // namespace convt::core::CONVT_OPS
