// SPDX-License-Identifier: Apache-2.0
// The Hopper convolution's kernels, as host code sees them.
#pragma once

#include "cuda/common/launch.hpp"
#include "cuda/sm90/params.hpp"

namespace convt::core::cuda::sm90 {

// Output channels of one band: columns of the matrix instruction.
inline constexpr int all_columns[] = {8, 24, 32, 64};
// For norms over more channels than that, in fewer ways: pairs of phases and folds have half as many positions.
inline constexpr int most_columns = 128;

// What a warpgroup does with the sums of its blocks of positions.
enum class Way : int {
  strip,   // the chain runs in shared memory: any chain
  single,  // one phase along w at a time
  paired,  // two neighbouring phases along w at a time
  twin,    // the same, from halo tiles that are there twice, so that a thread has neighbouring positions: twins.cuh
  rows,    // as paired, where rows of the output are no whole sectors: a tile's are put together first (rows.cuh)
  deep,    // as paired, where chunks of channels or columns are many: half the consumers, and more producers
  folded,  // all phases of a position, one after the other, into one result
  pooled,  // the same, of a fold that the kernel knows, where all weights stay; writers do the rest: pooled.cuh
  march,   // three neighbouring outputs along an axis at a time: march.cuh
  wide,    // positions are columns (wide.cuh); of stride 1, and no norm is in the chain
};
// Warpgroups of a block, and what each of their threads has of the 65536 / threads registers.
struct Team {
  int consumers, producers;
  int consumer_registers, producer_registers;
  int writers = 0, writer_registers = 0;

  CONVT_FN constexpr int groups() const { return consumers + producers + writers; }
  CONVT_FN constexpr int threads() const { return groups() * group_threads; }
  CONVT_FN constexpr int first_producer() const { return consumers * group_threads; }
  CONVT_FN constexpr int first_writer() const { return (consumers + producers) * group_threads; }
  CONVT_FN constexpr int consumer_warps() const { return consumers * group_warps; }
  CONVT_FN constexpr int warps() const { return threads() / warp_threads; }
  // That fill halo tiles: the last producer too, or it streams weights.
  CONVT_FN constexpr int halo_warps(bool all) const { return producers * group_warps - (all ? 0 : 1); }
};
// A block has the registers that it is launched with, a multiple of 8 for each thread: whoever asks for more never gets
// them. Consumers take some, all others give some.
constexpr bool has_registers(const Team& team) {
  const int each = 65536 / team.threads() / 8 * 8;
  return team.consumer_registers >= each && team.producer_registers <= each && team.writer_registers <= each &&
         team.consumers * team.consumer_registers + team.producers * team.producer_registers +
                 team.writers * team.writer_registers <=
             each * team.groups();
}
constexpr Team team_of(Way way, int columns = 64) {
  if (way == Way::march)
    return columns < 24   ? Team{2, 2, 120, 96, 1, 48}
           : columns < 32 ? Team{2, 2, 128, 88, 1, 48}
                          : Team{2, 2, 136, 80, 1, 48};
  if (way == Way::wide) return {2, 2, 136, 80, 1, 48};
  if (columns == most_columns) return {2, 2, 176, 80};
  if (way == Way::paired || way == Way::twin || way == Way::rows || way == Way::folded) return {4, 1, 104, 64};
  if (way == Way::pooled) return {4, 1, 88, 72, 1, 56};
  return {2, 2, 176, 80};  // strip, single, deep
}
static_assert(has_registers(team_of(Way::strip)) && has_registers(team_of(Way::march)) &&
              has_registers(team_of(Way::march, 24)) && has_registers(team_of(Way::march, 8)) &&
              has_registers(team_of(Way::single)) && has_registers(team_of(Way::paired)) &&
              has_registers(team_of(Way::deep)) && has_registers(team_of(Way::pooled)) &&
              has_registers(team_of(Way::wide)));
inline constexpr Team pooled_team = team_of(Way::pooled);
// More of shared memory than Way::folded takes.
constexpr int pooled_bytes(int columns) {
  return (pooled_team.warps() - team_of(Way::folded).warps()) * item_bytes +
         pooled_buffers * pooled_staged_bytes(columns);
}
constexpr bool can_march(int columns) { return columns <= 32; }  // three times as many must fit the registers
constexpr bool can_fold(int columns) { return columns >= 32; }
constexpr bool can_pool(int columns) { return columns == 32 || columns == 64; }
constexpr bool can_pair(int columns) { return columns < most_columns; }
// Fewer would be kernels for few cases.
constexpr bool can_deepen(int columns) { return columns >= 32; }
// Operands of so many bytes: of 4, two halo tiles would leave no room for weights.
constexpr bool can_twin(int columns, int operand) { return (columns == 32 || columns == 64) && operand == 2; }
// Of 8 columns, which are put together at once, there is one turn: too few to be faster.
constexpr bool can_row(int columns) { return columns >= 24 && columns < most_columns; }
// Neighbouring phases along w whose sums a warpgroup has at a time.
CONVT_FN constexpr int joint_of(Way way) {
  return way == Way::paired || way == Way::twin || way == Way::rows || way == Way::deep ? 2 : 1;
}
// Whether items may be cut.
CONVT_FN constexpr bool cuts_items(Way way) { return way == Way::strip || way == Way::single || joint_of(way) == 2; }
// That a producer's thread has under way.
CONVT_FN constexpr int loads_of(const Team& team) { return team.producer_registers < 80 ? 16 : 32; }
// Of shared memory: where the results of consumers' blocks go, by warp and by thread, two at most.
constexpr int place_bytes_of(Way way, int columns) {
  const bool stores = way != Way::strip && way != Way::march && way != Way::wide;
  return stores ? warp_place_bytes + team_of(way, columns).consumer_warps() * vector_round : 0;
}
static_assert(team_of(Way::folded).consumer_warps() * static_cast<int>(sizeof(std::int64_t)) <= warp_place_bytes);
static_assert(pooled_team.consumer_warps() == group_warps * group_warps);  // rings.cuh: many_vectors()
static_assert(vector_round == warp_threads * 2 * static_cast<int>(sizeof(std::int64_t)));
// Whether all producers fill halo tiles. Elsewhere registers are too short for both.
CONVT_FN constexpr bool all_fill(Way way, bool all_weights) {
  return (way == Way::folded || way == Way::pooled || way == Way::single || way == Way::deep || way == Way::strip) &&
         all_weights;
}
constexpr int positions_of(Way way) { return way == Way::wide ? wide_positions : block_rows; }  // of a block
constexpr int blocks_of(Way way, int columns = 64) {
  if (way == Way::deep) return columns == most_columns ? 1 : 2;
  return way == Way::single || way == Way::march ? 2 : 1;
}

// Whether kernels multiply floats as f16 in place of tf32, but for chains in strips: fewer would be kernels for few
// cases, in which loads and stores take longer than products.
constexpr bool can_halve(int columns) { return columns >= 24; }

void launch_conv_halved(Way way, int columns, const ConvParams& params, const Launch& how);
void launch_conv_tf32(Way way, int columns, const ConvParams& params, const Launch& how);
void launch_conv_f16(Way way, int columns, const ConvParams& params, const Launch& how);
void launch_conv_bf16(Way way, int columns, const ConvParams& params, const Launch& how);

// early: as Launch has it.
void launch_scale(const ScaleParams& params, cudaStream_t stream, bool early);
void launch_sample(const SampleParams& params, cudaStream_t stream, bool early);
void launch_pack(const PackParams& params, convt_dtype element, cudaStream_t stream, bool early);

}  // namespace convt::core::cuda::sm90
