// SPDX-License-Identifier: Apache-2.0
//
// convt for C++20: the C ABI of convt.h with owned plans, spans, named structs and one exception type.
//
//   auto plan = convt::Plan::from_text("conv_transpose1d dtype=f32 channels=1->1 input=3 kernel=2 | bias | relu");
//   plan.execute<float>({.input = x, .kernel = w, .output = y, .operands = {bias}});
//
// Nothing here computes. Spans are checked against the sizes they must have; every other rule is that of convt.h.
// Spans may refer to device memory: they are never read through.
#ifndef CONVT_CONVT_HPP
#define CONVT_CONVT_HPP

#if defined(_MSVC_LANG) ? _MSVC_LANG < 202002L : __cplusplus < 202002L
#error "convt.hpp needs C++20: compile with -std=c++20, or use convt.h, which is C"
#else
#include "convt/base.hpp"
#include "convt/named_problems.hpp"
#include "convt/plan.hpp"
#endif

#endif  // CONVT_CONVT_HPP
