// SPDX-License-Identifier: Apache-2.0
// Parser and printer of ops, driven by each op's fields().
#include "epilogue/text.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>

namespace convt::core {
namespace {

bool is_number_word(std::string_view word) { return word == "inf" || word == "infinity" || word == "nan"; }

// ---- one overload per type a parameter may have: how it is read, and how it is written

void read(Scanner& s, double& value) { value = s.number(); }
void read(Scanner& s, std::int64_t& value) { value = s.count(); }
void read(Scanner& s, Extents& value) { value = s.extents(); }

void read(Scanner& s, bool& value) {
  const std::size_t at = s.column();
  const std::string_view word = s.word("true or false");
  if (word != "true" && word != "false") s.fail(at, "expected true or false (got '{}')", word);
  value = word == "true";
}

void read(Scanner& s, OperandType& value) {
  const std::size_t at = s.column();
  const std::string_view word = s.word("f32 or same");
  if (word != "f32" && word != "same")
    s.fail(at, "an operand's dtype is f32, or same (as the problem's), which is the default (got '{}')", word);
  value = word == "f32" ? OperandType::f32 : OperandType::same;
}

void read(Scanner& s, Name& value) {
  const std::size_t at = s.column();
  const std::string_view word = s.word("a name");
  if (word.size() > Name::most) s.fail(at, "a name has at most {} characters (got '{}')", Name::most, word);
  if (is_number_word(word) || word == "channel" || word == "tensor" || word == "conv")
    s.fail(at, "'{}' cannot be a name: it has a meaning of its own", word);
  value = {};
  std::copy(word.begin(), word.end(), value.text);
}

constexpr std::string_view axis_names = "cdhw";  // position = bit of an AxisSet

void read(Scanner& s, AxisSet& value) {
  const std::size_t at = s.column();
  const std::string_view word = s.word("some of c, d, h, w");
  value.bits = 0;
  for (const char letter : word) {
    const std::size_t axis = axis_names.find(letter);
    if (axis == axis_names.npos || (value.bits >> axis & 1) != 0)
      s.fail(at, "expected some of c, d, h, w, each once (got '{}')", word);
    value.bits |= 1U << axis;
  }
}

constexpr std::string_view term_words[] = {"", "channel", "tensor", "conv"};  // position = Term::Kind

void read(Scanner& s, Term& value) {
  if (s.next_is_word()) {
    Scanner ahead = s;
    const std::string_view word = ahead.word();
    const auto* kind = std::find(std::begin(term_words) + 1, std::end(term_words), word);
    if (kind != std::end(term_words)) {
      value = {static_cast<Term::Kind>(kind - term_words), 0, {}};
      s = ahead;
      return;
    }
    if (!is_number_word(word)) {
      value = {Term::kept, 0, {}};
      return read(s, value.name);
    }
  }
  value = {Term::scalar, s.number(), {}};
}

std::string write(double value) { return formatted("{}", value); }
std::string write(std::int64_t value) { return formatted("{}", value); }
std::string write(const Extents& value) { return print(value); }
std::string write(bool value) { return value ? "true" : "false"; }
std::string write(OperandType value) { return value == OperandType::f32 ? "f32" : "same"; }
std::string write(const Name& value) { return std::string(value.view()); }
std::string write(AxisSet value) {
  std::string letters;
  for (std::size_t axis = 0; axis < axis_names.size(); ++axis)
    if ((value.bits >> axis & 1) != 0) letters += axis_names[axis];
  return letters;
}
std::string write(const Term& value) {
  if (value.kind == Term::kept) return write(value.name);
  return value.kind == Term::scalar ? write(value.number) : std::string(term_words[value.kind]);
}

// Flags and dtypes are told by name only.
template <class T>
constexpr bool positional = !std::is_same_v<T, bool> && !std::is_same_v<T, OperandType>;

// ---- ops

// Calls f(field, index) for each field of the op.
template <class T, class F>
void each_field(F&& f) {
  [&]<std::size_t... I>(std::index_sequence<I...>) { (f(std::get<I>(T::fields()), I), ...); }
  (std::make_index_sequence<std::tuple_size_v<decltype(T::fields())>>{});
}

template <class T>
class ArgumentReader {
 public:
  ArgumentReader(Scanner& scanner, std::string_view name) : s_(scanner), name_(name) {}

  T read_all() {
    const std::size_t at = s_.column();
    if (s_.accept('(') && !s_.accept(')')) {
      do {
        read_one();
      } while (s_.accept(','));
      s_.expect(')');
    }
    each_field<T>([&](const auto& field, std::size_t i) {
      if (field.required && !given_[i]) s_.fail(at, "{} needs its {}", name_, field.name);
    });
    return op_;
  }

 private:
  void read_one() {
    if (s_.at_end()) s_.expect(')');
    const std::size_t at = s_.column();
    if (s_.next_is_word()) {
      Scanner ahead = s_;
      const std::string_view word = ahead.word();
      const bool keyed = ahead.accept('=');
      if (const auto index = index_of(word)) {
        s_ = ahead;
        take(at, *index, keyed);
        return;
      }
      if (keyed || !takes_word(word)) s_.fail(at, "{} has no parameter '{}'{}", name_, word, parameters(word));
    }
    const auto next = next_positional();
    if (!next) s_.fail(at, "{} takes no further argument here{}", name_, parameters());
    take(at, *next, true);
  }

  // The first parameter not yet given that need not be named.
  std::optional<std::size_t> next_positional() const {
    std::optional<std::size_t> next;
    each_field<T>([&](const auto& field, std::size_t i) {
      if (positional<std::remove_cvref_t<decltype(op_.*field.member)>> && !given_[i] && !next) next = i;
    });
    return next;
  }

  // Some word that is no parameter's name can be the next value: a number's, or a term's, which says itself what it
  // takes.
  static bool takes_word(std::string_view word) {
    return is_number_word(word) || std::derived_from<T, Combine> || std::derived_from<T, Keeps>;
  }

  void take(std::size_t at, std::size_t index, bool with_value) {
    each_field<T>([&](const auto& field, std::size_t i) {
      if (i != index) return;
      if (given_[i]) s_.fail(at, "{} is given its {} twice", name_, field.name);
      given_[i] = true;
      auto& value = op_.*field.member;
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, bool>) {
        value = true;
        if (!with_value) return;
      }
      if (!with_value) s_.fail(s_.column(), "expected '=' and a value for {}'s {}", name_, field.name);
      read(s_, value);
    });
  }

  static std::optional<std::size_t> index_of(std::string_view word) {
    std::optional<std::size_t> index;
    each_field<T>([&](const auto& field, std::size_t i) {
      if (field.name == word) index = i;
    });
    return index;
  }

  static std::string parameters(std::string_view word = "") {
    std::vector<std::string_view> names;
    each_field<T>([&](const auto& field, std::size_t) { names.push_back(field.name); });
    if (std::string close = suggest(word, names.data(), names.size()); !close.empty()) return close;
    return names.empty() ? " (it takes none)" : formatted(" (it takes {})", joined(names, ", "));
  }

  Scanner& s_;
  std::string_view name_;
  T op_{};
  std::array<bool, std::tuple_size_v<decltype(T::fields())>> given_{};
};

}  // namespace

Op parse_op(Scanner& scanner) {
  const std::size_t at = scanner.column();
  const std::string_view name = scanner.word();
  const auto* known = std::find(std::begin(op_names), std::end(op_names), name);
  if (known == std::end(op_names))
    scanner.fail(at, "unknown op '{}'{}", name, suggest(name, op_names, std::size(op_names)));
  const auto wanted = static_cast<std::size_t>(known - op_names);
  Op op;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    ((I == wanted ? void(op = ArgumentReader<std::variant_alternative_t<I, Op>>(scanner, name).read_all()) : void()),
     ...);
  }
  (std::make_index_sequence<std::variant_size_v<Op>>{});
  return op;
}

namespace {

template <class T>
std::string describe(std::string_view name, const T& op, bool with_defaults) {
  std::vector<std::string> arguments;
  const T defaults{};
  each_field<T>([&](const auto& field, std::size_t) {
    const auto& value = op.*field.member;
    const std::string text = write(value);
    const std::string fallback = write(defaults.*field.member);
    if (with_defaults && (field.required || text.empty()))
      arguments.push_back(std::string(field.name) + (field.required ? "" : "=..."));
    else if (!with_defaults && field.required)
      arguments.push_back(text);
    else if (text == "true" && fallback == "false")
      arguments.emplace_back(field.name);
    else if (with_defaults || text != fallback)
      arguments.push_back(formatted("{}={}", field.name, text));
  });
  return arguments.empty() ? std::string(name) : formatted("{}({})", name, joined(arguments, ", "));
}

}  // namespace

Chain parse_chain(Scanner& scanner) {
  Chain chain;
  do {
    chain.push_back(parse_op(scanner));
  } while (scanner.accept('|'));
  if (!scanner.at_end()) scanner.fail(scanner.column(), "expected '|' before the next op, or the end");
  return chain;
}

Chain parse_chain(std::string_view subject, std::string_view text) {
  Scanner scanner(subject, text);
  if (scanner.at_end()) return {};
  return parse_chain(scanner);
}

std::string print(const Extents& extents) {
  const auto* end = extents.sizes.data() + extents.rank;
  if (std::all_of(extents.sizes.data(), end, [&](std::int64_t size) { return size == extents.sizes[0]; }))
    return extents.rank == 0 ? "" : formatted("{}", extents.sizes[0]);
  return joined(std::span(extents.sizes.data(), end), "x");
}

std::string print(const Op& any) {
  return std::visit(
      [&]<class T>(T op) {
        if constexpr (std::derived_from<T, Pool>) {  // what it would be anyway
          if (print(op.stride) == print(op.size)) op.stride = {};
          if (print(op.padding) == "0") op.padding = {};
        }
        return describe(name_of(any), op, false);
      },
      any);
}

std::string print(const Chain& chain) {
  std::vector<std::string> parts;
  for (const Op& op : chain) parts.push_back(print(op));
  return joined(parts, " | ");
}

std::vector<OpDescription> op_descriptions() {
  std::vector<OpDescription> all;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (
        [&] {
          using T = std::variant_alternative_t<I, Op>;
          all.push_back({op_names[I], describe(op_names[I], T{}, true), T::about, T::torch, T::examples});
        }(),
        ...);
  }
  (std::make_index_sequence<std::variant_size_v<Op>>{});
  return all;
}

}  // namespace convt::core
