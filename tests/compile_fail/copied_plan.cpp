// SPDX-License-Identifier: Apache-2.0
// A plan has one owner.
// EXPECT: deleted function 'convt::Plan::Plan\(const convt::Plan&\)'|deleted copy constructor of 'convt::Plan'
#include "convt/convt.hpp"

convt::Plan copy(const convt::Plan& plan) { return plan; }
