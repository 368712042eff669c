// SPDX-License-Identifier: Apache-2.0
// Before C++20 one line says what is wrong.
// STANDARD: c++17
// EXPECT: convt.hpp needs C\+\+20: compile with -std=c\+\+20
// ERRORS: 1
#include "convt/convt.hpp"
