// SPDX-License-Identifier: Apache-2.0
// The text form of chains, and the scanner that the text form of whole problems shares. Grammar: docs/text.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "epilogue/op.hpp"

namespace convt::core {

// Reads tokens from left to right. Every failure names the subject ("text", "chain") and the column, counted from 1.
class Scanner {
 public:
  Scanner(std::string_view subject, std::string_view text) : subject_(subject), text_(text) {}

  bool at_end();                  // skips blanks first, as every function here does
  bool accept(char c);            // consumes c if it is next
  bool accept(std::string_view);  // likewise, a literal
  void expect(char c);
  // Letters, digits and '_', beginning with a letter. `expected` is what a message asks for where there is none.
  std::string_view word(std::string_view expected = "a name");
  bool next_is_word();
  double number();
  std::int64_t count();  // a non-negative integer
  Extents extents();     // 3 or 3x5x2

  std::size_t column();      // of the next token
  std::string next_token();  // for messages
  template <class... Args>
  [[noreturn]] void fail(std::size_t column, fmt::format_string<Args...> what, Args&&... args) const {
    reject(subject_, "column {}: {}", column, formatted(what, std::forward<Args>(args)...));
  }

 private:
  std::string_view subject_;
  std::string_view text_;
  std::size_t position_ = 0;
};

// "bias | max_pool(2) | gelu"; an empty text is an empty chain.
Chain parse_chain(std::string_view subject, std::string_view text);
Op parse_op(Scanner& scanner);
// One or more ops with `|` between them, to the end of the scanner's text.
Chain parse_chain(Scanner& scanner);

std::string print(const Op& op);
std::string print(const Chain& chain);
std::string print(const Extents& extents);

// The closest of `known`, as ": did you mean 'gelu'?", or nothing when none is close.
std::string suggest(std::string_view word, const std::string_view* known, std::size_t count);

// One row per op, in the order of ops.def, for help texts and bindings.
struct OpDescription {
  std::string_view name;
  std::string signature;  // with every parameter and its default
  std::string_view about, torch, examples;
};
std::vector<OpDescription> op_descriptions();

}  // namespace convt::core
