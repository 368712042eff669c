// SPDX-License-Identifier: Apache-2.0
// The convolution of stride 1 for few output channels, whose products would not fill the matrix instructions' columns.
//
// A block marches along the first axis, input plane by input plane. The three taps of that axis are joined: each
// plane's products have three times the columns, one part for each of the three output planes that it belongs to.
// Behind a plane the first part is complete and leaves; the others move up. Weights stay in shared memory, and every
// input plane is read once.
#pragma once

#include "cuda/sm90/conv.cuh"
#include "cuda/sm90/planes.cuh"
#include "cuda/sm90/staged.cuh"

namespace convt::core::cuda::sm90 {

// Output planes of a tile, one after the other, and the input plane that completes one.
struct March {
  int tile, first, end, to_input;
};

// Tiles of which there are too few for all blocks share their planes evenly, so that blocks end together: where a
// block's part begins.
struct PlaneOfTile {
  int tile, plane;

  __device__ PlaneOfTile(const ConvParams& p, int tiles, int block) {
    const std::int64_t at = static_cast<std::int64_t>(tiles) * p.axis[0].size * block / static_cast<int>(gridDim.x);
    tile = uniform(static_cast<int>(at / p.axis[0].size));
    plane = uniform(static_cast<int>(at % p.axis[0].size));
  }
};
// Whole tiles first, neighbours at the same time, as they have inputs in common; then a part of those that are left.
template <class F>
__device__ void for_each_march(const ConvParams& p, F&& f) {
#pragma unroll 1
  for (int i = 0;; ++i) {
    int tiles = p.items;
    forget(tiles);  // all of this is found again for each tile: registers are short
    const int block = blockIdx.x, blocks = gridDim.x, rounds = uniform(tiles / blocks), whole = rounds * blocks;
    const PlaneOfTile begin(p, tiles - whole, block), end(p, tiles - whole, block + 1);
    const int part = i - rounds, last = end.tile - begin.tile;
    if (part > last) return;
    const int first = part == 0 ? begin.plane : 0, behind = part == last ? end.plane : p.axis[0].size;
    if (first < behind)
      f(March{part < 0 ? block + i * blocks : whole + begin.tile + part, first, behind,
              p.axis[0].first + joined_taps - 1});
  }
}

// The input planes of a march that are inside the image: neighbours.
struct Inputs {
  int first, count;

  __device__ Inputs(const ConvAxis& axis, const March& march)
      : first(max(march.first - (joined_taps - 1) + march.to_input, axis.lowest)),
        count(min(march.end + march.to_input, axis.lowest + axis.inputs) - first) {}
};

// By shares; false where these would be too large.
template <class E, int pixels, int blocks>
__device__ bool fill_shares(const ConvParams& p, const Shared& shared, unsigned char* slots, RangeGuard<E>& guard) {
  constexpr int parts = blocks + 2 - pixels;  // what tiles have, but for long thin ones
  if (!can_share<pixels, parts>(p)) return false;
  Ring slot{p.slots};
  for_each_march(p, [&](const March& march) {
    const Inputs inputs(p.axis[0], march);
    const Share<E, pixels, parts> share(p, corner_of(p, item_at(p, march.tile)));
    if (inputs.count > 0)
      PlaneFiller<E, pixels, parts>(p, shared, share, slots, slot, guard).fill(inputs.first, inputs.count);
  });
  return true;
}

template <class E, int blocks, int loads>
__device__ void fill_planes(const ConvParams& p, const Shared& shared, unsigned char* slots) {
  const int first = static_cast<int>(threadIdx.x) - march_team.first_producer();
  RangeGuard<E> guard;
  bool done = false;
  with_pixels<E>(p, [&]<int pixels>() { done = fill_shares<E, pixels, blocks>(p, shared, slots, guard); });
  if (done) return;
  Ring slot{p.slots};
  Filler filler{first, march_fillers};
  for_each_march(p, [&](const March& march) {
    const Inputs inputs(p.axis[0], march);
    Corner corner = corner_of(p, item_at(p, march.tile));
    corner.at[0] = inputs.first;
    for (int i = 0; i < inputs.count; ++i, ++corner.at[0])
      fill_box<E, loads, false>(
          p, shared, corner, slots, slot, filler, 1, [](int) {}, guard);
  });
}

// One chunk of channels of a plane; the slot before it is released when its products are done.
template <Format format, int n, int blocks, int steps>
__device__ void multiply_joined(const ConvParams& p, const Shared& shared, int chunk, const int (&offset)[blocks],
                                const Ring& slot, float (&sums)[blocks][n / 2]) {
  constexpr int step_units = step_bytes / 16;
  const Operand tile{shared.halo + slot.place * p.slot_units, p.input_layout};
  const Operand all_weights{shared.weights, p.weight_layout};
  int weights = all_weights.place + chunk * p.taps * p.tile_units;
  Walk walk(p, p.classes[0], tile.place + p.classes[0].place);
  int left = p.taps;
#pragma unroll 1
  do {
    multiply_begin();
#pragma unroll
    for (int k = 0; k < steps; ++k)
#pragma unroll
      for (int i = 0; i < blocks; ++i)
        multiply<format, n>(sums[i], tile.at(walk.place + offset[i] + k * step_units),
                            all_weights.at(weights + k * step_units));
    multiply_commit();
    weights += p.tile_units;
    walk.next();
  } while (--left > 0);
  if (chunk == 0) return;
  multiply_wait<1>();
  if (threadIdx.x % warp_threads == 0) arrive(shared.halo_empty(slot.before()));
}

// One input plane into the sums of the three output planes that it belongs to.
template <Format format, int n, int blocks>
__device__ void multiply_plane(const ConvParams& p, const Shared& shared, const int (&offset)[blocks], Ring& slot,
                               float (&sums)[blocks][n / 2]) {
  int chunk = 0;
  do {
    wait_together(shared.halo_full(slot.place), slot.parity);
    with_steps(chunk + 1 == p.chunks ? p.last_steps : p.steps,
               [&]<int steps>() { multiply_joined<format, n, blocks, steps>(p, shared, chunk, offset, slot, sums); });
    slot.next();
  } while (++chunk < p.chunks);
  multiply_wait<0>();
  if (threadIdx.x % warp_threads == 0) arrive(shared.halo_empty(slot.before()));
}

// Puts sums of one plane into shared memory: 8 columns at a time, those of 16 bits by whole blocks of 8 rows.
template <class To, int n, int blocks>
class PlaneStager {
 public:
  __device__ explicit PlaneStager(unsigned char* memory) {
    static_assert(blocks == 2);
    const int group = threadIdx.x / group_threads, row = threadIdx.x % group_threads / warp_threads * 16;
    const int lane = threadIdx.x % warp_threads, part = lane / 8;
    to_ = staged_in<To, n>(memory) + group * blocks * block_rows;
    if (in_blocks)
      to_ += lane % 8 * pitch + part / 2 * block_rows + row + part % 2 * 8;
    else
      to_ += Sums<n>::column(0) * pitch + Sums<n>::row(0);
  }

  // As Writer has them.
  __device__ int channels() const { return n; }
  template <class F>
  __device__ void with_put(F&& f) const {
    f([&](int i, const float(&x)[1][blocks][4]) { put(i, x); });
  }

 private:
  static constexpr bool in_blocks = sizeof(To) == 2;
  static constexpr int pitch = march_pitch(march_team.consumers * blocks * block_rows, sizeof(To));

  __device__ void put(int i, const float (&x)[1][blocks][4]) const {
    if constexpr (in_blocks) {
      const auto pair = [&](int b, int half) { return pair_bits<To>(x[0][b][2 * half], x[0][b][2 * half + 1]); };
      store_transposed(to_ + 8 * i * pitch, pair(0, 0), pair(0, 1), pair(1, 0), pair(1, 1));
    } else {
#pragma unroll
      for (int b = 0; b < blocks; ++b)
#pragma unroll
        for (int k = 0; k < 4; ++k) to_[(8 * i + k % 2) * pitch + b * block_rows + k / 2 * 8] = element<To>(x[0][b][k]);
    }
  }

  To* to_;
};

// What a thread of the writers takes of every plane of a tile: one row of each of a few groups of a warp's. Found once.
template <class To, int count>
struct RowsOfPlanes {
  static constexpr int at_once = 4;  // channels; columns are a multiple

  To* to[count];  // of the first channel
  bool inside[count];
  int first;  // row; the next ones are a warp's threads further

  // `plane`: the first one.
  __device__ RowsOfPlanes(const ConvParams& p, const Item& item, int plane) {
    const int top = item.tile[1] * p.axis[1].tile, left = item.tile[2] * p.axis[2].tile;
    const int height = min(p.axis[1].tile, p.axis[1].size - top), width = min(p.axis[2].tile, p.axis[2].size - left);
    const int thread = static_cast<int>(threadIdx.x) % group_threads;
    first = thread / warp_threads * count * warp_threads + thread % warp_threads;
#pragma unroll
    for (int k = 0; k < count; ++k) {
      const int row = first + k * warp_threads, block = row / block_rows, own = row % block_rows;
      const RunRow run(p, block * block_rows + own);
      const int h = p.run != 0 ? run.h : position_at(p, block, own, 1);
      const int w = p.run != 0 ? run.w : position_at(p, block, own, 2);
      inside[k] = h < height && w < width;
      to[k] = static_cast<To*>(p.to.data) + item.image * p.to.step.n + plane * p.to.step.d + (top + h) * p.to.step.h +
              (left + w) * p.to.step.w;
    }
  }

  // And goes on to the next plane.
  __device__ void write(const ConvParams& p, const To* staged, int pitch) {
    To* at[count];
#pragma unroll
    for (int k = 0; k < count; ++k) at[k] = to[k];
    staged += first;
#pragma unroll 1
    for (int left = p.out_channels; left > 0; left -= at_once, staged += at_once * pitch) {
      To x[at_once][count];
#pragma unroll
      for (int c = 0; c < at_once; ++c)
#pragma unroll
        for (int k = 0; k < count; ++k) x[c][k] = staged[c * pitch + k * warp_threads];
#pragma unroll
      for (int c = 0; c < at_once; ++c)
#pragma unroll
        for (int k = 0; k < count; ++k)
          if (inside[k] && c < left) store_result(ahead(at[k], p.results.channel, c), x[c][k]);
#pragma unroll
      for (int k = 0; k < count; ++k) at[k] = ahead(at[k], p.results.channel, at_once);
    }
#pragma unroll
    for (int k = 0; k < count; ++k) to[k] += p.to.step.d;
  }
};

// By the writers: every plane, when consumers have staged it.
template <class To, int n, int blocks>
__device__ void write_planes(const ConvParams& p, const Memory& memory) {
  constexpr int rows = march_team.consumers * blocks * block_rows;
  static_assert(rows % group_threads == 0 && n % RowsOfPlanes<To, 1>::at_once == 0);
  int parity = 0;
  for_each_march(p, [&](const March& march) {
    RowsOfPlanes<To, rows / group_threads> own(p, item_at(p, march.tile), march.first);
#pragma unroll 1
    for (int z = march.first; z < march.end; ++z, parity ^= 1) {
      wait(memory.shared.staged_full(), parity);
      own.write(p, staged_in<To, n>(memory.behind), march_pitch(rows, sizeof(To)));
      release_staged(memory.shared);
    }
  });
}

// A complete plane through the chain, to the writers.
template <class Kind>
__device__ void finish_plane(const ConvParams& p, const Memory& memory,
                             float (&complete)[1][Kind::blocks][Kind::columns / 2], int& staged) {
  finish<typename Kind::Element, Centred>(
      p.quick, lines_in<Kind::columns>(memory.behind), p,
      [&]<class To>() {
        wait_for_staging(memory.shared, staged);
        return PlaneStager<To, Kind::columns, Kind::blocks>(memory.behind);
      },
      complete);
  hand_on_staged(memory.shared, staged);
}

// The sums of the next two output planes take the place of those before; zeros follow.
template <int n, int blocks>
__device__ void move_up(float (&sums)[blocks][joined_taps * n / 2]) {
#pragma unroll
  for (int b = 0; b < blocks; ++b)
#pragma unroll
    for (int k = 0; k < joined_taps * n / 2; ++k)
      sums[b][k] = k < n ? sums[b][(k + n / 2) % (joined_taps * n / 2)] : 0.0f;
}

template <class Kind>
__device__ void march_along(const ConvParams& p, const Memory& memory) {
  const Shared& shared = memory.shared;
  constexpr int n = Kind::columns, all = joined_taps * n, blocks = Kind::blocks;
  const int group = uniform(threadIdx.x / group_threads);
  int offset[blocks];  // of each block, in units of 16 bytes
#pragma unroll
  for (int b = 0; b < blocks; ++b) offset[b] = p.block_place[group * blocks + b];
  Ring slot{p.slots};
  int band = -1, staged = 0;
  fill_lines<n, march_team.first_producer()>(p, 0, band, memory.behind, first_chain);
  if (!shared.careful) wait_together(shared.weights_full(0), 0);
  for_each_march(p, [&](const March& march) {
    keep_item(item_at(p, march.tile), memory.item());
    float sums[blocks][all / 2];
    clear<all, blocks>(sums);
    const auto leave = [&](int z) {  // the output plane that no other input plane belongs to
      if (z >= march.first) {
        float complete[1][blocks][n / 2];
        if (!Kind::halved && shared.careful) {
          accumulate_carefully<typename Kind::Element, n, joined_taps, PositionsAsRows<n>, blocks>(
              p, *memory.item(), 0, z, 0, 0, complete[0]);
        } else {
#pragma unroll
          for (int b = 0; b < blocks; ++b)
#pragma unroll
            for (int k = 0; k < n / 2; ++k) complete[0][b][k] = sums[b][k];
        }
        finish_plane<Kind>(p, memory, complete, staged);
      }
      move_up<n, blocks>(sums);
    };
    if constexpr (n < 32) {
      // Every input plane that is inside, and behind the last one what is complete without others: sums that pass by
      // products would be moved four times on the way. Each output plane has an input plane: with stride 1 and three
      // taps, none lies further outside than they reach.
      const Inputs inputs(p.axis[0], march);
      int z = shared.careful ? march.first : inputs.first - march.to_input;
#pragma unroll 1
      for (int left = shared.careful ? 1 : inputs.count; left > 0; --left) {
        if (shared.careful)
          leave_open(sums);
        else
          multiply_plane<Kind::format, all, blocks>(p, shared, offset, slot, sums);
        const int end = left > 1 ? z + 1 : march.end;
#pragma unroll 1
        do leave(z);
        while (++z < end);
      }
    } else {
      // That takes registers for sums and for results: here there are too few.
#pragma unroll 1
      for (int z = march.first - (joined_taps - 1); z < march.end; ++z) {
        if (!shared.careful && is_inside(p.axis[0], z + march.to_input))
          multiply_plane<Kind::format, all, blocks>(p, shared, offset, slot, sums);
        leave(z);
      }
    }
  });
}

template <class Kind>
__global__ void __launch_bounds__(march_team.threads(), 1) march_kernel(const __grid_constant__ ConvParams p) {
  if (!must_run<Kind>(p)) return;
  const int tile_bytes = joined_taps * Kind::columns * p.row_bytes;
  Memory memory(p, tile_bytes, march_team.warps());
  if (threadIdx.x == 0) RangeGuard<typename Kind::Input>::clear(p);
  if (threadIdx.x == 0)
    init_barriers(p, memory.shared, march_warps, march_team.consumer_warps(), 1, march_team.first_producer());
  __syncthreads();
  memory.shared.careful = must_be_careful<Kind>(p);
  if (threadIdx.x >= march_team.first_writer()) {
    give_registers<Kind::team.writer_registers>();
    if (threadIdx.x == march_team.first_writer() && !memory.shared.careful) load_weights(p, memory.shared, tile_bytes);
    using E = typename Kind::Element;
    if (sizeof(E) == sizeof(float) || p.to.dtype != CONVT_F32)
      write_planes<E, Kind::columns, Kind::blocks>(p, memory);
    else
      write_planes<float, Kind::columns, Kind::blocks>(p, memory);
  } else if (threadIdx.x >= march_team.first_producer()) {
    give_registers<Kind::team.producer_registers>();
    if (memory.shared.careful) return;
    constexpr int loads = 16;  // that a producer has under way
    fill_planes<typename Kind::Input, Kind::blocks, loads>(p, memory.shared, memory.slots);
  } else {
    take_registers<Kind::team.consumer_registers>();
    march_along<Kind>(p, memory);
  }
}

}  // namespace convt::core::cuda::sm90
