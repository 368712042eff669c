// SPDX-License-Identifier: Apache-2.0
// Matrix instructions, warp by warp.
#pragma once

#include <cstdint>
#include <string>

#include "hopper_model/machine.hpp"

namespace hopper_model {

struct Product {
  Element element = Element::tf32;
  int columns = 8;
  std::uint64_t a = 0, b = 0;  // descriptors
  bool add = true;             // to sums; or they are overwritten

  bool operator==(const Product&) const = default;
};

// Shared memory as matrix instructions see it, between two addresses.
struct AsyncView {
  const unsigned char* memory;
  std::uint32_t begin, end;
};

// The 16 rows that a warp has of the product's 64, to its lanes' sums. "", or what is wrong with the operands.
std::string multiply_rows(const Product& product, const AsyncView& view, int warp_of_group, float* const* sums);

}  // namespace hopper_model
