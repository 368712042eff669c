// SPDX-License-Identifier: Apache-2.0
// How much a problem costs at least, by counting.
#pragma once

#include "problem/descriptor.hpp"

namespace convt::core {

struct Work {
  double needed = 0;     // products that some element of the output depends on
  double scattered = 0;  // products of all inputs with all taps: with cropped outputs and those that pools drop
};
Work count_work(const Descriptor& descriptor);

// Work::scattered alone, which takes no counting.
double scattered_products(const Descriptor& descriptor);

}  // namespace convt::core
