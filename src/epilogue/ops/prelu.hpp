// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Prelu : Combine {
  Prelu() { term.kind = Term::channel; }

  static constexpr bool linear = false;
  static constexpr bool unrolled = true;
  static constexpr std::string_view about = "x if x > 0, else x times a slope: a number, or one per channel";
  static constexpr std::string_view torch = "torch.where(x > 0, x, x * other)";
  static constexpr std::string_view examples = "prelu\nprelu(dtype=f32)\nprelu(0.25)";
  static constexpr auto fields() {
    return std::tuple(field_of<Prelu>("other", &Prelu::term), field_of<Prelu>("dtype", &Prelu::dtype));
  }

  template <class V>
  CONVT_FN V apply(V x, V other) const {
    return select(x > V(0), x, x * other);
  }
};

}  // namespace convt::core::CONVT_OPS
