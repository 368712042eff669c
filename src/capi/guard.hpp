// SPDX-License-Identifier: Apache-2.0
// What every door does: nothing is thrown across the C ABI; failures become a status and the thread's last error.
#pragma once

#if defined(__SSE2__)
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

#include <cstring>
#include <new>
#include <type_traits>

#include "base/error.hpp"
#include "convt/convt.h"

namespace convt::capi {

// Keeps the message in a fixed buffer of the thread, so that even out-of-memory can be told.
convt_status fail(convt_status status, const char* message) noexcept;

// The caller's floating-point environment, put aside: inside, nothing traps, and the flags that planning and vectors
// with idle lanes raise are never seen outside. Rounding and flushing of subnormals stay the caller's.
class FloatingPoint {
 public:
  FloatingPoint(const FloatingPoint&) = delete;
  FloatingPoint& operator=(const FloatingPoint&) = delete;
#if defined(__SSE2__)
  // The vectors' own register: fenv's functions, which take the x87's along, cost a small call a third of its time.
  FloatingPoint() noexcept : callers_(_mm_getcsr()) { _mm_setcsr((callers_ | masks) & ~flags); }
  ~FloatingPoint() { _mm_setcsr(callers_); }

 private:
  static constexpr unsigned masks = 0x1f80, flags = 0x003f;
  unsigned callers_;
#else
  FloatingPoint() noexcept { std::feholdexcept(&callers_); }
  ~FloatingPoint() { std::fesetenv(&callers_); }

 private:
  std::fenv_t callers_;
#endif
};

// Runs f; its exceptions become statuses.
template <class F>
convt_status guard(F&& f) noexcept {
  const FloatingPoint environment;
  try {
    f();
    return CONVT_OK;
  } catch (const core::Error& error) {
    return fail(error.status(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(CONVT_OUT_OF_MEMORY, "host memory ran out");
  } catch (const std::exception& error) {
    return fail(CONVT_INTERNAL_ERROR, error.what());
  } catch (...) {
    return fail(CONVT_INTERNAL_ERROR, "an unknown exception");
  }
}

template <class T>
T& not_null(const char* argument, T* pointer) {
  if (pointer == nullptr) core::reject(argument, "must not be null");
  return *pointer;
}

template <class T>
std::size_t checked_size(const char* argument, const T* tagged, std::size_t first_size) {
  const std::size_t size = not_null(argument, tagged).struct_size;
  constexpr std::size_t largest = 4096;  // no version will be: beyond it, the field was not set
  if (size < first_size || size > largest || size % alignof(T) != 0)
    core::reject(argument, "has struct_size {}, which no version has: set it to its sizeof, {} here", size, sizeof(T));
  return size;
}

// A size-tagged struct from a caller of an older or newer version: fields the caller does not know keep their value in
// `defaults`; fields this library does not know must be zero. `first_size` is the struct's size in version 0.1.
template <class T>
T sized_copy(const char* argument, const T* from, const T& defaults, std::size_t first_size) {
  static_assert(std::is_trivially_copyable_v<T>);
  const std::size_t size = checked_size(argument, from, first_size);
  T copy = defaults;
  std::memcpy(&copy, from, size < sizeof(T) ? size : sizeof(T));
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  for (std::size_t i = sizeof(T); i < size; ++i)
    if (bytes[i] != 0)
      throw core::Error(CONVT_UNSUPPORTED, core::formatted("{}: byte {} is set, a field this version does not know "
                                                           "(struct_size {}, here {})",
                                                           argument, i, size, sizeof(T)));
  return copy;
}

// The other way: what the caller's version knows of `from` is written, its struct_size kept.
template <class T>
void sized_write(const char* argument, const T& from, T* to, std::size_t first_size) {
  const std::size_t size = checked_size(argument, to, first_size);
  std::memcpy(to, &from, size < sizeof(T) ? size : sizeof(T));
  to->struct_size = size;
}

}  // namespace convt::capi
