// SPDX-License-Identifier: Apache-2.0
// A value that the first who asks for it makes. No lock and no guard: two threads may make it at the same time, and one
// of them throws its own away. So neither an exception nor a fork() on the way leaves anything behind.
#pragma once

#include <atomic>
#include <memory>

namespace convt::core {

template <class T>
class Lazy {
 public:
  constexpr Lazy() = default;
  Lazy(const Lazy&) = delete;
  Lazy& operator=(const Lazy&) = delete;
  ~Lazy() { delete value_.load(std::memory_order_acquire); }

  template <class Make>
  const T& get(const Make& make) const {
    if (const T* known = value_.load(std::memory_order_acquire)) return *known;
    auto made = std::make_unique<const T>(make());
    const T* first = nullptr;
    if (!value_.compare_exchange_strong(first, made.get(), std::memory_order_acq_rel)) return *first;
    return *made.release();
  }

 private:
  mutable std::atomic<const T*> value_{nullptr};
};

}  // namespace convt::core
