// SPDX-License-Identifier: Apache-2.0
#include "suggest.hpp"

#include <algorithm>
#include <numeric>

namespace convt::cli {
namespace {

// How many letters must be put in, left out or exchanged.
std::size_t slips(const std::string& a, const std::string& b) {
  std::vector<std::size_t> above(b.size() + 1), row(b.size() + 1);
  std::iota(above.begin(), above.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i, above.swap(row)) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j)
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
  }
  return above.back();
}

}  // namespace

std::string suggest(const std::string& word, const std::vector<std::string>& known) {
  constexpr std::size_t longest = 64;  // no name is longer; and a long text costs its square
  if (word.size() > longest) return "";
  std::size_t best = 3;  // one or two slips, not another word
  std::string closest;
  for (const std::string& name : known)
    if (const std::size_t count = slips(word, name); count < best && count < name.size()) {
      best = count;
      closest = name;
    }
  return closest.empty() ? "" : ": did you mean '" + closest + "'?";
}

}  // namespace convt::cli
