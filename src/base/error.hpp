// SPDX-License-Identifier: Apache-2.0
// The one exception type inside the library. Doors turn it into a status and a message.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "base/format.hpp"
#include "convt/convt.h"

namespace convt::core {

class Error : public std::runtime_error {
 public:
  Error(convt_status status, const std::string& message) : std::runtime_error(message), status_(status) {}
  convt_status status() const { return status_; }

 private:
  convt_status status_;
};

// Refuses an argument: "<argument>: <rule and values>".
template <class... Args>
[[noreturn]] void reject(std::string_view argument, fmt::format_string<Args...> rule, Args&&... args) {
  throw Error(CONVT_INVALID_ARGUMENT, formatted("{}: {}", argument, formatted(rule, std::forward<Args>(args)...)));
}

}  // namespace convt::core
