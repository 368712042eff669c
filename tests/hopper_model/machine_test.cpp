// SPDX-License-Identifier: Apache-2.0
// The model by itself: what it computes, and that it notices what kernels do wrong.
#include "hopper_model/machine.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <vector>

namespace hopper_model {
namespace {

using ::testing::Test;

constexpr unsigned group = 128;
constexpr std::size_t shared_bytes = 16 << 10;

// The first address of dynamic memory that operands may start at.
std::uint32_t aligned() { return (address_of(dynamic_memory()) + 1023) / 1024 * 1024; }
unsigned char* at(std::uint32_t address) { return dynamic_memory() + (address - address_of(dynamic_memory())); }

// As src/cuda/sm90/operand.cuh has it: rows of 128 bytes, 64 or 32.
std::uint64_t operand(std::uint32_t address, std::uint64_t row_bytes) {
  const std::uint64_t mode = row_bytes == 128 ? 1 : row_bytes == 64 ? 2 : 3;
  return mode << 62 | (8 * row_bytes / 16) << 32 | address / 16;
}

void store_f32(std::uint32_t address, float value) { std::memcpy(at(address), &value, sizeof value); }

// A row's 4 bytes: units of 16 bytes are swizzled by the address.
std::uint32_t swizzled(std::uint32_t start, std::uint32_t row_bytes, std::uint32_t row, std::uint32_t byte) {
  const std::uint32_t plain = start + row * row_bytes + byte;
  return plain ^ (row_bytes == 128 ? (plain >> 7 & 7U) << 4 : row_bytes == 64 ? (plain >> 7 & 3U) << 4 : 0U);
}

// 64 x 8 sums of 8 products, where a[row][k] = row + k and b[column][k] = column - k.
struct Multiplied {
  std::vector<float> sums = std::vector<float>(64 * 8);
  std::string failure;
};
Multiplied multiply_once(std::uint32_t row_bytes, bool late, bool fences, bool waits) {
  Multiplied result;
  set_schedule({late, 3});
  result.failure = run({1, group, shared_bytes}, [&] {
    const std::uint32_t a = aligned(), b = a + 64 * row_bytes;
    if (threadIdx.x == 0)
      for (std::uint32_t row = 0; row < 64; ++row)
        for (std::uint32_t k = 0; k < 8; ++k) {
          store_f32(swizzled(a, row_bytes, row, k * 4), static_cast<float>(row + k));
          if (row < 8) store_f32(swizzled(b, row_bytes, row, k * 4), static_cast<float>(row) - static_cast<float>(k));
        }
    if (fences) fence_async();
    sync_block();
    float sums[4] = {};
    multiply(Element::tf32, 8, sums, operand(a, row_bytes), operand(b, row_bytes));
    commit();
    if (waits) wait_products(0);
    const unsigned row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
    for (unsigned i = 0; i < 4; ++i) result.sums[(row + i / 2 * 8) * 8 + column + i % 2] = sums[i];
    if (!waits) wait_products(0);
  });
  return result;
}
bool is_right(const std::vector<float>& sums) {
  for (std::size_t row = 0; row < 64; ++row)
    for (std::size_t column = 0; column < 8; ++column) {
      float expected = 0;
      for (std::size_t k = 0; k < 8; ++k)
        expected += static_cast<float>(row + k) * (static_cast<float>(column) - static_cast<float>(k));
      if (sums[row * 8 + column] != expected) return false;
    }
  return true;
}

TEST(HopperMachine, Multiplies) {
  for (const std::uint32_t row_bytes : {128U, 64U})
    for (const bool late : {true, false}) {
      const Multiplied right = multiply_once(row_bytes, late, true, true);
      EXPECT_EQ(right.failure, "");
      EXPECT_TRUE(is_right(right.sums)) << row_bytes;
    }
}

TEST(HopperMachine, SeesMissingFencesAndWaits) {
  EXPECT_FALSE(is_right(multiply_once(128, true, false, true).sums));
  EXPECT_FALSE(is_right(multiply_once(128, true, true, false).sums));
}

TEST(HopperMachine, SaysWhoWaits) {
  const std::string failure = run({1, group, shared_bytes}, [] {
    const std::uint32_t barrier = address_of(static_words(1));
    if (threadIdx.x == 0) init_barrier(barrier, 2);
    sync_block();
    if (threadIdx.x == 0) arrive(barrier);
    if (threadIdx.x / warp_threads == 1) wait(barrier, 0);
  });
  EXPECT_NE(failure.find("warp 1 waits for barrier 0 (of 2 arrivals 1 are missing"), std::string::npos) << failure;
}

TEST(HopperMachine, RefusesWhatIsForbidden) {
  const auto failure_of = [](const std::function<void(std::uint32_t)>& what) {
    return run({1, 32, shared_bytes}, [&] {
      const std::uint32_t barrier = address_of(static_words(1));
      if (threadIdx.x != 0) return;
      init_barrier(barrier, 1);
      what(barrier);
    });
  };
  alignas(16) static const std::array<char, 64> data{};
  EXPECT_EQ(failure_of([](std::uint32_t barrier) { arrive(barrier); }), "");
  EXPECT_NE(failure_of([](std::uint32_t barrier) { arrive(barrier + 8); }), "");
  EXPECT_NE(failure_of([](std::uint32_t barrier) { copy_bulk(aligned(), data.data(), 24, barrier); }), "");
  EXPECT_NE(failure_of([](std::uint32_t barrier) { copy_bulk(aligned() + shared_bytes, data.data(), 16, barrier); }),
            "");
  EXPECT_NE(failure_of([](std::uint32_t barrier) {
              arrive(barrier, 32);
              arrive(barrier, 32);
            }),
            "");
  set_schedule({true, 0});
  EXPECT_NE(failure_of([](std::uint32_t barrier) { copy_bulk(aligned(), data.data(), 16, barrier); }), "");
  EXPECT_NE(run({1, 32, most_shared + 16}, [] {}), "");
}

// Through one place again and again: a thread copies, and all tell it that they have read.
TEST(HopperMachine, CopiesInTurns) {
  constexpr std::uint32_t size = 64;
  constexpr int turns = 3;
  constexpr unsigned blocks = 2;
  alignas(16) static std::array<unsigned char, turns * size> data;
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<unsigned char>(i);
  for (const bool late : {true, false}) {
    set_schedule({late, 5});
    std::vector<int> wrong(blocks);
    const std::string failure = run({blocks, group, shared_bytes}, [&] {
      const std::uint32_t full = address_of(static_words(2)), empty = full + 8, to = aligned();
      if (threadIdx.x == 0) {
        init_barrier(full, 1);
        init_barrier(empty, group);
      }
      sync_block();
      for (int turn = 0; turn < turns; ++turn) {
        const unsigned char* const from = data.data() + turn * size;
        if (threadIdx.x == 0) {
          wait(empty, (turn & 1) ^ 1);
          arrive(full, size);
          copy_bulk(to, from, size, full);
        }
        wait(full, turn & 1);
        wrong[blockIdx.x] += std::memcmp(at(to), from, size) != 0;
        arrive(empty);
      }
    });
    EXPECT_EQ(failure, "");
    EXPECT_EQ(wrong, std::vector<int>(blocks));
  }
}

}  // namespace
}  // namespace hopper_model
