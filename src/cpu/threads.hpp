// SPDX-License-Identifier: Apache-2.0
// The one pool of threads that all callers of the process share, and the one thing it does: a loop over a counter.
//
// A pool of our own, because that loop is all the engines need. oneTBB would be the only shared library libconvt needs
// beside the C++ runtime, exists as a shared library only, and its workers do not survive fork(), which data loaders
// call. OpenMP would be a second runtime beside PyTorch's, with one set of threads per calling thread.
//
// Workers are started when a loop first asks for them and are then kept, asleep; they inherit the CPU affinity and the
// signal mask of the thread whose call started them, and take on the floating-point environment (rounding, flushing of
// subnormals) of the thread whose loop they join. A child of fork() starts workers of its own, whatever other threads
// of the parent were doing; only a body must not fork. They are joined at exit and at dlclose(): loops after that run
// on their callers alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "convt/convt.h"

namespace convt::core::cpu {

// A reference to anything that can be called as body(item, slot); what it refers to outlives it.
class LoopBody {
 public:
  template <class F>
  LoopBody(const F& function) noexcept  // NOLINT(google-explicit-constructor): lambdas are passed as they are
      : function_(std::addressof(function)),
        call_([](const void* f, std::int64_t item, std::size_t slot) { (*static_cast<const F*>(f))(item, slot); }) {}

  void operator()(std::int64_t item, std::size_t slot) const { call_(function_, item, slot); }

 private:
  const void* function_;
  void (*call_)(const void*, std::int64_t, std::size_t);
};

// Who works at a loop: so many threads at most, of the one pool or of one that the library's caller lends.
struct Crew {
  Crew(std::size_t threads_, const convt_thread_pool* lent_ = nullptr) noexcept  // NOLINT(google-explicit-constructor)
      : threads(threads_), lent(lent_) {}

  std::size_t threads;
  const convt_thread_pool* lent;
};

// What a caller lends, if anything, or the pool; `most` at most.
Crew crew_of(const convt_thread_pool* lent, std::size_t most);

// More than this many threads never work at one loop, whatever it asks for.
std::size_t most_threads();

// Calls body(item, slot) for every item of [0, count), from the calling thread and up to crew.threads-1 workers.
//   - Items are handed out in ascending order, one at a time, to whoever is free.
//   - slot < crew.threads, and within one loop a slot is used by one thread only: scratch memory per slot needs no
//   lock.
//   - Returns when all items are done, and what the bodies wrote is then visible to the caller.
//   - If a body throws, items not yet begun are skipped and the first exception is thrown here.
//   - The caller works too: it is done even if no worker is free or none can be started.
//   - Called from inside a body, it runs on its caller alone, in slot 0.
//   - Lent threads take the workers' place, a slot each, in the same floating-point environment, and get their own one
//     back; no worker is started.
void parallel_for(std::int64_t count, Crew crew, LoopBody body);

}  // namespace convt::core::cpu
