// SPDX-License-Identifier: Apache-2.0
// GELU as the Hopper engine's register epilogues compute it: what cuda/chain/gelu_fit.hpp promises.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cuda/sm90/epilogue/gelu.cuh"
#include "cuda/sm90/host/prepare_gelu.hpp"

namespace convt::core::cuda::sm90 {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

struct Promise {
  double absolute, relative;  // from -3 on
  double beyond;              // absolute
  float most = 0x1p100f;      // |x|
};

RegisterEpilogue chain_with(bool norm, float factor, convt_dtype dtype) {
  RegisterEpilogue chain;
  chain.norm = norm ? 1 : 0;
  chain.activation = RegisterEpilogue::gelu;
  chain.scale_bias[RegisterEpilogue::last] = {true, nullptr, nullptr, factor};
  prepare_gelu(chain, dtype, false, true, false);
  return chain;
}

template <class E>
float gelu(const RegisterEpilogue& chain, float x) {
  const bool norm = chain.activation == RegisterEpilogue::gelu_of_norm;
  float value = x * (norm ? chain.gain : chain.scale_bias[RegisterEpilogue::before_norm].a_times);
  if (norm)
    apply_gelu<gelu_of_norm_fit<E>().degree, 1>(chain.q, &value);
  else
    apply_gelu<gelu_fit<E>().degree, 1>(chain.q, &value);
  return value;
}

template <class E>
void expect_promise(bool norm, convt_dtype dtype, const Promise& promise) {
  for (const float factor : {1.0f, 0.5f, 3.0f, 0.1f, 0x1p-16f, 60000.0f}) {
    const RegisterEpilogue chain = chain_with(norm, factor, dtype);
    EXPECT_FALSE(chain.scale_bias[RegisterEpilogue::last].present);
    EXPECT_EQ(chain.activation, norm ? RegisterEpilogue::gelu_of_norm : RegisterEpilogue::gelu);
    for (int i = -14999; i < 15000; i += 2) {
      const float x = static_cast<float>(i) * 1e-3f;
      const double exact = 0.5 * x * std::erfc(-x * std::sqrt(0.5)), off = gelu<E>(chain, x) / double{factor} - exact;
      const double allowed = x < -3 ? promise.beyond : promise.absolute + promise.relative * std::abs(exact);
      ASSERT_LE(std::abs(off), allowed) << "x " << x << ", factor " << factor;
    }
    for (float x = 15; x < promise.most; x *= 1.125f) {
      ASSERT_NEAR(gelu<E>(chain, x) / (double{factor} * x), 1, 1e-6) << "x " << x << ", factor " << factor;
      ASSERT_NEAR(gelu<E>(chain, -x), 0, 1e-6 * factor) << "x " << -x << ", factor " << factor;
    }
    EXPECT_TRUE(std::isnan(gelu<E>(chain, std::nanf(""))));
    if (norm) continue;
    EXPECT_EQ(gelu<E>(chain, infinity), infinity);
    EXPECT_TRUE(std::isnan(gelu<E>(chain, -infinity)));
  }
}

TEST(HopperGelu, IsAsCloseAsPromised) {
  expect_promise<float>(false, CONVT_F32, {1.3e-6, 0, 1.3e-6});
  expect_promise<convt_f16>(false, CONVT_F16, {0, std::exp2(-14.7), 2e-7});
  expect_promise<convt_bf16>(false, CONVT_BF16, {0, std::exp2(-14.7), 2e-7});
}

TEST(HopperGelu, OfANormIsAsCloseAsPromised) {
  expect_promise<float>(true, CONVT_F32, {7e-6, 0, 7e-6, 18});
  expect_promise<convt_f16>(true, CONVT_F16, {0, std::exp2(-11.8), 2.4e-6, 18});
  expect_promise<convt_bf16>(true, CONVT_BF16, {0, std::exp2(-9.2), 1.4e-5});
}

TEST(HopperGelu, LeavesOtherLinesBehindIt) {
  for (const float factor : {-1.0f, 0.0f, 1e-6f, 1e6f, infinity, std::nanf("")}) {
    const RegisterEpilogue chain = chain_with(true, factor, CONVT_BF16);
    EXPECT_TRUE(chain.scale_bias[RegisterEpilogue::last].present) << factor;
    EXPECT_EQ(chain.activation, RegisterEpilogue::gelu) << factor;
    EXPECT_EQ(chain.gain, 0.5f) << factor;
  }
}

}  // namespace
}  // namespace convt::core::cuda::sm90
