// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>

#include "epilogue/text.hpp"

namespace convt::core {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '_'; }

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row.back();
}

}  // namespace

std::string suggest(std::string_view word, const std::string_view* known, std::size_t count) {
  if (word.size() > 40) return "";
  std::size_t best = 3;  // one or two slips, not another word
  std::string_view closest;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t distance = edit_distance(word, known[i]);
    if (distance < best && distance < known[i].size()) {
      best = distance;
      closest = known[i];
    }
  }
  return closest.empty() ? "" : formatted(": did you mean '{}'?", closest);
}

std::size_t Scanner::column() {
  while (position_ < text_.size() && is_blank(text_[position_])) ++position_;
  return position_ + 1;
}

bool Scanner::at_end() { return column() > text_.size(); }

bool Scanner::accept(char c) {
  if (at_end() || text_[position_] != c) return false;
  ++position_;
  return true;
}

bool Scanner::accept(std::string_view literal) {
  if (at_end() || text_.substr(position_, literal.size()) != literal) return false;
  position_ += literal.size();
  return true;
}

std::string Scanner::next_token() {
  if (at_end()) return "the end";
  const char c = text_[position_];
  if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e)
    return formatted("byte {:#04x}", static_cast<unsigned char>(c));
  if (!is_word(c)) return formatted("'{}'", c);
  std::size_t end = position_;
  while (end < text_.size() && is_word(text_[end]) && end - position_ < 40) ++end;
  return formatted("'{}'", text_.substr(position_, end - position_));
}

void Scanner::expect(char c) {
  if (!accept(c)) fail(column(), "expected '{}' (got {})", c, next_token());
}

bool Scanner::next_is_word() { return !at_end() && is_letter(text_[position_]); }

std::string_view Scanner::word(std::string_view expected) {
  if (!next_is_word()) fail(column(), "expected {} (got {})", expected, next_token());
  const std::size_t begin = position_;
  while (position_ < text_.size() && is_word(text_[position_])) ++position_;
  return text_.substr(begin, position_ - begin);
}

double Scanner::number() {
  const std::size_t at = column();
  double number = 0;
  const char* first = text_.data() + std::min(position_, text_.size());
  const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), number);
  if (error == std::errc::result_out_of_range) fail(at, "number out of the range of a double");
  if (error != std::errc{}) fail(at, "expected a number (got {})", next_token());
  position_ += static_cast<std::size_t>(end - first);
  return number;
}

std::int64_t Scanner::count() {
  const std::size_t at = column();
  if (at_end() || !is_digit(text_[position_])) fail(at, "expected a non-negative integer (got {})", next_token());
  std::int64_t value = 0;
  const char* first = text_.data() + position_;
  const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), value);
  if (error != std::errc{}) fail(at, "integer too large: sizes stay below 2^63");
  position_ += static_cast<std::size_t>(end - first);
  return value;
}

Extents Scanner::extents() {
  Extents extents;
  do {
    if (extents.rank == 3) fail(position_ + 1, "at most three sizes");
    if (extents.rank > 0 && (position_ == text_.size() || !is_digit(text_[position_])))
      fail(position_ + 1, "expected a size after 'x'");
    extents.sizes[static_cast<std::size_t>(extents.rank++)] = count();
  } while (position_ < text_.size() && text_[position_] == 'x' && accept('x'));
  return extents;
}

}  // namespace convt::core
