// SPDX-License-Identifier: Apache-2.0
// A kernel is made of policies, one for each of its parts. A Config names them; configs.def has every combination.
//
// Policies are compared here alone. Host code and the parts of a kernel ask a Config for its properties
// (tools/check_rooms.py).
#pragma once

#include <string_view>

#include "cuda/sm90/config/params.hpp"

namespace convt::core::cuda::sm90 {

// Output channels of one band: columns of the matrix instruction.
inline constexpr int all_columns[] = {8, 24, 32, 64};
// For norms over more channels than 64. Fewer configs have such columns: pairs of phases and folds have half the
// positions.
inline constexpr int most_columns = 128;

// What operands are multiplied as. tf32x3, f16x3: floats split into two parts of tf32 or f16, in three products
// (mainloop/split.cuh).
enum class Format { tf32, f16, bf16, tf32x3, f16x3 };
// What matrix instructions multiply.
constexpr Format multiplied_as(Format format) {
  return format == Format::tf32x3 ? Format::tf32 : format == Format::f16x3 ? Format::f16 : format;
}
// Whether it may be that of a fallback kernel (scheduler/fallback.cuh).
constexpr bool is_fallback(Format format) { return multiplied_as(format) == Format::tf32; }
constexpr bool is_split(Format format) { return format == Format::tf32x3 || format == Format::f16x3; }
// Bytes of an operand, all parts.
constexpr int operand_bytes_of(Format format) {
  return format == Format::tf32x3 ? 8 : format == Format::tf32 || format == Format::f16x3 ? 4 : 2;
}
// Whether floats are multiplied as f16 or parts of f16, whose range is smaller (loader/range_guard.cuh).
constexpr bool is_guarded(Format format, int element) {
  return format == Format::f16x3 || (format == Format::f16 && element == 4);
}
// The format with f16 in place of tf32.
constexpr Format guarded_format(Format format) { return is_split(format) ? Format::f16x3 : Format::f16; }

// The phases whose sums a warpgroup holds at a time.
enum class Phases : int {
  one,      // one phase
  two,      // two neighbours along w
  folded,   // all phases of a position, one after the other, into one result: epilogue/fold.cuh
  sliding,  // three neighbouring outputs along an axis, as planes of inputs pass by: kernel/sliding.cuh
};
// What producers put into shared memory.
enum class Loader : int {
  halo,             // the box of inputs that all taps of a tile read: loader/halo.cuh
  duplicated_halo,  // a halo with every pixel twice, so that a thread's positions are neighbours
  planes,           // planes of the box, one after the other: loader/planes.cuh
};
// The matrix instruction's operands: rows are positions and columns output channels, or the other way round (swap-AB).
enum class Operands : int { in_order, swapped };
// How results reach the output.
enum class Store : int {
#define CONVT_STORE(name, ...) name,
#include "cuda/sm90/config/stores.def"
#undef CONVT_STORE
};
// What a store needs, and which results it can store.
struct StoreTraits {
  enum Flag : unsigned {
    none = 0,
    offsets = 1,      // consumers keep the offsets of their outputs in shared memory
    crowded = 2,      // it takes more registers than the direct store
    all_phases = 4,   // it counts outputs of all phases along w, which are two, not of a window of them
    lines = 8,        // results are neighbours along w and have the input's dtype
    any_results = 16  // a register program may have changed the number of channels
  };
};
constexpr unsigned store_flags(Store store) {
  using enum StoreTraits::Flag;
  constexpr unsigned flags[] = {
#define CONVT_STORE(name, own, ...) own,
#include "cuda/sm90/config/stores.def"
#undef CONVT_STORE
  };
  return flags[static_cast<int>(store)];
}
// Which work tiles a block takes.
enum class Scheduler : int {
  whole,    // whole tiles, round by round
  split,    // whole tiles; tiles that are left over are split by phases: scheduler/work_tile.cuh
  rotated,  // whole tiles; blocks shift by one in each round
  planes,   // whole tiles; tiles that are left over are split by planes: scheduler/sliding_planes.cuh
};
// How warps are divided among roles.
enum class Warps : int {
  balanced,
  k_heavy,  // many chunks of input channels to load
  wide,     // consumers have accumulators twice, for split operands: mainloop/split.cuh
};

// A structural type, so that it is a template argument.
struct Config {
  Phases phases;
  Loader loader;
  Operands operands;
  Store store;
  Scheduler scheduler;
  Warps warps;

  friend constexpr bool operator==(const Config&, const Config&) = default;

  // Neighbouring phases along w whose sums a warpgroup holds at a time.
  CONVT_FN constexpr int joint() const { return phases == Phases::two ? 2 : 1; }
  // Row tiles of a warpgroup.
  CONVT_FN constexpr int m_tiles(int columns = 64) const {
    if (warps == Warps::wide) return phases == Phases::folded ? 1 : 2;
    if (warps == Warps::k_heavy) return columns == most_columns ? 1 : 2;
    return is_single() || phases == Phases::sliding ? 2 : 1;
  }
  // Positions of one row tile.
  CONVT_FN constexpr int positions() const { return operands == Operands::swapped ? swapped_positions : m_tile_rows; }
  // Halo tiles have every pixel twice.
  CONVT_FN constexpr bool duplicates() const { return loader == Loader::duplicated_halo; }
  CONVT_FN constexpr bool slides() const { return phases == Phases::sliding; }
  CONVT_FN constexpr bool swaps() const { return operands == Operands::swapped; }
  CONVT_FN constexpr bool splits() const { return scheduler == Scheduler::split; }
  CONVT_FN constexpr bool rotates() const { return scheduler == Scheduler::rotated; }
  CONVT_FN constexpr bool is_k_heavy() const { return warps == Warps::k_heavy; }
  // Consumers have accumulators for split operands.
  CONVT_FN constexpr bool is_wide() const { return warps == Warps::wide; }
  // Taps that are joined to one.
  CONVT_FN constexpr int joined() const { return slides() ? joined_taps : 1; }
  // Whether the last producer warp loads halo tiles, too, if it has no weights to stream. Other configs lack registers.
  CONVT_FN constexpr bool all_producers_fill() const {
    return phases == Phases::folded || is_k_heavy() || (phases == Phases::one && !swaps());
  }

  constexpr bool stores(StoreTraits::Flag flag) const { return (store_flags(store) & flag) != 0; }
  // The chain runs in a strip of shared memory.
  constexpr bool in_strip() const { return store == Store::strip; }
  // Writers run the epilogue after a fold.
  constexpr bool hands_over() const { return store == Store::handed_over; }
  // Consumers fold all phases, and run the epilogue after the fold.
  constexpr bool folds() const { return phases == Phases::folded && !hands_over(); }
  // One phase by direct stores.
  CONVT_FN constexpr bool is_single() const { return phases == Phases::one && store == Store::direct; }
};

// The table.
namespace configs {
#define CONVT_CONFIG(name, letter, phases, loader, operands, store, scheduler, warps, ...) \
  inline constexpr Config name{Phases::phases, Loader::loader,       Operands::operands,   \
                               Store::store,   Scheduler::scheduler, Warps::warps};
#include "cuda/sm90/config/configs.def"
#undef CONVT_CONFIG
}  // namespace configs

// The operands for which a config has kernels, and for which it has kernels with register programs. any: all but split
// ones. as_stored_or_tf32x3: those without a range guard.
enum class Takes : int { none, any, two_bytes, as_stored_or_tf32x3, split };
// With more columns, registers would not suffice for two sets of accumulators.
inline constexpr int most_split_columns = 64;
// Sets of few sums that take turns (mainloop/split.cuh). Beside 128 accumulators, registers suffice for one set.
CONVT_FN constexpr int split_sets(const Config& config, int columns) {
  return columns / 2 * config.joint() * config.m_tiles(columns) >= 128 ? 1 : 2;
}
struct ConfigRow {
  std::string_view name, letter;
  Config config;
  int fewest_columns, most_columns;
  Takes operands, programs;
};
inline constexpr ConfigRow config_table[] = {
#define CONVT_CONFIG(name, letter, phases, loader, operands, store, scheduler, warps, fewest, most, takes, programs) \
  {#name, letter, configs::name, fewest, most, Takes::takes, Takes::programs},
#include "cuda/sm90/config/configs.def"
#undef CONVT_CONFIG
};
constexpr const ConfigRow& row_of(const Config& config) {
  for (const ConfigRow& row : config_table)
    if (row.config == config) return row;
  return config_table[0];
}
constexpr bool takes(Takes what, Format format, int element) {
  if (what == Takes::as_stored_or_tf32x3) return !is_guarded(format, element);
  if (is_split(format)) return what == Takes::split;
  return what == Takes::any || (what == Takes::two_bytes && operand_bytes_of(format) == 2);
}
// Whether the config has kernels with these columns.
constexpr bool has_columns(const Config& config, int columns) {
  const ConfigRow& row = row_of(config);
  return columns >= row.fewest_columns && columns <= row.most_columns;
}
// Whether kernels multiply floats as f16 or parts of f16, except for chains in strips. With fewer columns, loads and
// stores take longer than products, and few cases would use such kernels.
constexpr bool can_use_f16(int columns) { return columns >= 24; }
// Whether the config has a kernel for these columns and operands. element: bytes; program: with register programs.
constexpr bool has_kernel(const Config& config, int columns, Format format, int element, bool program) {
  const ConfigRow& row = row_of(config);
  return has_columns(config, columns) && (!is_split(format) || columns <= most_split_columns) &&
         (!is_guarded(format, element) || can_use_f16(columns)) && takes(row.operands, format, element) &&
         (!program || takes(row.programs, format, element));
}

// The warpgroups of each role in a block, and the registers of each of their threads.
struct WarpRoles {
  int consumers, producers;
  int consumer_registers, producer_registers;
  int writers = 0, writer_registers = 0;

  CONVT_FN constexpr int groups() const { return consumers + producers + writers; }
  CONVT_FN constexpr int threads() const { return groups() * group_threads; }
  CONVT_FN constexpr int first_producer() const { return consumers * group_threads; }
  CONVT_FN constexpr int first_writer() const { return (consumers + producers) * group_threads; }
  CONVT_FN constexpr int consumer_warps() const { return consumers * group_warps; }
  CONVT_FN constexpr int warps() const { return threads() / warp_threads; }
  // Warps that load halo tiles. all: the last producer warp, too, which else streams weights.
  CONVT_FN constexpr int halo_warps(bool all) const { return producers * group_warps - (all ? 0 : 1); }
};
// A block has the registers that it is launched with, a multiple of 8 for each thread. Consumers take what others give;
// who asks for more waits forever.
constexpr bool has_registers(const WarpRoles& roles) {
  const int each = 65536 / roles.threads() / 8 * 8;
  return roles.consumer_registers >= each && roles.producer_registers <= each && roles.writer_registers <= each &&
         roles.consumers * roles.consumer_registers + roles.producers * roles.producer_registers +
                 roles.writers * roles.writer_registers <=
             each * roles.groups();
}
constexpr WarpRoles roles_of(const Config& config, int columns = 64) {
  if (config.slides())
    return columns < 24   ? WarpRoles{2, 2, 120, 96, 1, 48}
           : columns < 32 ? WarpRoles{2, 2, 128, 88, 1, 48}
                          : WarpRoles{2, 2, 136, 80, 1, 48};
  if (config.swaps()) return {2, 2, 136, 80, 1, 48};
  // Two row tiles of 64 columns need the most registers, at the cost of producers.
  if (config.is_wide())
    return config.m_tiles(columns) * columns == 128 ? WarpRoles{2, 1, 216, 72} : WarpRoles{2, 2, 184, 72};
  if (columns == most_columns || config.is_k_heavy()) return {2, 2, 176, 80};
  if (config.hands_over()) return {4, 1, 88, 72, 1, 56};
  if (config.phases == Phases::two || config.phases == Phases::folded) return {4, 1, 104, 64};
  return {2, 2, 176, 80};
}
constexpr bool have_registers() {
  for (const ConfigRow& row : config_table)
    for (const int columns : {8, 24, 32, 64, most_columns})
      if (has_columns(row.config, columns) && !has_registers(roles_of(row.config, columns))) return false;
  return true;
}
static_assert(have_registers());

// Rows of a sliding plane, in all row tiles.
inline constexpr int sliding_rows = roles_of(configs::sliding).consumers * configs::sliding.m_tiles() * m_tile_rows;
// Shared memory for staged results.
constexpr int staged_bytes_of(const Config& config, [[maybe_unused]] int columns, [[maybe_unused]] int element) {
  const int bytes[] = {
#define CONVT_STORE(name, flags, own) own,
#include "cuda/sm90/config/stores.def"
#undef CONVT_STORE
  };
  return bytes[static_cast<int>(config.store)];
}

inline constexpr WarpRoles epilogue_warpgroup_roles = roles_of(configs::handed_over);
// Shared memory that configs::handed_over takes beyond configs::folded.
constexpr int epilogue_warpgroup_bytes(int columns) {
  return (epilogue_warpgroup_roles.warps() - roles_of(configs::folded).warps()) * work_tile_bytes +
         folded_buffers * folded_staged_bytes(columns);
}
// Whether kernels with register programs have registers for statistics and the convolution's own results beside the
// accumulators. If not, these are in local memory.
CONVT_FN constexpr bool has_room(const Config& config, int columns) {
  if (config.slides()) return columns < 24;
  const int accumulators = columns / 2 * config.joint() * config.m_tiles(columns);
  return accumulators < 64 || (accumulators == 64 && config.is_single());
}
// Loads that a producer thread has in flight.
CONVT_FN constexpr int loads_of(const WarpRoles& roles) { return roles.producer_registers < 80 ? 16 : 32; }
// Loads in flight in kernels with register programs. Producers of some lack a register.
constexpr int program_loads_of(const Config& config, int columns) {
  const int all = loads_of(roles_of(config, columns));
  const bool fewer = config.stores(StoreTraits::crowded) || (config.is_single() && columns == most_columns);
  return fewer && all < 32 ? 8 : fewer && columns == most_columns ? 16 : all;
}
// Shared memory for the offsets of consumers' outputs: one for each warp, and two for each thread.
constexpr int offset_bytes_of(const Config& config, int columns) {
  return config.stores(StoreTraits::offsets)
             ? warp_offset_bytes + roles_of(config, columns).consumer_warps() * vector_round
             : 0;
}
static_assert(roles_of(configs::folded).consumer_warps() * static_cast<int>(sizeof(std::int64_t)) <= warp_offset_bytes);
// Memory::many_vectors() needs this (pipeline/shared_memory.cuh).
static_assert(epilogue_warpgroup_roles.consumer_warps() == group_warps * group_warps);
static_assert(vector_round == warp_threads * 2 * static_cast<int>(sizeof(std::int64_t)));

}  // namespace convt::core::cuda::sm90
