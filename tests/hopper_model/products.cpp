// SPDX-License-Identifier: Apache-2.0
#include "hopper_model/products.hpp"

#include <cuda_fp16.h>
#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <vector>

namespace hopper_model {
namespace {

constexpr int step_bytes = 32, most_depth = 16, most_columns = 256, warp_rows = 16;

// Fields of a descriptor, in bytes.
struct Operand {
  std::uint32_t start, group_step;
  int base, mode;

  explicit Operand(std::uint64_t bits)
      : start(static_cast<std::uint32_t>(bits & 0x3fff) << 4),
        group_step(static_cast<std::uint32_t>(bits >> 32 & 0x3fff) << 4),
        base(static_cast<int>(bits >> 49 & 7)),
        mode(static_cast<int>(bits >> 62)) {}

  // Of a row of a swizzled operand: 128, 64 or 32 bytes.
  std::uint32_t row_bytes() const { return 256U >> mode; }
  // Where 16 bytes of a row are: bits from 4 on are changed by as many bits from 7 on.
  std::uint32_t place(int row, int unit) const {
    const auto r = static_cast<std::uint32_t>(row);
    const std::uint32_t plain =
        start + r / 8 * group_step + r % 8 * row_bytes() + static_cast<std::uint32_t>(unit) * 16;
    return plain ^ ((plain >> 7 & (row_bytes() / 16 - 1)) << 4);
  }
};

std::string defect_of(const Operand& o, const AsyncView& view, int rows) {
  if (o.mode == 0) return "an operand without a swizzle, which the model does not know";
  if (o.base != 0) return fmt::format("an operand's base offset is {}, not 0", o.base);
  for (int row = 0; row < rows; ++row)
    for (int unit = 0; unit < step_bytes / 16; ++unit)
      if (const std::uint32_t at = o.place(row, unit); at < view.begin || at + 16 > view.end)
        return fmt::format("row {} of an operand that starts at {} is at {}, outside of shared memory ({} to {})", row,
                           o.start, at, view.begin, view.end);
  return "";
}

const std::vector<float>& half_values() {
  static const std::vector<float> values = [] {
    std::vector<float> all(std::size_t{1} << 16);
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = __half2float(__ushort_as_half(static_cast<unsigned short>(i)));
    return all;
  }();
  return values;
}

// 16 bytes as numbers.
void read(Element element, const unsigned char* from, float* to) {
  if (element == Element::tf32) {
    std::uint32_t bits[4];
    std::memcpy(bits, from, sizeof bits);
    for (int i = 0; i < 4; ++i) to[i] = std::bit_cast<float>(bits[i] & 0xffffe000U);
    return;
  }
  std::uint16_t bits[8];
  std::memcpy(bits, from, sizeof bits);
  for (int i = 0; i < 8; ++i)
    to[i] = element == Element::f16 ? half_values()[bits[i]]
                                    : std::bit_cast<float>(static_cast<std::uint32_t>(bits[i]) << 16);
}

}  // namespace

std::string multiply_rows(const Product& product, const AsyncView& view, int warp_of_group, float* const* sums) {
  const Operand a(product.a), b(product.b);
  if (std::string defect = defect_of(a, view, 64); !defect.empty()) return "a: " + defect;
  if (std::string defect = defect_of(b, view, product.columns); !defect.empty()) return "b: " + defect;
  const int depth = product.element == Element::tf32 ? 8 : 16, each = depth / 2;
  float left[warp_rows][most_depth], right[most_depth][most_columns], results[warp_rows][most_columns] = {};
  for (int row = 0; row < warp_rows; ++row)
    for (int unit = 0; unit < 2; ++unit)
      read(product.element, view.memory + a.place(warp_of_group * warp_rows + row, unit), left[row] + unit * each);
  for (int column = 0; column < product.columns; ++column) {
    float values[most_depth];
    for (int unit = 0; unit < 2; ++unit)
      read(product.element, view.memory + b.place(column, unit), values + unit * each);
    for (int k = 0; k < depth; ++k) right[k][column] = values[k];
  }
  for (int row = 0; row < warp_rows; ++row)
    for (int k = 0; k < depth; ++k)
      for (int column = 0; column < product.columns; ++column) results[row][column] += left[row][k] * right[k][column];
  for (int lane = 0; lane < warp_threads; ++lane)
    for (int i = 0; i < product.columns / 2; ++i)
      sums[lane][i] =
          (product.add ? sums[lane][i] : 0.0f) + results[lane / 4 + i / 2 % 2 * 8][i / 4 * 8 + lane % 4 * 2 + i % 2];
  return "";
}

}  // namespace hopper_model
