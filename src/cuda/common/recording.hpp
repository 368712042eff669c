// SPDX-License-Identifier: Apache-2.0
// A recording is the work that a call enqueues. It is made once, and enqueued again with other addresses.
//
// Calls of one plan differ only in addresses and in what depends on an address modulo 16. Making a call's parameters
// takes 1.6 to 3.2 us on a fast core; filling in addresses takes 0.4 to 0.7 us. To find the addresses, the code that
// makes parameters runs twice, with two sets of addresses that no memory has. A word of the parameters is an address
// plus an offset if the offset is the same in both runs. A repeated call fills in its own addresses.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cuda/common/launch.hpp"

namespace convt::core::cuda {

// The addresses of a call's memory, in the caller's order. 0: the call has no such memory.
using Addresses = std::span<const std::uintptr_t>;
inline constexpr std::size_t most_addresses = 64;

class Recording {
 public:
  static constexpr std::size_t most_works = 64;  // for longer calls, filling in takes longer than making parameters

  // run(addresses) submits the work of a call. That work may depend on the addresses only by which are 0 and by their
  // values modulo 16; the recording holds for calls like `like` in both. Returns null if it would be too long, or if an
  // offset is 2^45 bytes or more.
  static std::shared_ptr<const Recording> make(Addresses like, const std::function<void(Addresses)>& run);

  void enqueue(Addresses addresses, cudaStream_t stream) const;

 private:
  struct Patch {
    std::size_t at;       // offset of the word in the parameters of its work
    std::size_t address;  // index
    std::uintptr_t offset;
  };
  struct Entry {
    StreamWork work;
    std::size_t at, bytes;    // of its parameters, in params_
    std::size_t first_patch;  // its patches end where those of the next entry begin
  };

  std::vector<Entry> entries_;
  std::vector<std::byte> params_;
  std::vector<Patch> patches_;
};

// The recordings of one plan. The key: which addresses are 0, and all modulo 16. Safe to use from many threads.
class Recordings {
 public:
  static constexpr std::size_t most_kept = 16;

  // Finds or makes a recording. Returns null for calls that cannot be recorded.
  std::shared_ptr<const Recording> find(Addresses addresses, const std::function<void(Addresses)>& run);

 private:
  struct Kept {
    std::vector<unsigned char> key;
    std::shared_ptr<const Recording> recording;
  };
  std::mutex mutex_;
  std::vector<Kept> kept_;  // the oldest first
};

}  // namespace convt::core::cuda
