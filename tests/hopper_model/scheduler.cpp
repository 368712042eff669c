// SPDX-License-Identifier: Apache-2.0
#include "hopper_model/scheduler.hpp"

#include <numeric>
#include <utility>

namespace hopper_model {

void Machine::start(unsigned index) {
  copies_.clear();
  block_ = {};
  constexpr unsigned char poison = 0xff;  // NaN in every format
  block_.index = index;
  block_.live = static_cast<int>(work_.threads);
  block_.threads.resize(work_.threads);
  block_.warps.resize((work_.threads + warp_threads - 1) / warp_threads);
  block_.storage.assign(memory_bytes + 1024, poison);
  block_.async.assign(memory_bytes, poison);
  const auto begin = reinterpret_cast<std::uintptr_t>(block_.storage.data());
  block_.memory = block_.storage.data() + (1024 - begin % 1024) % 1024;
  block_.end = dynamic_begin + static_cast<std::uint32_t>(work_.shared);
  for (unsigned t = 0; t < work_.threads; ++t) block_.threads[t].index = static_cast<int>(t);
  blockIdx = {index, 0, 0};
  fibers_.start(work_.threads, [this] {
    kernel_();
    leave();
  });
}

std::string Machine::run() {
  if (work_.shared > most_shared) return fmt::format("{} bytes of shared memory, of {}", work_.shared, most_shared);
  Machine* const before = std::exchange(machine, this);
  gridDim = {work_.grid, 1, 1};
  for (unsigned index = 0; index < work_.grid && !failure_; ++index) {
    start(index);
    while (!failure_ && block_.live > 0)
      if (!round() && !(random(4) != 0 && deliver()) && !wake() && !deliver()) failure_ = stuck();
    if (!failure_) check_end();
  }
  machine = before;
  return failure_.value_or("");
}

// Lanes that are awake go on until they wait, warp by warp in any order.
bool Machine::round() {
  std::vector<std::size_t> turns(block_.warps.size());
  std::iota(turns.begin(), turns.end(), std::size_t{0});
  for (std::size_t i = turns.size(); i > 1; --i) std::swap(turns[i - 1], turns[random(i)]);
  bool any = false;
  for (const std::size_t warp : turns) {
    doze(block_.warps[warp]);
    const bool backwards = random(2) == 0;
    for (int i = 0; i < warp_threads; ++i) {
      const int lane = backwards ? warp_threads - 1 - i : i;
      Thread* const thread = block_.lane(warp, lane);
      if (thread == nullptr || !thread->ready() || block_.warps[warp].sleeps(lane)) continue;
      any = true;
      resume(*thread);
      if (failure_) return true;
    }
    block_.publish();
  }
  return any;
}

// A warp, or some of its lanes, fall asleep or wake up.
void Machine::doze(Warp& warp) {
  if (warp.asleep != 0) {
    if (random(16) == 0) warp.asleep = 0;
    return;
  }
  if (random(8) != 0) return;
  constexpr std::uint32_t all = ~0U, all_but_first = ~1U;
  const std::uint64_t which = random(3);
  warp.asleep = which == 0 ? all : which == 1 ? all_but_first : static_cast<std::uint32_t>(random(all));
}

// One that sleeps and could go on.
bool Machine::wake() {
  std::vector<Warp*> warps;
  for (std::size_t warp = 0; warp < block_.warps.size(); ++warp)
    for (int i = 0; i < warp_threads; ++i)
      if (const Thread* const thread = block_.lane(warp, i); thread != nullptr && thread->ready()) {
        warps.push_back(&block_.warps[warp]);
        break;
      }
  if (warps.empty()) return false;
  warps[random(warps.size())]->asleep = 0;
  return true;
}

void Machine::resume(Thread& thread) {
  thread_ = &thread;
  thread.meeting = nullptr;
  thread.barrier = nullptr;
  threadIdx = {static_cast<unsigned>(thread.index), 0, 0};
  fibers_.resume(static_cast<std::size_t>(thread.index));
}

void Machine::give_way() { fibers_.give_way(); }

void Machine::leave() {
  if (!thread_->products.empty()) fail("a thread ends while products are under way");
  thread_->done = true;
  --block_.live;
  if (Meeting& all = block_.all; all.arrived > 0 && all.arrived == block_.live) {
    all.arrived = 0;
    ++all.generation;
  }
}

void Machine::fail(std::string what) {
  failure_ = fmt::format("block {}, thread {}: {}", block_.index, thread_->index, what);
  while (true) give_way();
}

void Machine::check_end() {
  if (!copies_.empty()) failure_ = "a bulk copy is under way when its block ends";
  for (std::size_t warp = 0; warp < block_.warps.size(); ++warp)
    if (block_.warps[warp].history != block_.warps[warp / group_warps * group_warps].history)
      failure_ = fmt::format("warp {} multiplied something else than the others of its warpgroup", warp);
}

std::string Machine::stuck() const {
  std::string text = "nobody can go on:", before;
  for (const Thread& thread : block_.threads) {
    if (thread.done) continue;
    const std::string waits =
        thread.barrier == nullptr
            ? thread.meeting->what
            : fmt::format("barrier {} (of {} arrivals {} are missing, and {} bytes), in phase {}, parity {}",
                          thread.barrier->number, thread.barrier->expected, thread.barrier->pending,
                          thread.barrier->bytes, thread.barrier->phase, thread.parity);
    const std::string line =
        fmt::format("\n  block {}, warp {} waits for {}", block_.index, thread.index / warp_threads, waits);
    if (line != before) text += line + fmt::format(" (thread {} and perhaps more)", thread.index);
    before = line;
  }
  return text;
}

unsigned char* Machine::place(std::uint32_t address, int bytes) {
  if (address < static_begin || std::int64_t{address} + bytes > block_.end)
    fail(fmt::format("{} bytes at address {} are outside of shared memory, which ends at {}", bytes, address,
                     block_.end));
  return block_.memory + address;
}

Barrier& Machine::barrier_at(std::uint32_t address) {
  const auto found = block_.barriers.find(address);
  if (found == block_.barriers.end()) fail(fmt::format("there is no barrier at address {:#x}", address));
  return found->second;
}

void Machine::wait(const Barrier& barrier, int parity) {
  if (static_cast<int>(barrier.phase & 1) != parity) return;
  thread_->barrier = &barrier;
  thread_->parity = parity;
  give_way();
}

void Machine::complete(Barrier& barrier) {
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  barrier.pending = barrier.expected;
  ++barrier.phase;
}

void Machine::issue(const Copy& copy) {
  const auto bytes = static_cast<std::size_t>(copy.bytes);
  std::memset(place(copy.to, copy.bytes), 0xff, bytes);
  std::memset(block_.async.data() + copy.to, 0xff, bytes);
  if (schedule_.late)
    copies_.push_back(copy);
  else
    deliver(copy);
}

bool Machine::deliver() {
  if (copies_.empty()) return false;
  const std::size_t next = random(copies_.size());
  deliver(copies_[next]);
  copies_.erase(copies_.begin() + static_cast<std::ptrdiff_t>(next));
  return true;
}

void Machine::deliver(const Copy& copy) {
  const auto bytes = static_cast<std::size_t>(copy.bytes);
  std::memcpy(block_.memory + copy.to, copy.from, bytes);
  std::memcpy(block_.async.data() + copy.to, copy.from, bytes);
  copy.barrier->bytes -= copy.bytes;
  complete(*copy.barrier);
}

// Of the first groups that are not done, for the whole warp.
void Machine::multiply_groups(std::size_t count) {
  const int first = thread_->index - lane();
  Thread* const lanes = &block_.threads[static_cast<std::size_t>(first)];
  std::size_t products = 0;
  for (std::size_t g = 0; g < count; ++g) products += lanes[0].groups[g];
  for (int i = 1; i < warp_threads; ++i)
    if (lanes[i].products != lanes[0].products || lanes[i].groups != lanes[0].groups)
      fail("lanes of a warp multiply different operands");
  block_.publish();
  const AsyncView view{block_.async.data(), dynamic_begin, block_.end};
  for (std::size_t k = 0; k < products; ++k) {
    const Product& product = lanes[0].products[k];
    float* sums[warp_threads];
    for (int i = 0; i < warp_threads; ++i) sums[i] = lanes[i].sums[k];
    const std::string defect = multiply_rows(product, view, first / warp_threads % group_warps, sums);
    if (!defect.empty()) fail(defect);
    std::uint64_t& history = warp().history;
    history = (history * 31 + product.a) * 31 + product.b;
  }
  for (int i = 0; i < warp_threads; ++i) {
    Thread& t = lanes[i];
    t.products.erase(t.products.begin(), t.products.begin() + static_cast<std::ptrdiff_t>(products));
    t.sums.erase(t.sums.begin(), t.sums.begin() + static_cast<std::ptrdiff_t>(products));
    t.groups.erase(t.groups.begin(), t.groups.begin() + static_cast<std::ptrdiff_t>(count));
    t.committed -= products;
  }
}

}  // namespace hopper_model
