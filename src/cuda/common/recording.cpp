// SPDX-License-Identifier: Apache-2.0
#include "cuda/common/recording.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cuda/common/pointer.hpp"
#include "cuda/common/shared_limits.hpp"

namespace convt::core::cuda {
namespace {

constexpr std::uintptr_t alignment = 16;
constexpr std::uintptr_t null_address = alignment;  // stands for a null address in keys

// Collects the work that one thread submits during the recorder's lifetime, in order.
struct Recorder {
  struct Work {
    StreamWork work;
    std::size_t at, bytes;
  };
  std::vector<Work> works;
  std::vector<std::byte> params;
  bool too_long = false;

  Recorder();
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
};
constinit thread_local Recorder* recorder = nullptr;

Recorder::Recorder() { recorder = this; }
Recorder::~Recorder() { recorder = nullptr; }

void record(Recorder& to, const StreamWork& work, const void* params, std::size_t bytes) {
  to.too_long |= to.works.size() == Recording::most_works;
  if (to.too_long) return;
  const std::size_t at = to.params.size();
  to.params.resize(at +
                   (bytes + alignof(std::max_align_t) - 1) / alignof(std::max_align_t) * alignof(std::max_align_t));
  std::memcpy(to.params.data() + at, params, bytes);
  to.works.push_back({work, at, bytes});
}

struct Cleared {
  void* data;
  std::size_t bytes;
};
void enqueue_clear(const StreamWork& work, const void* params) {
  const auto& what = *static_cast<const Cleared*>(params);
  check(cudaMemsetAsync(what.data, 0, what.bytes, work.how.stream), work.name);
}

// Makes up addresses that no memory has, 2^46 bytes apart. The distances between addresses differ in the two sets, so
// that a difference of two addresses does not look like an address. All low bytes differ, too: padding of a struct may
// hold a part of an earlier address, and must not make one of the number beside it.
constexpr std::uintptr_t apart = std::uintptr_t{1} << 46, reach = std::uintptr_t{1} << 45;
constexpr std::uintptr_t low_bytes[] = {0x053291c710, 0x0a3c5a6920};  // 0 modulo `alignment`
std::vector<std::uintptr_t> made_up(Addresses like, bool second) {
  std::vector<std::uintptr_t> result;
  for (std::size_t i = 0; i < like.size(); ++i) {
    const std::uintptr_t number = second ? 3 * most_addresses - 2 * i : i + 1;
    const std::uintptr_t top = second ? std::uintptr_t{0x61} << 56 : std::uintptr_t{0x5a} << 56;
    result.push_back(like[i] == 0 ? 0 : top + number * apart + low_bytes[second ? 1 : 0] + like[i] % alignment);
  }
  return result;
}

std::uintptr_t word_at(const std::vector<std::byte>& params, std::size_t at) {
  std::uintptr_t word = 0;
  std::memcpy(&word, params.data() + at, sizeof word);
  return word;
}

bool same_work(const Recorder::Work& a, const Recorder::Work& b) {
  return a.work.enqueue == b.work.enqueue && a.work.kernel == b.work.kernel && a.work.how.grid == b.work.how.grid &&
         a.work.how.shared == b.work.how.shared && a.work.how.early == b.work.how.early &&
         a.work.threads == b.work.threads && a.bytes == b.bytes;
}

}  // namespace

namespace {

// Enqueues work now. A kernel's limit of shared memory is set once in each context, as setting it takes time.
void enqueue_now(StreamWork work, const void* params) {
  if (work.how.shared_limit == 0) return work.enqueue(work, params);
  const std::uint64_t context = current_context();
  const bool known = has_shared_limit(work.kernel, context);
  if (known) work.how.shared_limit = 0;
  work.enqueue(work, params);
  if (!known) set_shared_limit(work.kernel, context);
}

}  // namespace

void submit(const StreamWork& work, const void* params, std::size_t bytes) {
  if (recorder != nullptr)
    record(*recorder, work, params, bytes);
  else
    enqueue_now(work, params);
}

void clear(void* data, std::size_t bytes, cudaStream_t stream) {
  const Cleared what{data, bytes};
  StreamWork work;
  work.enqueue = enqueue_clear;
  work.name = "cudaMemsetAsync";
  work.how.stream = stream;
  submit(work, &what, sizeof what);
}

std::shared_ptr<const Recording> Recording::make(Addresses like, const std::function<void(Addresses)>& run) {
  if (like.size() > most_addresses) return nullptr;
  const auto first_set = made_up(like, false), second_set = made_up(like, true);
  const auto record = [&](const std::vector<std::uintptr_t>& addresses, std::vector<Recorder::Work>& works,
                          std::vector<std::byte>& params) {
    Recorder own;
    run(addresses);
    works = std::move(own.works);
    params = std::move(own.params);
    return !own.too_long;
  };
  std::vector<Recorder::Work> works, others;
  std::vector<std::byte> params, other_params;
  if (!record(first_set, works, params) || !record(second_set, others, other_params)) return nullptr;
  if (!std::equal(works.begin(), works.end(), others.begin(), others.end(), same_work)) return nullptr;

  auto result = std::make_shared<Recording>();
  for (const Recorder::Work& work : works) {
    result->entries_.push_back({work.work, work.at, work.bytes, result->patches_.size()});
    for (std::size_t at = 0; at + sizeof(std::uintptr_t) <= work.bytes; at += sizeof(std::uintptr_t)) {
      const std::uintptr_t a = word_at(params, work.at + at), b = word_at(other_params, work.at + at);
      for (std::size_t i = 0; i < like.size(); ++i) {
        const std::uintptr_t offset = a - first_set[i];
        if (like[i] == 0 || offset != b - second_set[i]) continue;
        if (offset + reach >= 2 * reach) return nullptr;  // too far to tell which address it belongs to
        result->patches_.push_back({at, i, offset});
        break;
      }
    }
  }
  result->params_ = std::move(params);
  return result;
}

void Recording::enqueue(Addresses addresses, cudaStream_t stream) const {
  alignas(std::max_align_t) std::byte params[most_param_bytes];
  for (std::size_t e = 0; e < entries_.size(); ++e) {
    const Entry& entry = entries_[e];
    const std::size_t end = e + 1 < entries_.size() ? entries_[e + 1].first_patch : patches_.size();
    std::memcpy(params, params_.data() + entry.at, entry.bytes);
    for (std::size_t i = entry.first_patch; i < end; ++i) {
      const std::uintptr_t address = addresses[patches_[i].address] + patches_[i].offset;
      std::memcpy(params + patches_[i].at, &address, sizeof address);
    }
    StreamWork work = entry.work;
    work.how.stream = stream;
    enqueue_now(work, params);
  }
}

std::shared_ptr<const Recording> Recordings::find(Addresses addresses, const std::function<void(Addresses)>& run) {
  std::array<unsigned char, most_addresses> key{};
  if (addresses.size() > most_addresses) return nullptr;
  for (std::size_t i = 0; i < addresses.size(); ++i)
    key[i] = static_cast<unsigned char>(addresses[i] == 0 ? null_address : addresses[i] % alignment);
  const std::span<const unsigned char> own(key.data(), addresses.size());
  {
    const std::lock_guard lock(mutex_);
    for (const Kept& kept : kept_)
      if (std::equal(kept.key.begin(), kept.key.end(), own.begin(), own.end())) return kept.recording;
  }
  auto fresh = Recording::make(addresses, run);
  Kept added{{own.begin(), own.end()}, fresh}, dropped;
  const std::lock_guard lock(mutex_);
  kept_.reserve(most_kept + 1);
  if (kept_.size() == most_kept) {
    dropped = std::move(kept_.front());
    kept_.erase(kept_.begin());
  }
  kept_.push_back(std::move(added));
  return fresh;
}

}  // namespace convt::core::cuda
