// SPDX-License-Identifier: Apache-2.0
// Statuses, errors, element types, settings and the vocabulary of chains. Included by convt.hpp.
#ifndef CONVT_BASE_HPP
#define CONVT_BASE_HPP

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <functional>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "convt/convt.h"

namespace convt {

// ---------------------------------------------------------------- enumerations and errors ---------------------------

enum class Status {
  ok = CONVT_OK,
  invalid_argument = CONVT_INVALID_ARGUMENT,
  unsupported = CONVT_UNSUPPORTED,
  out_of_memory = CONVT_OUT_OF_MEMORY,
  device_error = CONVT_DEVICE_ERROR,
  internal_error = CONVT_INTERNAL_ERROR
};
enum class DType { f32 = CONVT_F32, f64 = CONVT_F64, f16 = CONVT_F16, bf16 = CONVT_BF16 };
enum class Layout { channels_first = CONVT_CHANNELS_FIRST, channels_last = CONVT_CHANNELS_LAST };
enum class Device { cpu = CONVT_DEVICE_CPU, cuda = CONVT_DEVICE_CUDA };
enum class Float32Precision { ieee = CONVT_FLOAT32_IEEE, tf32 = CONVT_FLOAT32_TF32 };

inline std::string to_string(Status status) { return convt_status_name(static_cast<convt_status>(status)); }

inline std::string to_string(DType dtype) {
  constexpr std::array names{"f32", "f64", "f16", "bf16"};
  const auto index = static_cast<std::size_t>(dtype);
  return index < names.size() ? names[index] : "unknown";
}

// The only exception that is convt's own. what() names the argument, the rule and the values.
class Error : public std::runtime_error {
 public:
  Error(Status status, const std::string& message) : std::runtime_error(message), status_(status) {}
  Status status() const noexcept { return status_; }

 private:
  Status status_;
};

// ---------------------------------------------------------------- elements and sizes --------------------------------

using f16 = convt_f16;
using bf16 = convt_bf16;

template <class T>
concept Element = std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, f16> || std::same_as<T, bf16>;

template <Element T>
inline constexpr DType dtype_of = std::same_as<T, float>    ? DType::f32
                                  : std::same_as<T, double> ? DType::f64
                                  : std::same_as<T, f16>    ? DType::f16
                                                            : DType::bf16;

// Of a tensor: N, C, [D, [H,]] W. Along spatial axes: one entry per axis, in the order D, H, W, or one for all of them.
using Sizes = std::vector<std::size_t>;

namespace detail {

inline void check(convt_status status) {
  if (status != CONVT_OK) throw Error(static_cast<Status>(status), convt_last_error());
}

[[noreturn]] inline void reject(const std::string& argument, const std::string& rule) {
  throw Error(Status::invalid_argument, argument + ": " + rule);
}

// Of sizes that the library has accepted, so that it does not overflow.
inline std::size_t product(std::span<const std::size_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::size_t{1}, std::multiplies<>());
}

inline void check_count(const std::string& argument, std::size_t count, std::span<const std::size_t> shape) {
  if (count == product(shape)) return;
  std::string sizes;
  for (const std::size_t size : shape) sizes += (sizes.empty() ? "" : "x") + std::to_string(size);
  reject(argument, "must have " + std::to_string(product(shape)) + " elements, " + sizes + " (got " +
                       std::to_string(count) + ")");
}

// One size serves all axes. Requires dims <= axes.size().
inline void fill_axes(const std::string& argument, const Sizes& sizes, std::size_t dims, std::span<std::size_t> axes) {
  if (sizes.size() == 1)
    std::fill(axes.begin(), axes.end(), sizes[0]);
  else if (sizes.size() == dims)
    std::copy(sizes.begin(), sizes.end(), axes.begin());
  else
    reject(argument, "takes one size" + (dims == 1 ? "" : " or " + std::to_string(dims) + ", one per spatial axis") +
                         " (got " + std::to_string(sizes.size()) + ")");
}

// The C ABI ends a text at its first NUL; a view may hold more.
inline const char* c_text(const std::string& argument, const std::string& text) {
  if (const std::size_t nul = text.find('\0'); nul != std::string::npos)
    reject(argument, "must not contain a NUL character (got one at position " + std::to_string(nul) + ")");
  return text.c_str();
}

// The one of four C functions that works on elements of type T.
template <Element T, class F32, class F64, class F16, class BF16>
constexpr auto select(F32 of_f32, F64 of_f64, F16 of_f16, BF16 of_bf16) {
  return std::get<static_cast<std::size_t>(dtype_of<T>)>(std::tuple(of_f32, of_f64, of_f16, of_bf16));
}

}  // namespace detail

// Rounds to nearest, ties to even.
template <Element T>
T from_double(double value) {
  if constexpr (std::floating_point<T>)
    return static_cast<T>(value);
  else if constexpr (std::same_as<T, f16>)
    return convt_f16_from_double(value);
  else
    return convt_bf16_from_double(value);
}

inline double to_double(double value) { return value; }
inline double to_double(f16 value) { return convt_f16_to_double(value); }
inline double to_double(bf16 value) { return convt_bf16_to_double(value); }

// ---------------------------------------------------------------- settings ------------------------------------------

inline std::string version() { return convt_version(); }

inline void set_num_threads(std::size_t num_threads) { detail::check(convt_set_num_threads(num_threads)); }
inline std::size_t num_threads() { return convt_get_num_threads(); }

inline void set_float32_precision(Float32Precision precision) {
  detail::check(convt_set_float32_precision(static_cast<convt_float32_precision>(precision)));
}
inline Float32Precision float32_precision() { return static_cast<Float32Precision>(convt_get_float32_precision()); }

inline void set_stream(void* stream) { detail::check(convt_set_stream(stream)); }
inline void* stream() { return convt_get_stream(); }

// ---------------------------------------------------------------- the vocabulary ------------------------------------

using OpDescription = convt_op_description;
using NamedProblemDescription = convt_named_problem_description;

namespace detail {

template <class Description>
std::vector<Description> list(std::size_t count, auto describe) {
  std::vector<Description> descriptions(count);
  for (std::size_t i = 0; i < count; ++i) check(describe(i, &descriptions[i]));
  return descriptions;
}

}  // namespace detail

// The operations a chain may hold.
inline std::vector<OpDescription> ops() { return detail::list<OpDescription>(convt_op_count(), convt_op_describe); }

inline std::vector<NamedProblemDescription> named_problems() {
  return detail::list<NamedProblemDescription>(convt_named_problem_count(), convt_named_problem_describe);
}

}  // namespace convt

#endif  // CONVT_BASE_HPP
