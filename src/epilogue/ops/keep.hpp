// SPDX-License-Identifier: Apache-2.0
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

struct Keep : Keeps {
  static constexpr std::string_view about =
      "names the running value: add(name), sub(name), mul(name) and div(name) use it later, broadcast over axes that "
      "were reduced meanwhile";
  static constexpr std::string_view torch = "x";
  static constexpr std::string_view examples = "keep(a)";
  static constexpr auto fields() { return std::tuple(field_of<Keep>("name", &Keep::name, required)); }
};

}  // namespace convt::core::CONVT_OPS
