// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Snake : Combine {
  Snake() { term.kind = Term::channel; }

  static constexpr bool linear = false;
  static constexpr std::string_view about = "x + sin(alpha*x)^2 / alpha, with one alpha per channel";
  static constexpr std::string_view torch = "x + torch.sin(other * x) ** 2 / (other + 1e-9)";
  static constexpr std::string_view examples = "snake\nsnake(dtype=f32)";
  static constexpr auto fields() { return std::tuple(field_of<Snake>("dtype", &Snake::dtype)); }

  // The 1e-9 that models add keeps an alpha of 0 from dividing by it.
  template <class V>
  CONVT_FN V apply(V x, V other) const {
    const V wave = sin(other * x);
    return x + wave * wave / (other + V(1e-9));
  }
};

}  // namespace convt::core::CONVT_OPS
