// SPDX-License-Identifier: Apache-2.0
// Halo tiles: boxes of inputs, [pixel][channel], in shared memory.
#pragma once

#include <type_traits>

#include "cuda/sm90/halved.cuh"
#include "cuda/sm90/rings.cuh"

namespace convt::core::cuda::sm90 {

// The first input of a box, in positions of the slab; it may be outside the image.
struct Corner {
  int image, at[3];
};
__device__ inline Corner corner_of(const ConvParams& p, const Item& item) {
  Corner corner{item.image, {}};
#pragma unroll
  for (int a = 0; a < 3; ++a) corner.at[a] = item.tile[a] * p.axis[a].tile + p.axis[a].first;
  return corner;
}
__device__ inline bool is_inside(const ConvAxis& axis, int x) {
  return static_cast<unsigned>(x - axis.lowest) < static_cast<unsigned>(axis.inputs);
}

// What a lane loads at once: a pixel, or two neighbours along w (ConvParams::pairs).
template <class E, int pixels>
using Loaded = std::conditional_t<pixels == 2, PixelPair, E>;
// f.operator()<pixels>()
template <class E, class F>
__device__ void with_pixels(const ConvParams& p, F&& f) {
  if constexpr (sizeof(E) == 2) {
    if (p.pairs) return f.template operator()<2>();
  }
  f.template operator()<1>();
}

// The lines of a box along w, in parts that are loaded at once. Pairs begin at multiples of 4 bytes, as lines of the
// image do; where those of the box do not, or do not end there, a pair has a pixel that is none of the line's.
template <class E, int pixels>
struct HaloLines {
  int before = 0;  // pixels of the first part that are not the line's
  int parts;       // of a line; some may have no pixel (planes.cuh)

  __device__ HaloLines(const ConvParams& p, const Corner& corner) {
    if (pixels > 1)
      before = (static_cast<int>(reinterpret_cast<std::uintptr_t>(p.input) / sizeof(E)) + corner.at[2]) & 1;
    parts = (p.axis[2].halo + before + pixels - 1) / pixels;
  }
  __device__ int all(const ConvParams& p) const {
    return pixels == 1 ? p.halo_rows : p.axis[0].halo * p.axis[1].halo * parts;
  }
};
struct HaloPart {
  int line, at;  // at: its first pixel, along w

  template <class E, int pixels>
  __device__ HaloPart(const HaloLines<E, pixels>& lines, int part) : HaloPart(lines, part, part / lines.parts) {}
  template <class E, int pixels>
  __device__ HaloPart(const ConvParams& p, const HaloLines<E, pixels>& lines, int part)
      : HaloPart(lines, part, p.parts[pixels == 1 ? 0 : 1 + lines.before].quotient(part)) {}
  template <class E, int pixels>
  __device__ HaloPart(const HaloLines<E, pixels>& lines, int part, int line_)
      : line(line_), at((part - line * lines.parts) * pixels - lines.before) {}
};

// Of a part, the pixel that this lane stores first. First pixels of neighbouring lanes' pairs are in every other row:
// with the second ones of 4 lanes, 8 lanes meet all banks. Where rows are pairs (twins.cuh), they are neighbours.
template <int pixels, bool twins = false>
__device__ int first_pixel() {
  if (pixels == 1 || twins) return 0;
  int thread = threadIdx.x;
  forget(thread);  // found again: registers are short
  return (thread & 4) != 0 ? 1 : 0;
}
// Where rows of a part are in a slot: each one's first unit, in the order of stores, and in bits that are 0 there what
// else is known of it, as registers are short.
template <int pixels>
struct RowPlaces {
  static constexpr int inside = 1, second = 2, absent = 4, none = 8;  // the image; half; there is no row; nor the part
  int place[pixels];

  RowPlaces() = default;
  __device__ RowPlaces(const ConvParams& p, const HaloPart& part, int row_bytes, int bits) {
    const int first = first_pixel<pixels>();
#pragma unroll
    for (int k = 0; k < pixels; ++k) {
      const int w = part.at + (k ^ first), row = part.line * p.axis[2].halo + w;
      place[k] = (row * row_bytes + place_in_row(row, 0, row_bytes) * 16) | bits;
      if (pixels > 1 && static_cast<unsigned>(w) >= static_cast<unsigned>(p.axis[2].halo)) place[k] |= absent;
    }
  }
  __device__ int at(int k) const {
    int value = place[k];
    forget(value);  // or what its bits tell is kept
    return value;
  }
};
// The same of twins (twins.cuh), before rows are swizzled.
template <int pixels>
struct TwinPlaces : RowPlaces<pixels> {
  using R = RowPlaces<pixels>;
  static constexpr int alone = R::second;  // instead: the first of a line, which is there once

  TwinPlaces() = default;
  __device__ TwinPlaces(const ConvParams& p, const HaloPart& part, int row_bytes, int bits) {
#pragma unroll
    for (int k = 0; k < pixels; ++k) {
      const int w = part.at + k;
      R::place[k] = (part.line * p.line_rows + w) * row_bytes | bits | (w == 0 ? alone : 0);
      if (pixels > 1 && static_cast<unsigned>(w) >= static_cast<unsigned>(p.axis[2].halo)) R::place[k] |= R::absent;
    }
  }
};
// To both places of a pixel, of which `place` is the first: a unit, so many bytes behind its first one.
__device__ inline void store_twins(const ConvParams& p, unsigned char* slot, int place, int row_bytes, int bytes,
                                   const uint4& unit) {
  int line = p.line_rows;
  forget(line);  // or what follows from it is kept: registers are short
  const int first = place & -16, second = first + (line / 2 - 1) * row_bytes;
  *reinterpret_cast<uint4*>(slot + (twin_swizzled(first) ^ bytes)) = unit;
  if ((place & TwinPlaces<1>::alone) == 0) *reinterpret_cast<uint4*>(slot + (twin_swizzled(second) ^ bytes)) = unit;
}
// A pixel's next channels, as matrix instructions take them.
template <class E>
__device__ uint4 unit_of(const E* x, int) {
  return rounded_vector(x);
}
__device__ inline uint4 unit_of(const PixelPair* x, int pixel) {
  const unsigned halves = pixel == 0 ? 0x5410 : 0x7632;
  const auto pair = [&](int i) { return __byte_perm(x[i].bits, x[i + 1].bits, halves); };
  return {pair(0), pair(2), pair(4), pair(6)};
}

// Where a part of the box is in the input; another one where it is outside. Both pixels of a pair are, or none.
template <class E>
struct HaloPixel {
  const E* from;
  bool inside;
};
template <class E>
__device__ HaloPixel<E> halo_pixel(const ConvParams& p, const Corner& corner, std::int64_t first,
                                   const HaloPart& part) {
  const int plane = p.lines.quotient(part.line), at[3] = {plane, part.line - plane * p.axis[1].halo, part.at};
  std::int64_t offset = corner.image * p.image_step;
  bool inside = part.line * p.axis[2].halo + part.at < p.halo_rows;
#pragma unroll
  for (int a = 0; a < 3; ++a) {
    const int x = corner.at[a] + at[a];
    inside &= is_inside(p.axis[a], x);
    offset += x * p.axis[a].step;
  }
  return {(inside ? static_cast<const E*>(p.input) + offset : static_cast<const E*>(p.there)) + first, inside};
}

// A thread that fills boxes together with others. Whoever has a part more than others in one box has fewer in the next.
struct Filler {
  int first, threads;  // first: the row, or part of a line, to begin with

  __device__ void next(int parts) {
    forget(parts);  // or what follows from it is kept
    first -= (parts + warp_threads - 1) / warp_threads * warp_threads % threads;
    if (first < 0) first += threads;
  }
};

// One chunk of channels of a box. Lanes have neighbouring parts of lines; each makes so many loads without conditions,
// so that all of them are under way at once; `full` where all channels of the chunk are there. open(): until the slot
// is empty; the first loads are under way before.
template <class E, int pixels, int loads, int row_bytes, bool twins, bool full, class Open>
__device__ void fill_rows(const ConvParams& p, const Corner& corner, int chunk, unsigned char* slot,
                          const Filler& filler, const Open& open, RangeGuard<E>& guard) {
  constexpr int size = operand_bytes<E>, channels = row_bytes / size, each = 16 / size;
  constexpr int at_once = channels < loads ? channels : loads, parts = loads / at_once;
  using X = Loaded<E, pixels>;
  using Places = std::conditional_t<twins, TwinPlaces<pixels>, RowPlaces<pixels>>;
  const HaloLines<E, pixels> lines(p, corner);
  const int there = min(channels, p.in_channels - chunk * channels), all = lines.all(p);
  const std::int64_t channel_bytes = p.channel_step * static_cast<std::int64_t>(sizeof(E));
  const std::int64_t first_channel = static_cast<std::int64_t>(chunk) * channels * p.channel_step;
  // The range guard's warps stay together: as long as one of their lanes has a part, which lane % 32 of it is.
  constexpr bool together = RangeGuard<E>::guards;
  static_assert(!together || parts == 1);
  const auto has_part = [&](int part) { return (together ? part & -warp_threads : part) < all; };
#pragma unroll 1
  for (int part = filler.first; has_part(part); part += filler.threads * parts) {
    X x[parts][at_once];
    const X* from[parts];
    Places rows[parts];
#pragma unroll
    for (int i = 0; i < parts; ++i) {
      const int own = part + i * filler.threads;
      const HaloPart at(p, lines, own);
      const HaloPixel<E> pixel = halo_pixel<E>(p, corner, first_channel, at);
      from[i] = reinterpret_cast<const X*>(pixel.from);
      rows[i] = Places(p, at, row_bytes, pixel.inside ? Places::inside : 0);
    }
#pragma unroll 1
    for (int first = 0; first < channels; first += at_once) {
      int left = there - first;
      forget(left);  // or 32 comparisons are kept
#pragma unroll
      for (int i = 0; i < parts; ++i)
#pragma unroll
        for (int c = 0; c < at_once; ++c) x[i][c] = load_next(from[i], full || c + 1 < left ? channel_bytes : 0);
      if (part == filler.first && first == 0) open();
#pragma unroll
      for (int i = 0; i < parts; ++i) {
        if (i > 0 && part + i * filler.threads >= all) continue;
        const bool is_part = !together || part < all;
        const int turned = first_pixel<pixels, twins>();
        int place[pixels];
#pragma unroll
        for (int k = 0; k < pixels; ++k) place[k] = rows[i].place[k] ^ (twins ? 0 : first * size);
        const bool inside = (place[0] & Places::inside) != 0;
        const auto is_there = [&](int k) { return inside && (full || k < left); };
        if constexpr (together) {
          const bool asked =
              guard.is_asked(guard.has_small(x[i], at_once, inside));  // channels that are not there are others again
#pragma unroll
          for (int k = 0; k < at_once; ++k)
            if (!is_there(k)) x[i][k] = X{};
          if (asked) guard.judge_pixels(p, x[i], at_once, all <= warp_threads);
        }
#pragma unroll
        for (int c = 0; c < at_once; c += each) {
#pragma unroll
          for (int k = c; k < c + each; ++k)
            if (!together && !is_there(k)) x[i][k] = X{};
#pragma unroll
          for (int k = 0; k < pixels; ++k) {
            const uint4 unit = unit_of(x[i] + c, k ^ turned);
            guard.add(unit);
            if (!is_part || (pixels > 1 && (place[k] & Places::absent) != 0)) continue;
            if constexpr (twins)
              store_twins(p, slot, place[k], row_bytes, (first + c) * size, unit);
            else
              *reinterpret_cast<uint4*>(slot + ((place[k] & -16) ^ c * size)) = unit;
          }
        }
        guard.end(p);
      }
    }
  }
  if (!has_part(filler.first)) open();
}

// A unit's channels, as they come in loads of 16 bytes.
template <class E>
struct LoadedUnit {
  static constexpr int count = static_cast<int>(sizeof(E)) / operand_bytes<E>;
  uint4 of[count];

  // units: of a pixel.
  __device__ uint4 rounded(const ConvParams& p, int units, bool inside, RangeGuard<E>& guard) const {
    if constexpr (sizeof(E) == 2) return of[0];
    E values[4 * count];
    memcpy(values, of, sizeof values);
    guard.judge_units(p, values, units, inside);
    const uint4 unit = rounded_vector(values);
    guard.add(unit);
    guard.end(p);
    return unit;
  }
};
// The same where a pixel's channels are neighbours in memory: units of 16 bytes.
template <class E, bool twins>
__device__ void fill_units(const ConvParams& p, const Corner& corner, int chunk, unsigned char* slot,
                           const Filler& filler, RangeGuard<E>& guard) {
  using X = LoadedUnit<E>;
  constexpr int each = 16 / operand_bytes<E>, at_once = 4 / X::count;
  int row_bytes = twins ? 64 : p.row_bytes, channels = p.in_channels;
  if (!twins) forget(row_bytes);  // or what follows from them is kept from box to box, where rows are filled too
  forget(channels);
  const int units = row_bytes / 16, there = channels / each - chunk * units;
  const HaloLines<E, 1> lines(p, corner);
  constexpr bool together = RangeGuard<E>::guards;  // as in fill_rows()
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
        if (pixel.inside && unit < there) x[i].of[k] = __ldg(reinterpret_cast<const uint4*>(pixel.from) + k);
      }
      inside[i] = pixel.inside && unit < there;
    }
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const int at = first + i * filler.threads, row = at / units;
      if (!together && row >= p.halo_rows) continue;
      const uint4 unit = x[i].rounded(p, units, inside[i], guard);
      if (together && row >= p.halo_rows) continue;
      if constexpr (twins)
        store_twins(p, slot, TwinPlaces<1>(p, HaloPart(p, lines, row), row_bytes, 0).place[0], row_bytes,
                    at % units * 16, unit);
      else
        *reinterpret_cast<uint4*>(slot + row * row_bytes + place_in_row(row, at % units, row_bytes) * 16) = unit;
    }
  }
}

// All chunks of a box, so many times (`again`: perhaps more than once), each to the ring's next slot; tell(slot),
// before the first one is handed on.
template <class E, int loads, bool again, bool twins = false, class Tell>
__device__ void fill_box(const ConvParams& p, const Shared& shared, const Corner& corner, unsigned char* slots,
                         Ring& slot, Filler& filler, int times, const Tell& tell, RangeGuard<E>& guard) {
  const auto open = [&] { wait(shared.halo_empty(slot.place), slot.parity ^ 1); };
  for (int left = times * p.chunks; left > 0; --left) {
    const int chunk = p.chunks - 1 - (again ? (left - 1) % p.chunks : left - 1);  // not kept: registers are short
    unsigned char* const to = slots + slot.place * p.slot_bytes;
    const bool full = (chunk + 1) * p.row_bytes <= p.in_channels * operand_bytes<E>;
    with_pixels<E>(p, [&]<int pixels>() {
      if (p.units) {
        open();
        fill_units<E, twins>(p, corner, chunk, to, filler, guard);
      } else if (!twins && p.row_bytes == 128)
        full ? fill_rows<E, pixels, loads, 128, false, true>(p, corner, chunk, to, filler, open, guard)
             : fill_rows<E, pixels, loads, 128, false, false>(p, corner, chunk, to, filler, open, guard);
      else
        full ? fill_rows<E, pixels, loads, 64, twins, true>(p, corner, chunk, to, filler, open, guard)
             : fill_rows<E, pixels, loads, 64, twins, false>(p, corner, chunk, to, filler, open, guard);
      filler.next(HaloLines<E, pixels>(p, corner).all(p));
    });
    if (chunk == 0) tell(slot.place);
    hand_on_slot(shared, slot.place);
    slot.next();
  }
}

}  // namespace convt::core::cuda::sm90
