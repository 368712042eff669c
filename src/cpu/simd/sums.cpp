// SPDX-License-Identifier: Apache-2.0
// Sums of columns, and products with them, in double.
#include "cpu/simd/convert-inl.hpp"

#include <algorithm>

#include "cpu/sum_kernels.hpp"

HWY_BEFORE_NAMESPACE();
namespace convt::core::cpu::CONVT_ISA {
namespace {

using Doubles = Values<double>;

template <class T>
HWY_INLINE Doubles load_doubles(const T* from) {
  return Doubles(load_as(Doubles::Tag(), from));
}

// N rows at once: a sum is loaded and stored once for N elements.
template <int N, class T>
HWY_INLINE void add_few(const T* from, std::int64_t step, std::int64_t width, double* sums) {
  std::int64_t x = 0;
  for (; x + Doubles::lanes <= width; x += Doubles::lanes) {
    Doubles sum = Doubles::load(sums + x);
    for (int row = 0; row < N; ++row) sum = sum + load_doubles(from + row * step + x);
    sum.store(sums + x);
  }
  for (; x < width; ++x)
    for (int row = 0; row < N; ++row) sums[x] += static_cast<double>(from[row * step + x]);
}

template <class T>
void add_rows(const T* from, std::int64_t rows, std::int64_t step, std::int64_t width, double* sums) {
  std::int64_t row = 0;
  for (; row + 4 <= rows; row += 4) add_few<4>(from + row * step, step, width, sums);
  for (; row < rows; ++row) add_few<1>(from + row * step, step, width, sums);
}

void add_columns(const double* from, std::int64_t width, double* sums) { add_few<1>(from, width, width, sums); }

template <class T>
void add_products(const T* weights, std::int64_t count, const double* factors, std::int64_t period, double* sums) {
  for (std::int64_t first = 0; first < count; first += period) {
    const std::int64_t end = std::min(period, count - first);
    std::int64_t i = 0;
    for (; i + Doubles::lanes <= end; i += Doubles::lanes)
      mul_add(load_doubles(weights + first + i), Doubles::load(factors + i), Doubles::load(sums + first + i))
          .store(sums + first + i);
    for (; i < end; ++i) sums[first + i] += static_cast<double>(weights[first + i]) * factors[i];
  }
}

}  // namespace

template <class T>
const SumKernels<T>& sum_kernels();

template <>
const SumKernels<CONVT_REAL>& sum_kernels<CONVT_REAL>() {
  using T = CONVT_REAL;
  static constexpr SumKernels<T> table{add_rows<T>, add_columns, add_products<T>, Doubles::lanes};
  return table;
}

}  // namespace convt::core::cpu::CONVT_ISA
HWY_AFTER_NAMESPACE();
