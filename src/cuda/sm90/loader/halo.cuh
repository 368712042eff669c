// SPDX-License-Identifier: Apache-2.0
// The halo loader: boxes of inputs to shared memory, [pixel][channel].
#pragma once

#include "cuda/sm90/loader/duplicated_halo.cuh"
#include "cuda/sm90/loader/range_guard.cuh"

namespace convt::core::cuda::sm90 {

// A producer thread's share of each box. The first thread moves on from box to box, which evens out incomplete rounds.
struct Filler {
  int first, threads;  // first: its first row, or part of a line

  __device__ void next(int parts) {
    opaque(parts);  // recomputed, to save registers
    first -= (parts + warp_threads - 1) / warp_threads * warp_threads % threads;
    if (first < 0) first += threads;
  }
};

// Loads one chunk of channels of a box. Lanes have neighbouring parts of lines. Each lane issues `loads` loads without
// conditions, so that all are in flight at once. full: the chunk has all its channels. acquire(): waits until the stage
// is empty, while the first loads are in flight.
template <class E, int pixels, int loads, int row_bytes, bool duplicated, bool full, class Acquire>
__device__ void fill_rows(const ConvParams& p, const Corner& corner, int chunk, unsigned char* halo_stage,
                          const Filler& filler, const Acquire& acquire, RangeGuard<E>& guard) {
  constexpr int size = part_bytes<E>, channels = row_bytes / operand_bytes<E>, each = 16 / size;
  constexpr int at_once = channels < loads ? channels : loads, parts = loads / at_once;
  using X = Loaded<E, pixels>;
  using Offsets = std::conditional_t<duplicated, DuplicatedRowOffsets<pixels>, RowOffsets<pixels>>;
  const HaloLines<E, pixels> lines(p, corner);
  const int channels_left = min(channels, p.in_channels - chunk * channels), all = lines.all(p);
  const std::int64_t channel_bytes = p.channel_step * static_cast<std::int64_t>(sizeof(E));
  const std::int64_t first_channel = static_cast<std::int64_t>(chunk) * channels * p.channel_step;
  // With a range guard, warps stay converged: all lanes go on while one of them has a part.
  constexpr bool together = RangeGuard<E>::guards;
  static_assert(!together || parts == 1);
  const auto has_part = [&](int part) { return (together ? part & -warp_threads : part) < all; };
#pragma unroll 1
  for (int part = filler.first; has_part(part); part += filler.threads * parts) {
    X x[parts][at_once];
    const X* from[parts];
    Offsets rows[parts];
#pragma unroll
    for (int i = 0; i < parts; ++i) {
      const int own = part + i * filler.threads;
      const HaloPart at(p, lines, own);
      const HaloPixel<E> pixel = halo_pixel<E>(p, corner, first_channel, at);
      from[i] = reinterpret_cast<const X*>(pixel.from);
      rows[i] = Offsets(p, at, row_bytes, pixel.inside ? Offsets::inside : 0);
    }
#pragma unroll 1
    for (int first = 0; first < channels; first += at_once) {
      int left = channels_left - first;
      opaque(left);  // recomputed, to save registers
#pragma unroll
      for (int i = 0; i < parts; ++i)
#pragma unroll
        for (int c = 0; c < at_once; ++c) x[i][c] = load_next(from[i], full || c + 1 < left ? channel_bytes : 0);
      if (part == filler.first && first == 0) acquire();
#pragma unroll
      for (int i = 0; i < parts; ++i) {
        if (i > 0 && part + i * filler.threads >= all) continue;
        const bool is_part = !together || part < all;
        const int turned = first_pixel<pixels, duplicated>();
        int offset[pixels];
#pragma unroll
        for (int k = 0; k < pixels; ++k) offset[k] = rows[i].offset[k] ^ (duplicated ? 0 : first * size);
        const bool inside = (offset[0] & Offsets::inside) != 0;
        const auto is_valid = [&](int k) { return inside && (full || k < left); };
        scale_inputs(x[i], at_once);
        if constexpr (together) {
          const bool asked =
              guard.is_asked(guard.has_small(x[i], at_once, inside));  // channels past the last repeat the last one
#pragma unroll
          for (int k = 0; k < at_once; ++k)
            if (!is_valid(k)) x[i][k] = X{};
          if (asked) guard.judge_pixels(p, x[i], at_once, all <= warp_threads);
        }
#pragma unroll
        for (int c = 0; c < at_once; c += each) {
#pragma unroll
          for (int k = c; k < c + each; ++k)
            if (!together && !is_valid(k)) x[i][k] = X{};
#pragma unroll
          for (int k = 0; k < pixels; ++k) {
            const uint4 unit = unit_of(x[i] + c, k ^ turned);
            guard.add(unit);
            if (!is_part || (pixels > 1 && (offset[k] & Offsets::absent) != 0)) continue;
            if constexpr (duplicated)
              store_duplicated(p, halo_stage, offset[k], row_bytes, (first + c) * size, unit);
            else
              *reinterpret_cast<uint4*>(halo_stage + ((offset[k] & -16) ^ c * size)) = unit;
            if constexpr (operand_parts<E> == 2)
              *reinterpret_cast<uint4*>(halo_stage + ((offset[k] & -16) ^ (row_bytes / 2 + c * size))) =
                  split_vector(x[i] + c, true);
          }
        }
        guard.end(p);
      }
    }
  }
  if (!has_part(filler.first)) acquire();
}

// The channels of a unit, as 16-byte loads bring them.
template <class E>
struct LoadedUnit {
  static constexpr int count = static_cast<int>(sizeof(E)) / part_bytes<E>;
  uint4 of[count];

  // units: the number of units of a pixel.
  __device__ uint4 rounded(const ConvParams& p, int units, bool inside, RangeGuard<E>& guard) const {
    if constexpr (sizeof(E) == 2) return of[0];
    E values[4 * count];
    memcpy(values, of, sizeof values);
    scale_inputs(values, 4 * count);
    guard.judge_units(p, values, units, inside);
    const uint4 unit = rounded_vector(values);
    guard.add(unit);
    guard.end(p);
    return unit;
  }
  __device__ uint4 low_parts() const {
    E values[4 * count];
    memcpy(values, of, sizeof values);
    scale_inputs(values, 4 * count);
    return split_vector(values, true);
  }
};
// fill_rows() for channels-last inputs, by units of 16 bytes.
template <class E, bool duplicated>
__device__ void fill_units(const ConvParams& p, const Corner& corner, int chunk, unsigned char* halo_stage,
                           const Filler& filler, RangeGuard<E>& guard) {
  using X = LoadedUnit<E>;
  constexpr int each = 16 / part_bytes<E>, at_once = 4 / X::count;
  int row_bytes = duplicated ? 64 : p.row_bytes, channels = p.in_channels;
  if (!duplicated) opaque(row_bytes);  // recomputed, to save registers
  opaque(channels);
  const int units = row_bytes / (16 * operand_parts<E>), units_left = channels / each - chunk * units;
  const HaloLines<E, 1> lines(p, corner);
  constexpr bool together = RangeGuard<E>::guards;  // see fill_rows()
#pragma unroll 1
  for (int first = filler.first; (together ? first & -warp_threads : first) < p.halo_rows * units;
       first += filler.threads * at_once) {
    X x[at_once];
    bool inside[at_once];
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const int at = first + i * filler.threads, unit = at % units;
      const HaloPixel<E> pixel =
          halo_pixel<E>(p, corner, (chunk * units + unit) * each, HaloPart(p, lines, at / units));
#pragma unroll
      for (int k = 0; k < X::count; ++k) {
        x[i].of[k] = uint4{0, 0, 0, 0};
        if (pixel.inside && unit < units_left) x[i].of[k] = __ldg(reinterpret_cast<const uint4*>(pixel.from) + k);
      }
      inside[i] = pixel.inside && unit < units_left;
    }
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const int at = first + i * filler.threads, row = at / units;
      if (!together && row >= p.halo_rows) continue;
      const uint4 unit = x[i].rounded(p, units, inside[i], guard);
      if (together && row >= p.halo_rows) continue;
      if constexpr (duplicated)
        store_duplicated(p, halo_stage, DuplicatedRowOffsets<1>(p, HaloPart(p, lines, row), row_bytes, 0).offset[0],
                         row_bytes, at % units * 16, unit);
      else
        *reinterpret_cast<uint4*>(halo_stage + row * row_bytes + swizzled_unit(row, at % units, row_bytes) * 16) = unit;
      if constexpr (operand_parts<E> == 2)
        *reinterpret_cast<uint4*>(halo_stage + row * row_bytes +
                                  swizzled_unit(row, units + at % units, row_bytes) * 16) = x[i].low_parts();
    }
  }
}

// Loads all chunks of a box `times` times, each into the next stage. again: `times` may be over 1. tell(stage) is
// called before the first chunk is committed.
template <class E, int loads, bool again, bool duplicated = false, class Tell>
__device__ void fill_box(const ConvParams& p, const Shared& shared, const Corner& corner, unsigned char* halo_stages,
                         PipelineState& halo_stage, Filler& filler, int times, const Tell& tell, RangeGuard<E>& guard) {
  const auto acquire = [&] { wait(shared.halo_empty(halo_stage.index), halo_stage.phase ^ 1); };
  for (int left = times * p.chunks; left > 0; --left) {
    const int chunk = p.chunks - 1 - (again ? (left - 1) % p.chunks : left - 1);  // recomputed, to save registers
    unsigned char* const to = halo_stages + halo_stage.index * p.halo_stage_bytes;
    const bool full = (chunk + 1) * p.row_bytes <= p.in_channels * operand_bytes<E>;
    with_pixels<E>(p, [&]<int pixels>() {
      if (p.units) {
        acquire();
        fill_units<E, duplicated>(p, corner, chunk, to, filler, guard);
      } else if (!duplicated && p.row_bytes == 128)
        full ? fill_rows<E, pixels, loads, 128, false, true>(p, corner, chunk, to, filler, acquire, guard)
             : fill_rows<E, pixels, loads, 128, false, false>(p, corner, chunk, to, filler, acquire, guard);
      else
        full ? fill_rows<E, pixels, loads, 64, duplicated, true>(p, corner, chunk, to, filler, acquire, guard)
             : fill_rows<E, pixels, loads, 64, duplicated, false>(p, corner, chunk, to, filler, acquire, guard);
      filler.next(HaloLines<E, pixels>(p, corner).all(p));
    });
    if (chunk == 0) tell(halo_stage.index);
    producer_commit(shared, halo_stage.index);
    halo_stage.advance();
  }
}

// The halo producers, `warps` of them. They begin while weights are still being packed.
template <class Traits, int warps>
__device__ void fill_halos(const ConvParams& p, const Memory& memory) {
  constexpr WarpRoles roles = Traits::roles;
  PipelineState halo_stage{p.halo_stages};
  Filler filler{static_cast<int>(threadIdx.x) - roles.first_producer(), warps * warp_threads};
  RangeGuard<typename Traits::Input> guard;
  // The work tile is in memory, to save registers.
  if constexpr (Traits::splits) {
    keep_partial(first_partial<Traits>(p), memory.partial());
    keep_work(work_tile_at(p, memory.partial()->number), memory.work());
  } else {
    keep_work(first_work_tile<Traits>(p), memory.work());
  }
  int left = work_tile_count<Traits>(p);
  do {
    const WorkTile& work = *memory.work();
    const auto tell = [&](int first) {
      if (threadIdx.x / warp_threads != roles.consumer_warps()) return;  // one warp informs the consumers
      keep_with_result(p, work, memory.work_of(first));
      if constexpr (Traits::splits) keep_partial(*memory.partial(), memory.partial_of(first));
    };
    int times = 1;  // one phase, or all chunks are resident
    if constexpr (Traits::splits) times = fills_of<Traits::joint>(p, memory.partial()->first, memory.partial()->end);
    if constexpr (Traits::folds) times = fills_of<1>(p, 0, p.phase_count);
    fill_box<typename Traits::Input, Traits::loads, Traits::splits || Traits::folds, Traits::duplicated>(
        p, memory.shared, corner_of(p, work), memory.halo_stages, halo_stage, filler, times, tell, guard);
    keep_next<Traits>(p, memory);
  } while (Traits::splits ? memory.partial()->more >= 0 : --left > 0);
}

}  // namespace convt::core::cuda::sm90
