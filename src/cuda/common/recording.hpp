// SPDX-License-Identifier: Apache-2.0
// What a call enqueues, made once and enqueued again with other addresses.
//
// Calls of one plan differ in addresses alone, and in what depends on an address modulo 16. Making a call's parameters
// anew takes 1.6 to 3.2 us on a fast core, filling in addresses 0.4 to 0.7. So the code that makes them runs twice,
// with two sets of addresses that no memory has: a word of the parameters is an address where it lies as far from an
// address of the first set in the one recording as from the same address of the second set in the other. A repeated
// call fills in its own.
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

// Where a call's memory is, in an order that its maker knows. Null: there is none.
using Addresses = std::span<const std::uintptr_t>;
inline constexpr std::size_t most_addresses = 64;

class Recording {
 public:
  static constexpr std::size_t most_works = 64;  // those of longer calls take longer than making their parameters

  // `run` submits what a call with these addresses does: the same for all that are null, and equal modulo 16, where
  // those of `like` are. Null if a recording would be too long.
  static std::shared_ptr<const Recording> make(Addresses like, const std::function<void(Addresses)>& run);

  void enqueue(Addresses addresses, cudaStream_t stream) const;

 private:
  struct Patch {
    std::size_t at;  // in the parameters of its work
    std::size_t address;
    std::uintptr_t offset;
  };
  struct Entry {
    StreamWork work;
    std::size_t at, bytes;    // of its parameters
    std::size_t first_patch;  // up to the next entry's
  };

  std::vector<Entry> entries_;
  std::vector<std::byte> params_;
  std::vector<Patch> patches_;
};

// The recordings of one plan, by what of a call's addresses matters. Safe to use from many threads.
class Recordings {
 public:
  static constexpr std::size_t most_kept = 16;

  // Null: such calls are not recorded.
  std::shared_ptr<const Recording> find(Addresses addresses, const std::function<void(Addresses)>& run);

 private:
  struct Kept {
    std::vector<unsigned char> key;
    std::shared_ptr<const Recording> recording;
  };
  std::mutex mutex_;
  std::vector<Kept> kept_;  // longest there first
};

}  // namespace convt::core::cuda
