// SPDX-License-Identifier: Apache-2.0
// How much a problem costs at least, by counting.
#pragma once

#include "plan/program.hpp"

namespace convt::core {

struct Work {
  double needed = 0;     // products that some element of the output depends on
  double scattered = 0;  // products of all inputs with all taps: with cropped outputs and those that pools drop
};
// Of the problem as it was asked, and as an engine runs it.
Work count_work(const Descriptor& descriptor);
Work count_work(const Program& program);

// Work::scattered alone, which takes no counting.
double scattered_products(const Descriptor& descriptor);
double scattered_products(const Program& program);

}  // namespace convt::core
