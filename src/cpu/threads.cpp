// SPDX-License-Identifier: Apache-2.0
#include "cpu/threads.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <utility>

#include "base/settings.hpp"

namespace convt::core::cpu {
namespace {

// A sleeping thread takes about this long to run again: who waits this long awake, and then sleeps, spends at most
// twice what the better choice would have cost. The passes of one call, and calls in a row, are closer together than
// this.
constexpr std::chrono::microseconds spin_time{50};

// Beyond one thread per CPU, threads take turns. Twice that, since CPUs come online later; and never less than 16, so
// that small machines can show what large ones do.
constexpr std::size_t fewest_limit = 16;
constexpr std::size_t most_limit = 4096;

// A thread that cannot be started takes up to 200 us to find that out.
constexpr std::chrono::seconds pause_after_failure{1};

std::size_t limit_of_workers() {
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return std::clamp(2 * static_cast<std::size_t>(std::max(online, 1L)), fewest_limit, most_limit);
}

constexpr std::size_t cache_line = 64;

void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Whether `condition` came true within spin_time.
template <class Condition>
bool spin_until(const Condition& condition) {
  constexpr int tries_per_look_at_the_clock = 16;
  const auto deadline = std::chrono::steady_clock::now() + spin_time;
  do {
    for (int i = 0; i < tries_per_look_at_the_clock; ++i) {
      if (condition()) return true;
      pause_cpu();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

// Lives on its caller's stack, until `active` is 0 and it is out of the pool's list. What many threads write is on
// cache lines of its own, here and in the pool.
struct Loop {  // NOLINT(clang-analyzer-optin.performance.Padding)
  LoopBody body;
  std::int64_t count;
  std::fenv_t environment;

  // The pool's mutex guards these.
  Loop* below = nullptr;
  std::size_t places;  // how many workers may still join
  std::size_t joined = 0;

  std::atomic<bool> failed{false};
  std::exception_ptr error;  // written by the one thread that set `failed`

  alignas(cache_line) std::atomic<std::int64_t> next{0};
  alignas(cache_line) std::atomic<std::size_t> active{0};  // workers inside

  Loop(LoopBody body_, std::int64_t count_, std::size_t places_) : body(body_), count(count_), places(places_) {
    std::fegetenv(&environment);
  }

  bool exhausted() const { return next.load(std::memory_order_relaxed) >= count; }

  void run(std::size_t slot, const std::atomic<bool>* stop) noexcept {
    try {
      while (stop == nullptr || !stop->load(std::memory_order_relaxed)) {
        const std::int64_t item = next.fetch_add(1, std::memory_order_relaxed);
        if (item >= count) break;
        body(item, slot);
      }
    } catch (...) {
      if (!failed.exchange(true, std::memory_order_relaxed)) error = std::current_exception();
      next.store(count, std::memory_order_relaxed);
    }
  }
};

struct Place {
  Loop* loop = nullptr;
  std::size_t slot = 0;
};

thread_local bool inside_body = false;

class Inside {
 public:
  Inside() = default;
  ~Inside() { inside_body = nested; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  const bool nested = std::exchange(inside_body, true);
};

// A lent thread's part in a loop.
void run_lent(void* argument, std::size_t slot) {
  Loop& loop = *static_cast<Loop*>(argument);
  const Inside inside;
  std::fenv_t own;
  std::fegetenv(&own);
  std::fesetenv(&loop.environment);
  loop.run(slot, nullptr);
  std::fesetenv(&own);
}

class Pool {  // NOLINT(clang-analyzer-optin.performance.Padding)
 public:
  void run(Loop& loop);
  void stop();

 private:
  void start_workers(std::size_t wanted);
  static void* worker(void* pool);
  Place wait_for_place();
  Place take_place();
  void leave(Loop& loop);
  void unlock_and_wake(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  Loop* loops_ = nullptr;
  std::size_t sleeping_ = 0;  // workers that nobody has called
  std::size_t calls_ = 0;     // to sleeping workers that have not woken yet
  std::condition_variable call_;
  std::condition_variable left_;  // a loop's last worker left it

  // Of all loops. Changed under the mutex; workers that spin look at it without.
  alignas(cache_line) std::atomic<std::size_t> places_{0};
  std::atomic<bool> stopping_{false};
  alignas(cache_line) std::atomic<std::size_t> idle_{0};  // workers outside loops that do not sleep, or are called
  std::atomic<std::size_t> waiting_callers_{0};           // asleep

  std::mutex start_mutex_;  // taken before mutex_
  std::atomic<std::size_t> started_{0};
  std::atomic<std::size_t> limit_{most_limit};
  std::chrono::steady_clock::time_point next_try_;  // to start workers
  pthread_t threads_[most_limit];                   // `started_` of them are valid
};

void Pool::start_workers(std::size_t wanted) {
  if (started_.load(std::memory_order_relaxed) >= std::min(wanted, limit_.load(std::memory_order_relaxed))) return;
  const std::lock_guard starting(start_mutex_);
  std::size_t started = started_.load(std::memory_order_relaxed);
  if (started == 0) limit_.store(limit_of_workers(), std::memory_order_relaxed);
  wanted = std::min(wanted, limit_.load(std::memory_order_relaxed));
  const auto now = std::chrono::steady_clock::now();
  while (started < wanted && now >= next_try_ && !stopping_.load(std::memory_order_relaxed)) {
    if (pthread_create(&threads_[started], nullptr, &Pool::worker, this) != 0)
      next_try_ = now + pause_after_failure;
    else
      started_.store(++started, std::memory_order_relaxed);
  }
}

void* Pool::worker(void* pool_pointer) {
#ifdef __linux__
  pthread_setname_np(pthread_self(), "convt");
#endif
  Pool& pool = *static_cast<Pool*>(pool_pointer);
  inside_body = true;
  pool.idle_.fetch_add(1, std::memory_order_relaxed);
  for (;;) {
    const Place place = pool.wait_for_place();
    if (place.loop == nullptr) return nullptr;
    std::fesetenv(&place.loop->environment);
    place.loop->run(place.slot, &pool.stopping_);
    pool.leave(*place.loop);
  }
}

// No loop: the pool stops.
Place Pool::wait_for_place() {
  Place place;
  for (;;) {
    const bool settled = spin_until([&] {
      if (stopping_.load(std::memory_order_relaxed)) return true;
      if (places_.load(std::memory_order_relaxed) == 0) return false;
      // Not lock(): many may see the places at once, and none should go to sleep over it.
      std::unique_lock lock(mutex_, std::try_to_lock);
      if (!lock.owns_lock()) return false;
      place = take_place();
      unlock_and_wake(lock);
      return place.loop != nullptr;
    });
    if (settled) return place;

    std::unique_lock lock(mutex_);
    if (places_.load(std::memory_order_relaxed) != 0) continue;
    idle_.fetch_sub(1, std::memory_order_relaxed);
    ++sleeping_;
    call_.wait(lock, [&] { return calls_ != 0 || stopping_.load(std::memory_order_relaxed); });
    if (calls_ != 0) --calls_;
  }
}

// In the loop that has the fewest workers. Under the mutex.
Place Pool::take_place() {
  Loop* best = nullptr;
  for (Loop* loop = loops_; loop != nullptr; loop = loop->below) {
    if (loop->exhausted()) {
      places_.fetch_sub(std::exchange(loop->places, 0), std::memory_order_relaxed);
    } else if (loop->places != 0 && (best == nullptr || loop->joined < best->joined)) {
      best = loop;
    }
  }
  if (best == nullptr) return {};
  --best->places;
  places_.fetch_sub(1, std::memory_order_relaxed);
  idle_.fetch_sub(1, std::memory_order_relaxed);
  best->active.fetch_add(1, std::memory_order_relaxed);
  return {best, ++best->joined};
}

// Sequentially consistent, as in run(): either this thread sees that the caller waits, or the caller sees that nobody
// is inside. The loop may be gone as soon as this thread is out of it.
void Pool::leave(Loop& loop) {
  idle_.fetch_add(1, std::memory_order_relaxed);
  if (loop.active.fetch_sub(1) != 1 || waiting_callers_.load() == 0) return;
  { const std::lock_guard lock(mutex_); }
  left_.notify_all();
}

// Calls sleeping workers if the idle ones are fewer than the places. At most two: each of them calls two more.
void Pool::unlock_and_wake(std::unique_lock<std::mutex>& lock) {
  int calls = 0;
  while (calls < 2 && sleeping_ != 0 &&
         idle_.load(std::memory_order_relaxed) < places_.load(std::memory_order_relaxed)) {
    --sleeping_;
    idle_.fetch_add(1, std::memory_order_relaxed);
    ++calls_;
    ++calls;
  }
  lock.unlock();
  for (; calls != 0; --calls) call_.notify_one();
}

void Pool::run(Loop& loop) {
  start_workers(loop.places);
  {
    std::unique_lock lock(mutex_);
    loop.below = std::exchange(loops_, &loop);
    places_.fetch_add(loop.places, std::memory_order_relaxed);
    unlock_and_wake(lock);
  }
  loop.run(0, nullptr);
  {
    const std::lock_guard lock(mutex_);
    Loop** link = &loops_;
    while (*link != &loop) link = &(*link)->below;
    *link = loop.below;
    places_.fetch_sub(loop.places, std::memory_order_relaxed);
  }
  const auto all_left = [&] { return loop.active.load() == 0; };
  if (spin_until(all_left)) return;
  std::unique_lock lock(mutex_);
  waiting_callers_.fetch_add(1);
  left_.wait(lock, all_left);
  waiting_callers_.fetch_sub(1);
}

// Workers leave after the item they are at; the loops' callers do the rest.
void Pool::stop() {
  const std::lock_guard starting(start_mutex_);
  {
    const std::lock_guard lock(mutex_);
    stopping_.store(true, std::memory_order_relaxed);
  }
  call_.notify_all();
  const std::size_t started = started_.exchange(0, std::memory_order_relaxed);
  for (std::size_t i = 0; i < started; ++i)
    if (pthread_equal(threads_[i], pthread_self()) != 0) return;  // a body called exit()
  for (std::size_t i = 0; i < started; ++i) pthread_join(threads_[i], nullptr);
}

// The pool itself is never destroyed: at exit, threads that nobody joined may still be in a loop.
class Home {
 public:
  Home() noexcept {
    new (&pool) Pool;
    pthread_atfork(nullptr, nullptr, [] { home.restart_in_child(); });
  }
  Home(const Home&) = delete;
  Home& operator=(const Home&) = delete;
  ~Home() { pool.stop(); }

  union {
    Pool pool;
  };
  static Home home;

 private:
  // Written over, not destroyed: the mutexes and condition variables are in use by threads that the child does not
  // have.
  void restart_in_child() { new (&pool) Pool; }
};

Home Home::home;

}  // namespace

Crew crew_of(const convt_thread_pool* lent, std::size_t most) {
  const bool says = lent != nullptr && lent->num_threads != 0;
  return {std::min(says ? lent->num_threads : num_threads(), most), lent};
}

std::size_t most_threads() { return limit_of_workers() + 1; }

void parallel_for(std::int64_t count, Crew crew, LoopBody body) {
  const Inside inside;
  if (count <= 1 || crew.threads <= 1 || inside.nested) {
    for (std::int64_t item = 0; item < count; ++item) body(item, 0);
    return;
  }
  Loop loop(body, count,
            static_cast<std::size_t>(std::min<std::uint64_t>(crew.threads, static_cast<std::uint64_t>(count))) - 1);
  if (crew.lent != nullptr) {
    crew.lent->parallel_for(crew.lent->context, loop.places + 1, run_lent, &loop);
    loop.run(0, nullptr);  // what is left, if not all tasks were called
  } else {
    Home::home.pool.run(loop);
  }
  if (loop.error) std::rethrow_exception(std::move(loop.error));
}

}  // namespace convt::core::cpu
