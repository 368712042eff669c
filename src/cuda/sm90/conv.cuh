// SPDX-License-Identifier: Apache-2.0
// The convolution on Hopper's tensor cores. docs/hopper.md tells how one tile travels.
//
// Three warpgroups. One of producers reads the input, rounds it and writes halo tiles to shared memory,
// [pixel][channel]; one of its warps streams weights. Two warpgroups of consumers multiply: rows are positions, columns
// output channels. Every tap of every phase reads the same halo tile, from another row on. The chain runs on the sums.
#pragma once

#include "cuda/sm90/careful.cuh"
#include "cuda/sm90/epilogue.cuh"
#include "cuda/sm90/instructions.cuh"
#include "cuda/sm90/launchers.hpp"
#include "cuda/sm90/work.cuh"

namespace convt::core::cuda::sm90 {

inline constexpr int consumer_warps = consumers * group_threads / warp_threads;
inline constexpr int consumer_registers = 184, producer_registers = 72;  // of 65536 / threads = 128

// Addresses of barriers and buffers.
struct Shared {
  std::uint32_t halo, weights, barriers;
  bool careful;       // some weight is not finite: nothing comes through shared memory
  const int* places;  // by tap: rows from a position to the input that the tap sees

  __device__ std::uint32_t halo_full(int slot) const { return barriers + slot * 8; }
  __device__ std::uint32_t halo_empty(int slot) const { return barriers + (most_slots + slot) * 8; }
  __device__ std::uint32_t weights_full(int stage) const { return barriers + (2 * most_slots + stage) * 8; }
  __device__ std::uint32_t weights_empty(int stage) const {
    return barriers + (2 * most_slots + most_stages + stage) * 8;
  }
};

// A place in a ring, and how often it was passed.
struct Ring {
  int size, place = 0, parity = 0;
  __device__ void next() {
    if (++place == size) {
      place = 0;
      parity ^= 1;
    }
  }
};

template <class E>
__device__ void stream_weights(const ConvParams& p, const Shared& shared, int tile_bytes) {
  Ring stage{p.stages};
  for (int i = blockIdx.x; i < p.items; i += gridDim.x) {
    const Item item = item_at(p, i);
    for_each_phase(p, [&](int d, int h, int w) {
      const Class c = class_at(p, d, h, w);
      const int tiles = c.taps * p.chunks;
      const auto* from = static_cast<const unsigned char*>(p.weights) +
                         (static_cast<std::int64_t>(item.band) * p.taps + c.first) * p.chunks * tile_bytes;
      for (int t = 0; t < tiles; t += p.stage_tiles) {
        const int bytes = min(p.stage_tiles, tiles - t) * tile_bytes;
        wait(shared.weights_empty(stage.place), stage.parity ^ 1);
        arrive_expecting(shared.weights_full(stage.place), bytes);
        copy_bulk(shared.weights + stage.place * p.stage_tiles * tile_bytes,
                  from + static_cast<std::int64_t>(t) * tile_bytes, bytes, shared.weights_full(stage.place));
        stage.next();
      }
    });
  }
}

// Where a pixel of the halo tile is in the input; somewhere else where it is outside.
template <class E>
struct HaloPixel {
  const E* from;
  std::int64_t step;  // from one channel to the next
  bool inside;

  __device__ HaloPixel(const ConvParams& p, const Item& item, const E* image, int row) {
    const int line = row / p.axis[2].halo;
    const int at[3] = {line / p.axis[1].halo, line % p.axis[1].halo, row - line * p.axis[2].halo};
    inside = true;
    from = image;
#pragma unroll
    for (int a = 0; a < 3; ++a) {
      const int x = item.tile[a] * p.axis[a].tile + p.axis[a].first + at[a];
      inside &= static_cast<unsigned>(x - p.axis[a].lowest) < static_cast<unsigned>(p.axis[a].inputs);
      from += x * p.axis[a].step;
    }
    if (!inside) from = static_cast<const E*>(p.there);
    step = inside ? p.channel_step : 0;
  }
};

// One chunk of channels of a halo tile, by some warps. Lanes have neighbouring pixels; each loads 32 elements without
// conditions, so that all of them are under way at once.
template <class E>
__device__ void fill_halo(const ConvParams& p, const Item& item, int chunk, unsigned char* slot) {
  constexpr int channels = row_bytes / static_cast<int>(sizeof(E)), at_once = 32;
  constexpr int each = 16 / static_cast<int>(sizeof(E));
  const int there = min(channels, p.in_channels - chunk * channels);
  const E* const image = static_cast<const E*>(p.input) + item.image * p.image_step +
                         static_cast<std::int64_t>(chunk) * channels * p.channel_step;
#pragma unroll 1
  for (int row = threadIdx.x - consumers * group_threads; row < p.halo_rows; row += halo_warps * warp_threads) {
    HaloPixel<E> pixel(p, item, image, row);
#pragma unroll
    for (int first = 0; first < channels; first += at_once) {
      E x[at_once];
#pragma unroll
      for (int c = 0; c < at_once; ++c) {
        x[c] = *pixel.from;
        if (first + c + 1 < there) pixel.from += pixel.step;
      }
#pragma unroll
      for (int c = 0; c < at_once; c += each) {
#pragma unroll
        for (int k = c; k < c + each; ++k)
          if (!pixel.inside || first + k >= there) x[k] = E{};
        *reinterpret_cast<uint4*>(slot + row * row_bytes + ((first + c) / each ^ row % 8) * 16) = rounded_vector(x + c);
      }
    }
  }
}

template <class E>
__device__ void fill_halos(const ConvParams& p, const Shared& shared, unsigned char* slots) {
  Ring slot{p.slots};
  for (int i = blockIdx.x; i < p.items; i += gridDim.x) {
    const Item item = item_at(p, i);
    for (int fill = 0; fill < p.fills; ++fill)
      for (int chunk = 0; chunk < p.chunks; ++chunk) {
        wait(shared.halo_empty(slot.place), slot.parity ^ 1);
        fill_halo<E>(p, item, chunk, slots + slot.place * p.slot_bytes);
        fence_async();
        __syncwarp();
        if (threadIdx.x % warp_threads == 0) arrive(shared.halo_full(slot.place));
        slot.next();
      }
  }
}

// What consumers know of the rings.
struct Feed {
  Ring halo, stage;
};

// The products of one class into the sums of the warpgroup's blocks.
template <Format format, int n, int blocks>
__device__ void accumulate(const ConvParams& p, const Shared& shared, const Class& c, Feed& feed,
                           float (&sums)[blocks][n / 2]) {
  constexpr int tile_bytes = n * row_bytes, all_steps = row_bytes / step_bytes;
  const bool speaks = threadIdx.x % warp_threads == 0;
  const int group = __shfl_sync(~0U, threadIdx.x / group_threads, 0);
  constexpr int unit = 16, row_units = row_bytes / unit, step_units = step_bytes / unit, tile_units = tile_bytes / unit;
  const Operand all_weights(shared.weights, 8);
  int offset[blocks];  // of a block, in units
#pragma unroll
  for (int b = 0; b < blocks; ++b) {
    const int(&at)[3] = p.origin[group * blocks + b];
    offset[b] = (c.row + (at[0] * p.axis[1].halo + at[1]) * p.axis[2].halo + at[2]) * row_units;
  }
  Ring halo = feed.halo;
  int in_stage = 0, previous = -1;
  for (int chunk = 0; chunk < p.chunks; ++chunk) {
    const Operand tile(shared.halo + halo.place * p.slot_bytes, p.group_rows);
    const int steps = chunk + 1 == p.chunks ? p.last_steps : all_steps;
    wait(shared.halo_full(halo.place), halo.parity);
    for (int tap = 0; tap < c.taps; ++tap) {
      if (in_stage == 0) wait(shared.weights_full(feed.stage.place), feed.stage.parity);
      const int a = shared.places[c.first + tap] * row_units;
      const int b = (feed.stage.place * p.stage_tiles + in_stage) * tile_units;
      const auto multiply_step = [&](int k) {
#pragma unroll
        for (int i = 0; i < blocks; ++i)
          multiply<format, n>(sums[i], tile.moved(a + offset[i] + k * step_units),
                              all_weights.moved(b + k * step_units));
      };
      if (steps == all_steps) {  // without a loop, whose end would close a group of products
        multiply_begin();
#pragma unroll
        for (int k = 0; k < all_steps; ++k) multiply_step(k);
      } else {
#pragma unroll 1
        for (int k = 0; k < steps; ++k) {
          multiply_begin();
          multiply_step(k);
        }
      }
      multiply_commit();
      if (in_stage == 0 && previous >= 0) {
        multiply_wait<1>();
        if (speaks) arrive(shared.weights_empty(previous));
      }
      if (++in_stage == p.stage_tiles) {
        in_stage = 0;
        previous = feed.stage.place;
        feed.stage.next();
      } else {
        previous = -1;
      }
    }
    if (!p.resident) {
      multiply_wait<0>();
      if (speaks) arrive(shared.halo_empty(halo.place));
    }
    halo.next();
  }
  multiply_wait<0>();
  if (in_stage != 0) {
    previous = feed.stage.place;
    feed.stage.next();
  }
  if (speaks && previous >= 0) arrive(shared.weights_empty(previous));
  if (!p.resident) feed.halo = halo;
}

// Frees the chunks of a tile that is done.
__device__ inline void release_tile(const ConvParams& p, const Shared& shared, Feed& feed) {
  for (int chunk = 0; chunk < p.chunks; ++chunk) {
    wait(shared.halo_full(feed.halo.place), feed.halo.parity);
    __syncwarp();  // a lane that comes later would wait for what is filled next
    if (threadIdx.x % warp_threads == 0) arrive(shared.halo_empty(feed.halo.place));
    feed.halo.next();
  }
}

template <int n, int blocks>
__device__ void clear(float (&sums)[blocks][n / 2]) {
#pragma unroll
  for (auto& block : sums)
#pragma unroll
    for (float& x : block) x = 0;
}

template <class Kind>
__device__ void sum_phase(const ConvParams& p, const Shared& shared, int item, const int (&phase)[3], Feed& feed,
                          float (&sums)[Kind::blocks][Kind::columns / 2]) {
  const Class c = class_at(p, phase[0], phase[1], phase[2]);
  if (c.taps == 0) return;
  if (shared.careful)
    accumulate_carefully<typename Kind::Element, Kind::columns, Kind::blocks>(p, item_at(p, item), phase, c, sums);
  else
    accumulate<Kind::format, Kind::columns, Kind::blocks>(p, shared, c, feed, sums);
}

// Phase by phase to the output; neighbouring ones along w together.
template <class Kind>
__device__ void run_phases(const ConvParams& p, const Shared& shared, int item, Feed& feed, unsigned char* memory) {
  constexpr int n = Kind::columns, blocks = Kind::blocks, joint = Kind::joint;
  for (int d = 0; d < phases(p.axis[0]); ++d)
    for (int h = 0; h < phases(p.axis[1]); ++h)
      for (int w = 0; w < phases(p.axis[2]); w += joint) {
        float sums[joint][blocks][n / 2];
#pragma unroll
        for (int j = 0; j < joint; ++j) {
          clear<n, blocks>(sums[j]);
          if (w + j >= phases(p.axis[2])) continue;
          sum_phase<Kind>(p, shared, item, {d, h, w + j}, feed, sums[j]);
        }
        const int phase[3] = {d, h, w};
        if constexpr (Kind::way == Way::strip)
          finish_in_strip<n>(p, item_at(p, item), phase, sums[0][0], memory);
        else
          finish<typename Kind::Element>(p.quick, lines_in<n>(memory), p, item_at(p, item), phase, sums);
      }
}

// All phases of a position into one result.
template <class Kind>
__device__ void run_folded(const ConvParams& p, const Shared& shared, int item, Feed& feed, unsigned char* memory) {
  constexpr int n = Kind::columns, blocks = Kind::blocks;
  using E = typename Kind::Element;
  float folded[1][blocks][n / 2];
  start_fold<n>(p.fold, folded);
  for_each_phase(p, [&](int d, int h, int w) {
    float sums[1][blocks][n / 2];
    clear<n, blocks>(sums[0]);
    sum_phase<Kind>(p, shared, item, {d, h, w}, feed, sums[0]);
    fold_phase<E>(p, lines_in<n>(memory), sums, folded);
  });
  const int phase[3] = {0, 0, 0};
  finish<E>(p.behind, lines_in<n>(memory, 1), p, item_at(p, item), phase, folded);
}

template <class Kind>
__device__ void consume(const ConvParams& p, const Shared& shared, unsigned char* memory) {
  Feed feed{{p.slots}, {p.stages}};
  int band = -1;  // whose lines are there
  for (int item = blockIdx.x; item < p.items; item += gridDim.x) {
    if constexpr (Kind::way != Way::strip)
      fill_lines<Kind::columns, Kind::way == Way::folded>(p, item % p.bands, band, memory);
    if constexpr (Kind::way == Way::folded)
      run_folded<Kind>(p, shared, item, feed, memory);
    else
      run_phases<Kind>(p, shared, item, feed, memory);
    if (p.resident && !shared.careful) release_tile(p, shared, feed);
  }
}

template <class Kind>
__global__ void __launch_bounds__(threads, 1) conv_kernel(const __grid_constant__ ConvParams p) {
  using E = typename Kind::Element;
  constexpr int tile_bytes = Kind::columns * row_bytes;
  unsigned char* const dynamic = dynamic_shared();
  std::uint64_t* const barriers = shared_words<barrier_bytes / 8>();
  unsigned char* const memory = dynamic + (shared_slack - shared_address(dynamic) % shared_slack) % shared_slack;
  unsigned char* const weights = memory + p.slots * p.slot_bytes;
  unsigned char* const behind = weights + p.stages * p.stage_tiles * tile_bytes;
  int* const places = reinterpret_cast<int*>(behind);
  const Shared shared{shared_address(memory), shared_address(weights), shared_address(barriers), *p.careful != 0,
                      places};
  for (int i = threadIdx.x; i < p.taps; i += threads)
    places[i] = -(p.shifts[3 * i] * p.axis[1].halo + p.shifts[3 * i + 1]) * p.axis[2].halo - p.shifts[3 * i + 2];
  if (threadIdx.x == 0) {
    for (int i = 0; i < p.slots; ++i) {
      init_barrier(shared.halo_full(i), halo_warps);
      init_barrier(shared.halo_empty(i), consumer_warps);
    }
    for (int i = 0; i < p.stages; ++i) {
      init_barrier(shared.weights_full(i), 1);
      init_barrier(shared.weights_empty(i), consumer_warps);
    }
    fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x >= consumers * group_threads) {
    give_registers<producer_registers>();
    if (shared.careful) return;
    if (threadIdx.x < threads - warp_threads)
      fill_halos<E>(p, shared, memory);
    else if (threadIdx.x == threads - warp_threads)
      stream_weights<E>(p, shared, tile_bytes);
  } else {
    take_registers<consumer_registers>();
    consume<Kind>(p, shared, behind + (p.taps * 4 + 15) / 16 * 16);
  }
}

template <class E, Format how, int n, Way which>
struct KernelKind {
  using Element = E;
  static constexpr Format format = how;
  static constexpr Way way = which;
  static constexpr int columns = n, blocks = blocks_of(which), joint = which == Way::paired ? 2 : 1;
};

template <class Kind>
void launch_kind(const ConvParams& params, const Launch& how) {
  static_assert(sizeof params <= 4096);
  constexpr auto* kernel = conv_kernel<Kind>;
  // The same for every launch: other threads launch this kernel too.
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most_shared),
        "the shared memory of Hopper's convolution");
  void* arguments[] = {const_cast<ConvParams*>(&params)};
  check(cudaLaunchKernel(kernel, dim3(how.grid), dim3(threads), arguments, how.shared, how.stream),
        "Hopper's convolution");
}

template <class E, Format format, int n>
void launch_columns(Way way, const ConvParams& params, const Launch& how) {
  switch (way) {
    case Way::strip:
      return launch_kind<KernelKind<E, format, n, Way::strip>>(params, how);
    case Way::single:
      return launch_kind<KernelKind<E, format, n, Way::single>>(params, how);
    case Way::paired:
      return launch_kind<KernelKind<E, format, n, Way::paired>>(params, how);
    case Way::folded:
      if constexpr (can_fold(n)) return launch_kind<KernelKind<E, format, n, Way::folded>>(params, how);
  }
}

template <class E, Format format>
void launch_format(Way way, int columns, const ConvParams& params, const Launch& how) {
  switch (columns) {
    case 8:
      return launch_columns<E, format, 8>(way, params, how);
    case 24:
      return launch_columns<E, format, 24>(way, params, how);
    case 32:
      return launch_columns<E, format, 32>(way, params, how);
    default:
      return launch_columns<E, format, 64>(way, params, how);
  }
}

}  // namespace convt::core::cuda::sm90
