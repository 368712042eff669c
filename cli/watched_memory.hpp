// SPDX-License-Identifier: Apache-2.0
// Blocks of memory, on the host or on a GPU, with guards around each: does anyone write where nothing is to be written?
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "convt/convt.hpp"
#include "gpu.hpp"

namespace convt::cli {

struct Place {
  Device device = Device::cpu;
  int index = 0;
  void* stream = nullptr;  // of a GPU: orders everything that is done with the memory
};

// Eight bytes of quiet NaNs with a payload that no arithmetic makes.
std::uint64_t poison_of(DType dtype);

// Guards and blocks hold poison until something is written. What is written and read passes through a copy on the host:
// update_device() sends all of it, update_host() fetches all of it. On the host both do nothing.
class WatchedMemory {
 public:
  struct Block {
    std::string name;  // as messages have it
    std::size_t bytes = 0;
    std::size_t alignment = 256;  // of its address: so much, and no more than that unless it is 256
  };

  WatchedMemory(std::vector<Block> blocks, std::uint64_t poison, const Place& place);

  // What the library is given.
  std::byte* address(std::size_t block) const;
  // The host's copy.
  std::span<std::byte> contents(std::size_t block);

  void poison();
  void update_device();
  void update_host();

  // Which guard the host's copy shows to be written to; "" when none is.
  std::string defect() const;
  // Whether the bytes [begin, end) of a block are poison still.
  bool untouched(std::size_t block, std::size_t begin, std::size_t end) const {
    return intact(begins_[block] + begin, begins_[block] + end);
  }

 private:
  struct alignas(256) Line {
    std::uint64_t words[32];
  };
  std::span<std::byte> bytes();
  std::span<const std::byte> bytes() const;
  bool intact(std::size_t begin, std::size_t end) const;

  std::vector<Block> blocks_;
  std::vector<std::size_t> begins_;
  std::uint64_t poison_;
  Place place_;
  std::vector<Line> host_;
  GpuMemory gpu_;
};

}  // namespace convt::cli
