// SPDX-License-Identifier: Apache-2.0
#include "support/isas.hpp"

#include <sstream>

#include "support/environment.hpp"

namespace convt::testing {

std::vector<std::string> isas() {
  const WithVariable variable("CONVT_ISA", "nonsuch");
  convt_plan_options options = CONVT_PLAN_OPTIONS_INIT;
  options.engine = "cpu";
  convt_plan* plan = nullptr;
  const char* text = "conv_transpose1d channels=1->1 input=1 kernel=1";
  if (convt_plan_create_from_text(&plan, text, &options) != CONVT_INVALID_ARGUMENT) return {};
  const std::string message = convt_last_error();
  const std::string before = "CONVT_ISA: names no instruction set of this build and machine, which have ";
  const std::size_t end = message.find(" (got 'nonsuch')");
  if (message.rfind(before, 0) != 0 || end == std::string::npos) return {};
  std::istringstream list(message.substr(before.size(), end - before.size()));
  std::vector<std::string> names;
  for (std::string name; list >> name;) names.push_back(name.substr(0, name.find(',')));
  return names;
}

std::string explained(const std::string& text, const std::string& word) {
  const std::size_t found = text.find("\n  " + word + " ");
  if (found == std::string::npos) return "";
  const std::size_t begin = text.find_first_not_of(' ', found + 3 + word.size());
  return text.substr(begin, text.find('\n', begin) - begin);
}

bool runs_on(const std::string& explanation, const std::string& isa) {
  return (explained(explanation, "chosen") + " ").rfind("cpu " + isa + " ", 0) == 0;
}

bool sums_in_kernel(const std::string& explanation) {
  return explanation.find("moves into the kernel") != std::string::npos;
}

}  // namespace convt::testing
