// SPDX-License-Identifier: Apache-2.0
// Op math compiled for an instruction set beyond the baseline: how an engine does it, and that it computes the same.
// The op headers are included a second time, inside a region where the compiler may use AVX2, as a namespace of their
// own.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "epilogue/op.hpp"
#include "epilogue/text.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif

namespace convt::core::avx2 {

// Eight floats, with the vocabulary of value.hpp.
struct Vec {
  __m256 raw;
  explicit Vec(__m256 v) : raw(v) {}
  explicit Vec(double number) : raw(_mm256_set1_ps(static_cast<float>(number))) {}
};
struct Mask {
  __m256 raw;
};
inline Vec operator+(Vec a, Vec b) { return Vec(_mm256_add_ps(a.raw, b.raw)); }
inline Vec operator-(Vec a, Vec b) { return Vec(_mm256_sub_ps(a.raw, b.raw)); }
inline Vec operator*(Vec a, Vec b) { return Vec(_mm256_mul_ps(a.raw, b.raw)); }
inline Vec operator/(Vec a, Vec b) { return Vec(_mm256_div_ps(a.raw, b.raw)); }
inline Mask operator>(Vec a, Vec b) { return {_mm256_cmp_ps(a.raw, b.raw, _CMP_GT_OQ)}; }
inline Mask operator<(Vec a, Vec b) { return {_mm256_cmp_ps(a.raw, b.raw, _CMP_LT_OQ)}; }
inline Vec select(Mask mask, Vec yes, Vec no) { return Vec(_mm256_blendv_ps(no.raw, yes.raw, mask.raw)); }
inline Vec propagate(Vec a, Vec result) {  // where a is NaN, a
  return Vec(_mm256_blendv_ps(result.raw, a.raw, _mm256_cmp_ps(a.raw, a.raw, _CMP_UNORD_Q)));
}
inline Vec maximum(Vec a, Vec b) { return propagate(a, Vec(_mm256_max_ps(a.raw, b.raw))); }
inline Vec minimum(Vec a, Vec b) { return propagate(a, Vec(_mm256_min_ps(a.raw, b.raw))); }
inline Vec sqrt(Vec a) { return Vec(_mm256_sqrt_ps(a.raw)); }

// The transcendental ones lane by lane: an engine brings its own.
template <class F>
inline Vec each(Vec a, F f) {
  alignas(32) float lanes[8];
  _mm256_store_ps(lanes, a.raw);
  for (float& lane : lanes) lane = f(lane);
  return Vec(_mm256_load_ps(lanes));
}
inline Vec exp(Vec a) { return each(a, value::exp<float>); }
inline Vec expm1(Vec a) { return each(a, value::expm1<float>); }
inline Vec log1p(Vec a) { return each(a, value::log1p<float>); }
inline Vec tanh(Vec a) { return each(a, value::tanh<float>); }
inline Vec erf(Vec a) { return each(a, value::erf<float>); }

}  // namespace convt::core::avx2

#define CONVT_OPS ops_avx2
#include "convt_ops_includes.hpp"
#undef CONVT_OPS

namespace convt::core {
namespace {

// The op's twin in the other namespace, by its place in ops.def.
template <class Op>
struct Twin;
#define CONVT_OP(name, Type)     \
  template <>                    \
  struct Twin<ops::Type> {       \
    using type = ops_avx2::Type; \
  };
#include "epilogue/ops.def"
#undef CONVT_OP

void apply_eight(const Op& any, const float* x, float* y) {
  std::visit(
      [&]<class T>(const T& op) {
        if constexpr (std::derived_from<T, Pointwise>) {
          const auto twin = std::bit_cast<typename Twin<T>::type>(op);
          _mm256_storeu_ps(y, twin.apply(avx2::Vec(_mm256_loadu_ps(x))).raw);
        }
      },
      any);
}

}  // namespace
}  // namespace convt::core

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace convt::core {
namespace {

TEST(SimdOps, PointwiseMathIsTheSame) {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) GTEST_SKIP() << "this CPU has no AVX2";
  const float x[8] = {-7.5F, -1.0F, -0.25F, 0.0F, 0.3F, 1.75F, 9.0F, std::nanf("")};
  int checked = 0;
  for (const OpDescription& row : op_descriptions()) {
    std::string examples(row.examples);
    const Op op = parse_chain("chain", examples.substr(0, examples.find('\n'))).front();
    std::visit(
        [&]<class T>(const T& concrete) {
          if constexpr (std::derived_from<T, Pointwise>) {
            float y[8];
            apply_eight(op, x, y);
            for (int i = 0; i < 7; ++i)
              EXPECT_NEAR(y[i], concrete.apply(x[i]), 1e-6F * (1 + std::fabs(y[i]))) << row.name << "(" << x[i] << ")";
            EXPECT_TRUE(std::isnan(y[7])) << row.name;
            ++checked;
          }
        },
        op);
  }
  EXPECT_GE(checked, 13);
}

}  // namespace
}  // namespace convt::core

#endif
