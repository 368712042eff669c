// SPDX-License-Identifier: Apache-2.0
#include "hopper_model/machine.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "hopper_model/fibers.hpp"
#include "hopper_model/products.hpp"

namespace hopper_model {
namespace {

// Addresses: the first KiB is the system's, as on the hardware; then static memory, then what the launch asks for, not
// at a round address.
constexpr std::uint32_t static_begin = 1024, dynamic_begin = 1024 + 4096 + 16, memory_bytes = 1 << 18;
constexpr std::uint32_t offset_bits = 24;
constexpr int named_barriers = 16;

// Threads wait until enough have come.
struct Meeting {
  int arrived = 0;
  const char* what = "";  // its last one
  unsigned generation = 0;
};

struct Barrier {
  int expected = 0, pending = 0;
  std::int64_t bytes = 0;  // that are still to come
  unsigned phase = 0;
  int number = 0;  // in the order of their making
};

struct Thread {
  int index = 0;
  bool done = false;
  // What it waits for, if anything.
  const Meeting* meeting = nullptr;
  unsigned generation = 0;
  const Barrier* barrier = nullptr;
  int parity = 0;
  // Products since the last that were done, and how many of them each group has.
  std::vector<Product> products;
  std::vector<float*> sums;
  std::vector<std::size_t> groups;
  std::size_t committed = 0;

  bool ready() const {
    if (meeting != nullptr) return meeting->generation != generation;
    return barrier == nullptr || static_cast<int>(barrier->phase & 1) != parity;
  }
};

struct Warp {
  Meeting meeting;
  std::uint64_t brought[2][warp_threads] = {};
  std::uint64_t history = 0;  // of its products
};

struct Block {
  unsigned index = 0;
  int rank = 0, live = 0, static_used = 0;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<unsigned char> storage, async;  // as threads see it, and as matrix instructions do
  unsigned char* memory = nullptr;
  std::uint32_t end = 0;
  Meeting all, named[named_barriers];
  std::map<std::uint32_t, Barrier> barriers;
};

struct Copy {
  Block* block;
  std::uint32_t to, barrier;
  const void* from;
  int bytes;
};

class Machine {
 public:
  Machine(const Work& work, const Schedule& schedule, const std::function<void()>& kernel)
      : work_(work), schedule_(schedule), kernel_(kernel), random_(schedule.seed * 0x9e3779b97f4a7c15U + 1) {}

  std::string run();

  Block& block() { return *block_; }
  Thread& thread() { return *thread_; }
  Warp& warp() { return block_->warps[static_cast<std::size_t>(thread_->index / warp_threads)]; }
  int lane() const { return thread_->index % warp_threads; }
  Block& block_at(std::uint32_t address);
  Barrier& barrier_at(std::uint32_t address);
  unsigned char* place(Block& block, std::uint32_t address, int bytes);

  [[noreturn]] void fail(std::string what);
  template <class F>
  void meet(Meeting& meeting, int needed, const char* what, F&& last);
  void meet(Meeting& meeting, int needed, const char* what) {
    meet(meeting, needed, what, [] {});
  }
  void wait(const Barrier& barrier, int parity);
  void complete(Barrier& barrier);
  void issue(const Copy& copy);
  void multiply_groups(std::size_t count);
  void meet_cluster();
  bool late() const { return schedule_.late; }
  std::size_t cluster() const { return blocks_.size(); }

 private:
  std::uint64_t random(std::uint64_t below) {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return random_ % below;
  }
  void start(unsigned first_block);
  void give_way();
  void leave();
  void resume(Block& block, Thread& thread);
  bool round(bool all_awake);
  bool deliver();
  void deliver(const Copy& copy);
  void check_end();
  std::string stuck() const;

  Work work_;
  Schedule schedule_;
  const std::function<void()>& kernel_;
  std::uint64_t random_;
  std::vector<std::unique_ptr<Block>> blocks_;  // of a cluster
  std::vector<Copy> copies_;
  Meeting cluster_meeting_;
  Block* block_ = nullptr;
  Thread* thread_ = nullptr;
  std::optional<std::string> failure_;
  Fibers fibers_;
};

thread_local Machine* machine = nullptr;
thread_local Schedule schedule_to_come;

void Machine::start(unsigned first_block) {
  blocks_.clear();
  copies_.clear();
  cluster_meeting_ = {};
  constexpr unsigned char poison = 0xff;  // NaN in every format
  for (unsigned i = 0; i < work_.cluster; ++i) {
    auto block = std::make_unique<Block>();
    block->index = first_block + i;
    block->rank = static_cast<int>(i);
    block->live = static_cast<int>(work_.threads);
    block->threads.resize(work_.threads);
    block->warps.resize((work_.threads + warp_threads - 1) / warp_threads);
    block->storage.assign(memory_bytes + 1024, poison);
    block->async.assign(memory_bytes, poison);
    const auto begin = reinterpret_cast<std::uintptr_t>(block->storage.data());
    block->memory = block->storage.data() + (1024 - begin % 1024) % 1024;
    block->end = dynamic_begin + static_cast<std::uint32_t>(work_.shared);
    for (unsigned t = 0; t < work_.threads; ++t) block->threads[t].index = static_cast<int>(t);
    blocks_.push_back(std::move(block));
  }
  fibers_.start(work_.threads * work_.cluster, [this] {
    kernel_();
    leave();
  });
}

std::string Machine::run() {
  if (work_.shared > most_shared) return fmt::format("{} bytes of shared memory, of {}", work_.shared, most_shared);
  if (work_.cluster == 0 || work_.grid % work_.cluster != 0) return "the grid is no multiple of the cluster";
  Machine* const before = std::exchange(machine, this);
  gridDim = {work_.grid, 1, 1};
  for (unsigned first = 0; first < work_.grid && !failure_; first += work_.cluster) {
    start(first);
    const auto any_live = [&] {
      return std::any_of(blocks_.begin(), blocks_.end(), [](const auto& block) { return block->live > 0; });
    };
    while (!failure_ && any_live())
      if (!round(false) && !round(true) && !deliver()) failure_ = stuck();
    if (!failure_) check_end();
  }
  machine = before;
  return failure_.value_or("");
}

// One step of every warp that can go on; some sleep.
bool Machine::round(bool all_awake) {
  struct Turn {
    Block* block;
    std::size_t warp;
  };
  std::vector<Turn> turns;
  for (const auto& block : blocks_)
    for (std::size_t warp = 0; warp < block->warps.size(); ++warp) turns.push_back({block.get(), warp});
  for (std::size_t i = turns.size(); i > 1; --i) std::swap(turns[i - 1], turns[random(i)]);
  bool any = false;
  for (const Turn& turn : turns) {
    if (!all_awake && random(4) == 0) continue;
    const bool backwards = random(2) == 0;
    for (int i = 0; i < warp_threads; ++i) {
      const int lane = backwards ? warp_threads - 1 - i : i;
      const std::size_t index = turn.warp * warp_threads + static_cast<std::size_t>(lane);
      if (index >= turn.block->threads.size()) continue;
      Thread& thread = turn.block->threads[index];
      if (thread.done || !thread.ready()) continue;
      any = true;
      resume(*turn.block, thread);
      if (failure_) return true;
    }
  }
  return any;
}

void Machine::resume(Block& block, Thread& thread) {
  block_ = &block;
  thread_ = &thread;
  thread.meeting = nullptr;
  thread.barrier = nullptr;
  threadIdx = {static_cast<unsigned>(thread.index), 0, 0};
  blockIdx = {block.index, 0, 0};
  fibers_.resume(static_cast<std::size_t>(block.rank) * work_.threads + static_cast<std::size_t>(thread.index));
}

void Machine::give_way() { fibers_.give_way(); }

void Machine::leave() {
  if (!thread_->products.empty()) fail("a thread ends while products are under way");
  thread_->done = true;
  --block_->live;
  if (Meeting& all = block_->all; all.arrived > 0 && all.arrived == block_->live) {
    all.arrived = 0;
    ++all.generation;
  }
}

void Machine::fail(std::string what) {
  failure_ = fmt::format("block {}, thread {}: {}", block_->index, thread_->index, what);
  while (true) give_way();
}

void Machine::check_end() {
  if (!copies_.empty()) failure_ = "a bulk copy is under way when its block ends";
  for (const auto& block : blocks_)
    for (std::size_t warp = 0; warp < block->warps.size(); ++warp)
      if (block->warps[warp].history != block->warps[warp / group_warps * group_warps].history)
        failure_ = fmt::format("warp {} multiplied something else than the others of its warpgroup", warp);
}

std::string Machine::stuck() const {
  std::string text = "nobody can go on:";
  for (const auto& block : blocks_) {
    std::string before;
    for (const Thread& thread : block->threads) {
      if (thread.done) continue;
      const std::string waits =
          thread.barrier == nullptr
              ? thread.meeting->what
              : fmt::format("barrier {} (of {} arrivals {} are missing, and {} bytes), in phase {}, parity {}",
                            thread.barrier->number, thread.barrier->expected, thread.barrier->pending,
                            thread.barrier->bytes, thread.barrier->phase, thread.parity);
      const std::string line =
          fmt::format("\n  block {}, warp {} waits for {}", block->index, thread.index / warp_threads, waits);
      if (line != before) text += line + fmt::format(" (thread {} and perhaps more)", thread.index);
      before = line;
    }
  }
  return text;
}

Block& Machine::block_at(std::uint32_t address) {
  const std::uint32_t rank = address >> offset_bits;
  if (rank > blocks_.size()) fail(fmt::format("address {:#x} is in no block of the cluster", address));
  return rank == 0 ? *block_ : *blocks_[rank - 1];
}

unsigned char* Machine::place(Block& block, std::uint32_t address, int bytes) {
  const std::uint32_t offset = address & ((1U << offset_bits) - 1);
  if (offset < static_begin || offset + static_cast<std::uint32_t>(bytes) > block.end)
    fail(
        fmt::format("{} bytes at address {} are outside of shared memory, which ends at {}", bytes, offset, block.end));
  return block.memory + offset;
}

Barrier& Machine::barrier_at(std::uint32_t address) {
  auto& barriers = block_at(address).barriers;
  const auto found = barriers.find(address & ((1U << offset_bits) - 1));
  if (found == barriers.end()) fail(fmt::format("there is no barrier at address {:#x}", address));
  return found->second;
}

template <class F>
void Machine::meet(Meeting& meeting, int needed, const char* what, F&& last) {
  if (meeting.arrived > 0 && std::strcmp(meeting.what, what) != 0)
    fail(fmt::format("it waits for {}, while others wait for {}", what, meeting.what));
  meeting.what = what;
  if (++meeting.arrived == needed) {
    last();
    meeting.arrived = 0;
    ++meeting.generation;
    return;
  }
  thread_->meeting = &meeting;
  thread_->generation = meeting.generation;
  give_way();
}

void Machine::meet_cluster() {
  int live = 0;
  for (const auto& block : blocks_) live += block->live;
  meet(cluster_meeting_, live, "the cluster");
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
  std::memset(place(*copy.block, copy.to, copy.bytes), 0xff, bytes);
  std::memset(copy.block->async.data() + copy.to, 0xff, bytes);
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
  std::memcpy(copy.block->memory + copy.to, copy.from, bytes);
  std::memcpy(copy.block->async.data() + copy.to, copy.from, bytes);
  Barrier& barrier = copy.block->barriers.at(copy.barrier);
  barrier.bytes -= copy.bytes;
  complete(barrier);
}

// Of the first groups that are not done, for the whole warp.
void Machine::multiply_groups(std::size_t count) {
  const int first = thread_->index - lane();
  Thread* const lanes = &block_->threads[static_cast<std::size_t>(first)];
  std::size_t products = 0;
  for (std::size_t g = 0; g < count; ++g) products += lanes[0].groups[g];
  for (int i = 1; i < warp_threads; ++i)
    if (lanes[i].products != lanes[0].products || lanes[i].groups != lanes[0].groups)
      fail("lanes of a warp multiply different operands");
  const AsyncView view{block_->async.data(), dynamic_begin, block_->end};
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

}  // namespace

void set_schedule(const Schedule& schedule) { schedule_to_come = schedule; }

std::string run(const Work& work, const std::function<void()>& kernel) {
  return Machine(work, schedule_to_come, kernel).run();
}

unsigned char* dynamic_memory() { return machine->block().memory + dynamic_begin; }

std::uint64_t* static_words(int count) {
  Block& block = machine->block();
  if (block.static_used == 0) block.static_used = count * 8;
  if (block.static_used != count * 8) machine->fail("the model knows one array of static shared memory");
  if (block.static_used + static_cast<int>(block.end - dynamic_begin) > static_cast<int>(most_shared))
    machine->fail("static and dynamic shared memory are too large together");
  return reinterpret_cast<std::uint64_t*>(block.memory + static_begin);
}

std::uint32_t address_of(const void* pointer) {
  const Block& block = machine->block();
  const std::ptrdiff_t offset = static_cast<const unsigned char*>(pointer) - block.memory;
  if (offset < static_begin || offset > block.end) machine->fail("a pointer is not into shared memory");
  return static_cast<std::uint32_t>(offset);
}

std::uint32_t address_in(std::uint32_t address, int rank) {
  return (address & ((1U << offset_bits) - 1)) | static_cast<std::uint32_t>(rank + 1) << offset_bits;
}
int cluster_rank() { return machine->block().rank; }

void sync_block() { machine->meet(machine->block().all, machine->block().live, "all threads"); }
void sync_named(int barrier, int threads) {
  machine->meet(machine->block().named[barrier], threads, "a named barrier");
}
void sync_warp() { machine->meet(machine->warp().meeting, warp_threads, "its warp"); }
void sync_cluster() { machine->meet_cluster(); }

std::uint64_t exchange(std::uint64_t own, int lane) {
  Warp& warp = machine->warp();
  std::uint64_t(&brought)[warp_threads] = warp.brought[warp.meeting.generation % 2];
  brought[machine->lane()] = own;
  machine->meet(warp.meeting, warp_threads, "a shuffle");
  return brought[lane];
}

void init_barrier(std::uint32_t address, int arrivals) {
  Block& block = machine->block();
  machine->place(block, address, 8);
  if (address % 8 != 0 || arrivals <= 0) machine->fail("a barrier of no arrivals, or at an odd address");
  const auto number = static_cast<int>(block.barriers.size());
  if (!block.barriers.insert({address, {arrivals, arrivals, 0, 0, number}}).second)
    machine->fail("a barrier is made twice");
}

void arrive(std::uint32_t address, std::int64_t expected_bytes) {
  Barrier& barrier = machine->barrier_at(address);
  if (barrier.pending == 0)
    machine->fail(fmt::format("one arrival too many at barrier {}, in phase {}", barrier.number, barrier.phase));
  barrier.bytes += expected_bytes;
  --barrier.pending;
  machine->complete(barrier);
}

void wait(std::uint32_t address, int parity) { machine->wait(machine->barrier_at(address), parity); }

void copy_bulk(std::uint32_t to, const void* from, int bytes, std::uint32_t barrier, unsigned blocks) {
  if (bytes <= 0 || bytes % 16 != 0 || to % 16 != 0 || reinterpret_cast<std::uintptr_t>(from) % 16 != 0)
    machine->fail("a bulk copy's size or addresses are no multiples of 16");
  const std::uint32_t mask = (1U << offset_bits) - 1;
  const auto send = [&](std::uint32_t there, std::uint32_t counter) {
    machine->barrier_at(counter);
    machine->issue({&machine->block_at(there), there & mask, counter & mask, from, bytes});
  };
  if (blocks == 0) return send(to, barrier);
  for (int rank = 0; rank < static_cast<int>(machine->cluster()); ++rank)
    if ((blocks >> rank & 1U) != 0) send(address_in(to, rank), address_in(barrier, rank));
}

void fence_async() {
  Block& block = machine->block();
  std::memcpy(block.async.data() + dynamic_begin, block.memory + dynamic_begin, block.end - dynamic_begin);
}

void multiply(Element element, int columns, float* sums, std::uint64_t a, std::uint64_t b) {
  Thread& thread = machine->thread();
  thread.products.push_back({element, columns, a, b});
  thread.sums.push_back(sums);
}

void commit() {
  Thread& thread = machine->thread();
  thread.groups.push_back(thread.products.size() - thread.committed);
  thread.committed = thread.products.size();
  if (!machine->late())
    machine->meet(machine->warp().meeting, warp_threads, "its warp, to multiply",
                  [&] { machine->multiply_groups(machine->thread().groups.size()); });
}

void wait_products(int pending) {
  machine->meet(machine->warp().meeting, warp_threads, "its warp, to wait for products", [&] {
    const auto& groups = machine->thread().groups;
    const auto left = static_cast<std::size_t>(pending);
    if (groups.size() > left) machine->multiply_groups(groups.size() - left);
  });
}

}  // namespace hopper_model
