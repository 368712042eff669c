// SPDX-License-Identifier: Apache-2.0
#include "cuda/common/shared_limits.hpp"

#include <atomic>
#include <cstddef>

namespace convt::core::cuda {
namespace {

// Kernels, and the context in which each had its limit set last: each context has its own limits. Kernels that find no
// place have none.
struct Entry {
  std::atomic<void (*)()> kernel{nullptr};
  std::atomic<std::uint64_t> context{0};
};
constexpr std::size_t places = 512;
constinit Entry entries[places];

// The kernel's entry, perhaps a new one; null if there is no place.
Entry* entry_of(void (*kernel)()) {
  const auto address = reinterpret_cast<std::uintptr_t>(kernel);
  for (std::size_t i = 0, at = (address / 16) % places; i < places; ++i, at = (at + 1) % places) {
    void (*known)() = entries[at].kernel.load(std::memory_order_acquire);
    if (known == nullptr) entries[at].kernel.compare_exchange_strong(known, kernel);  // another thread may be faster
    if (known == nullptr || known == kernel) return &entries[at];
  }
  return nullptr;
}

}  // namespace

bool has_shared_limit(void (*kernel)(), std::uint64_t context) {
  const Entry* const entry = entry_of(kernel);
  return context != 0 && entry != nullptr && entry->context.load(std::memory_order_acquire) == context;
}

void set_shared_limit(void (*kernel)(), std::uint64_t context) {
  if (Entry* const entry = entry_of(kernel)) entry->context.store(context, std::memory_order_release);
}

}  // namespace convt::core::cuda
