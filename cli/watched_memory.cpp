// SPDX-License-Identifier: Apache-2.0
#include "watched_memory.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "print.hpp"

namespace convt::cli {
namespace {

// Before and after each block at least; so that a block's alignment is what was asked for, some are longer.
constexpr std::size_t guard = 256;

}  // namespace

std::uint64_t poison_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 0x7ffda5a5a5a5a5a5;
    case DType::f32:
      return 0x7fe5a5a57fe5a5a5;
    case DType::f16:
      return 0x7ea57ea57ea57ea5;
    case DType::bf16:
      break;
  }
  return 0x7fe57fe57fe57fe5;
}

WatchedMemory::WatchedMemory(std::vector<Block> blocks, std::uint64_t poison, const Place& place)
    : blocks_(std::move(blocks)), poison_(poison), place_(place) {
  std::size_t end = 0;
  for (const Block& block : blocks_) {
    const std::size_t line = (end + 2 * guard + sizeof(Line) - 1) / sizeof(Line) * sizeof(Line);
    begins_.push_back(line + block.alignment % sizeof(Line));
    end = begins_.back() + block.bytes;
  }
  host_.resize((end + guard) / sizeof(Line) + 1);
  this->poison();
  if (place_.device == Device::cuda) gpu_ = GpuMemory(place_.index, host_.size() * sizeof(Line));
}

std::byte* WatchedMemory::address(std::size_t block) const {
  const auto* host = reinterpret_cast<const std::byte*>(host_.data());
  return (place_.device == Device::cuda ? gpu_.data() : const_cast<std::byte*>(host)) + begins_[block];
}

std::span<std::byte> WatchedMemory::contents(std::size_t block) {
  return bytes().subspan(begins_[block], blocks_[block].bytes);
}

void WatchedMemory::poison() {
  for (Line& line : host_) std::fill(std::begin(line.words), std::end(line.words), poison_);
}

void WatchedMemory::update_device() {
  if (place_.device == Device::cuda) gpu_.write(bytes(), place_.stream);
}

void WatchedMemory::update_host() {
  if (place_.device == Device::cuda) gpu_.read(bytes(), place_.stream);
}

std::string WatchedMemory::defect() const {
  std::size_t end = 0;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const std::size_t begin = begins_[i], middle = i == 0 ? 0 : begin - guard;
    if (!intact(end, middle)) return formatted("wrote after {}", blocks_[i - 1].name);
    if (!intact(middle, begin)) return formatted("wrote before {}", blocks_[i].name);
    end = begin + blocks_[i].bytes;
  }
  if (!intact(end, bytes().size())) return formatted("wrote after {}", blocks_.back().name);
  return "";
}

std::span<std::byte> WatchedMemory::bytes() { return std::as_writable_bytes(std::span(host_)); }
std::span<const std::byte> WatchedMemory::bytes() const { return std::as_bytes(std::span(host_)); }

bool WatchedMemory::intact(std::size_t begin, std::size_t end) const {
  std::byte expected[sizeof poison_];
  std::memcpy(expected, &poison_, sizeof poison_);
  for (std::size_t i = begin; i < end; ++i)
    if (bytes()[i] != expected[i % sizeof poison_]) return false;
  return true;
}

}  // namespace convt::cli
