// SPDX-License-Identifier: Apache-2.0
// Norms over space. A region of up to 60 KiB is loaded once: lanes of a warp, or a block, measure and normalise it.
// Larger regions are cut into chunks of 60 KiB. Persistent blocks take items in order. Item i measures chunk i, then
// normalises chunk i - lag, which is still in the L2 cache.
#pragma once

#include "cuda/chain/finish.cuh"
#include "cuda/chain/moments.cuh"

namespace convt::core::cuda {

// a / b for numbers that are nearly always below 2^32.
__device__ inline std::int64_t quotient(std::int64_t a, std::int64_t b) {
  if ((a | b) >> 32 == 0) return static_cast<unsigned>(a) / static_cast<unsigned>(b);
  return a / b;
}

// The elements of a chunk of a region, where Int holds the indices of all regions and of an image's elements. item: the
// region's index, [image][region].
template <class E, class Int>
__device__ Part part_as(const NormaliseParams& p, Int item, int chunk) {
  constexpr int each = chunk_slots * slot_values<E>;
  const SpanParams& span = p.span;
  const Int elements = static_cast<Int>(p.elements), n = p.regions_divisor.quotient(item, p.regions);
  const Int begin = (item - n * static_cast<Int>(p.regions)) * elements;
  const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(span.from.data) +
                                 static_cast<std::uintptr_t>(n * span.from.n + begin) * sizeof(E);
  const int lead = static_cast<int>(address % span_bytes / sizeof(E));
  // Counted from the region's first element.
  const Int first = Int{chunk} * each - lead, skipped = first < 0 ? 0 : first;
  const Int c = p.pixels_divisor.quotient(begin + skipped, span.pixels), base = c * span.pixels - begin;
  // The number of chunks is that of the longest lead. With a shorter lead, the last chunk may be empty.
  const Int end = elements - first > each ? first + each : elements, last = end < skipped ? skipped : end;
  return {static_cast<int>(n),
          static_cast<int>(c),
          static_cast<int>(first - base),
          static_cast<int>(skipped - base),
          static_cast<int>(last - base),
          -base};
}
template <class E>
__device__ Part part_of(const NormaliseParams& p, std::int64_t item, int chunk) {
  return p.small ? part_as<E, int>(p, static_cast<int>(item), chunk) : part_as<E, std::int64_t>(p, item, chunk);
}

// Lanes of a warp that work together; their number is a power of 2.
struct LaneTeam {
  int lanes;
  __device__ int member() const { return static_cast<int>(threadIdx.x) & (lanes - 1); }
  __device__ int size() const { return lanes; }
  __device__ int turn_of(int slot) const { return slot >> (31 - __clz(lanes)); }
};
template <int threads>
struct BlockTeam {
  __device__ int member() const { return static_cast<int>(threadIdx.x); }
  __device__ constexpr int size() const { return threads; }
  __device__ int turn_of(int slot) const { return slot / threads; }
};

// A thread's slots in shared memory, `threads` slots apart. Member m of a team has the slots m, m + size, ... of a
// part. All slots but the part's first and last have all their elements.
template <class E, int threads = norm_threads>
struct HeldSlots {
  static constexpr int N = slot_values<E>;
  Raw* slots = reinterpret_cast<Raw*>(dynamic_shared()) + threadIdx.x;

  // Calls f(k, pixel) for the member's slots that only have some elements, where k counts its slots.
  template <class Team, class F>
  __device__ void for_ends(const Part& part, const Team& team, F&& f) const {
    const int last = (part.end - part.first) / N, turn = team.turn_of(last);
    const bool begins = part.begin > part.first, ends = part.first + last * N < part.end && (last != 0 || !begins);
    if (begins && team.member() == 0) f(0, part.first);
    if (ends && last - turn * team.size() == team.member()) f(turn, part.first + last * N);
  }
  // Loads a part that is contiguous in memory. from: the element at pixel 0. Elements of other parts become 0.
  template <class Team>
  __device__ void load(const E* from, const Part& part, const Team& team) const {
    const int own = part.first + team.member() * N, step = team.size() * N;
    const E* const first = from + own;
    if (own >= part.begin && own + (thread_slots - 1) * step + N <= part.end) {
#pragma unroll
      for (int k = 0; k < thread_slots; ++k) copy_16(&slots[k * threads], first + k * step);
    } else {
#pragma unroll 1
      for (int k = 0, pixel = own; pixel + N <= part.end; ++k, pixel += step)
        if (pixel >= part.begin) copy_16(&slots[k * threads], first + (pixel - own));
    }
    for_ends(part, team, [&](int k, int pixel) {
      E e[N];
#pragma unroll
      for (int i = 0; i < N; ++i) e[i] = part.begin <= pixel + i && pixel + i < part.end ? from[pixel + i] : E{};
      std::memcpy(&slots[k * threads], &e, sizeof e);
    });
    wait_copies();
  }
};

// Statistics of a part: sums of deviations from `centre`, and of their squares. Sums of up to 48 values are in T.
template <class T>
struct Deviations {
  T centre, first;
  double second;
};

// The sum over each group of `lanes` lanes. Every lane of the group gets it.
template <class T>
__device__ Deviations<T> sum_deviations(Deviations<T> own, int lanes) {
#pragma unroll
  for (int apart = 1; apart < warp_threads; apart *= 2) {
    if (apart >= lanes) break;
    own.first += __shfl_xor_sync(all_lanes, own.first, apart);
    own.second += from_lane(own.second, apart);
  }
  return own;
}
template <class T>
__device__ T sum_values(T own, int lanes) {
#pragma unroll
  for (int apart = 1; apart < warp_threads; apart *= 2) {
    if (apart >= lanes) break;
    own += __shfl_xor_sync(all_lanes, own, apart);
  }
  return own;
}
// The sum over a team, for every member. For a block, in the order of warps.
template <class T>
__device__ T sum_of_team(T own, const LaneTeam& team) {
  return sum_values(own, team.lanes);
}
inline constexpr int norm_warps = norm_threads / warp_threads;
template <class T>
__device__ T sum_of_team(T own, const BlockTeam<norm_threads>&) {
  __shared__ T of_warp[norm_warps];
  own = sum_values(own, warp_threads);
  if (threadIdx.x % warp_threads == 0) of_warp[threadIdx.x / warp_threads] = own;
  __syncthreads();
  T all = 0;
#pragma unroll
  for (const T& one : of_warp) all += one;
  return all;
}
// The sum over a team: over lanes for every member, over a block for its first warp.
template <class T>
__device__ Deviations<T> join_deviations(const Deviations<T>& own, const LaneTeam& team) {
  return sum_deviations(own, team.lanes);
}
template <class T>
__device__ Deviations<T> join_deviations(const Deviations<T>& own, const BlockTeam<norm_threads>&) {
  __shared__ T first[norm_warps];
  __shared__ double second[norm_warps];
  const Deviations<T> here = sum_deviations(own, warp_threads);
  if (threadIdx.x % warp_threads == 0) {
    first[threadIdx.x / warp_threads] = here.first;
    second[threadIdx.x / warp_threads] = here.second;
  }
  __syncthreads();
  Deviations<T> all{own.centre, 0, 0};
  if (threadIdx.x >= warp_threads) return all;
  for (int i = 0; i < norm_warps; ++i) all = {all.centre, all.first + first[i], all.second + second[i]};
  return all;
}

__device__ inline float ratio(float a, int b) { return a * inverse(static_cast<float>(b)); }
__device__ inline double ratio(double a, int b) { return a / b; }

// Measures a part, as join_deviations() says for whom. Deviations are taken from the mean of all members' first slots.
// These are a 12th of the part, so their mean is off by at most 3.4 standard deviations. The sum of squares then loses
// at most 4 bits (6 in a row whose first slot has one element).
template <class E, class T, class Team>
__device__ Deviations<T> measure(const Part& part, const HeldSlots<E>& held, const Team& team) {
  constexpr int N = slot_values<E>;
  const int step = team.size() * N, first_end = min(part.first + step, part.end);
  int pixel = part.first + team.member() * N;
  T some = 0;
  if (pixel < first_end) {
    T x[N];
    unpack<E>(held.slots[0], x);
#pragma unroll
    for (const T& one : x) some += one;
  }
  const T centre = ratio(sum_of_team(some, team), first_end - part.begin);
  T first[2] = {}, second[2] = {};
  const auto add = [&](int k, int into) {
    T x[N];
    unpack<E>(held.slots[k * norm_threads], x);
#pragma unroll
    for (const T& one : x) {
      const T deviation = one - centre;
      first[into] += deviation;
      second[into] = fma(deviation, deviation, second[into]);
    }
  };
  int k = 0;
  if (pixel < part.begin) {  // the first slot is one of the ends
    k = 1;
    pixel += step;
  }
#pragma unroll 1
  for (; pixel + step + N <= part.end; k += 2, pixel += 2 * step) {
    add(k, 0);
    add(k + 1, 1);
  }
  if (pixel + N <= part.end) add(k, 0);
  held.for_ends(part, team, [&](int end, int at) {
    T x[N];
    unpack<E>(held.slots[end * norm_threads], x);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const T deviation = part.begin <= at + i && at + i < part.end ? x[i] - centre : T(0);
      first[1] += deviation;
      second[1] = fma(deviation, deviation, second[1]);
    }
  });
  return join_deviations<T>({centre, first[0] + first[1], static_cast<double>(second[0]) + second[1]}, team);
}

// The mean and the sum of squared deviations from it. each: 1 / count.
template <class T>
__device__ Moments moments_of(const Deviations<T>& d, double count, double each) {
  const double correction = d.first * each, total = d.second - d.first * correction;
  return {count, static_cast<double>(d.centre) + correction, total < 0 ? 0 : total};
}
// variance: it is in T's range even if the sum of squares is not.
template <class T>
__device__ Region<T> region_of(const NormaliseParams& p, double centre, double variance) {
  ops_device::Norm norm;
  norm.eps = p.eps;
  return {static_cast<T>(centre), norm.scale(static_cast<T>(variance), T(1))};
}
template <class T>
__device__ void keep_region(const NormaliseParams& p, std::int64_t item, const Region<T>& region) {
  static_cast<T*>(p.centre)[item] = region.centre;
  static_cast<T*>(p.scale)[item] = region.scale;
}

// The element at pixel 0 of a part of a norm's input, which is contiguous in an image.
template <class E>
__device__ const E* elements_of(const SpanView& from, const Part& part) {
  return static_cast<const E*>(from.data) + (part.n * from.n + part.c * from.c);
}

template <class E, class T, class Team>
__device__ void normalise_held(const NormaliseParams& p, std::int64_t item, bool there, const Team& team) {
  const Part part = part_of<E>(p, item, 0);
  const HeldSlots<E> held;
  held.load(elements_of<E>(p.span.from, part), part, team);
  const Deviations<T> sums = measure<E, T>(part, held, team);
  Region<T> region;
  if constexpr (std::is_same_v<Team, LaneTeam>) {
    const Moments moments = moments_of(sums, 1, p.each);
    region = region_of<T>(p, moments.centre, moments.total * p.each);
  } else {
    __shared__ Region<T> of_block;
    if (threadIdx.x < warp_threads) {
      const Moments moments = moments_of(sums, 1, p.each);
      region = region_of<T>(p, moments.centre, moments.total * p.each);
      if (threadIdx.x == 0) of_block = region;
    }
    __syncthreads();
    region = of_block;
  }
  if (!there) return;
  if (p.applies)
    finish<E, T>(p.span, {part, held.slots, norm_threads, team.member(), team.size(), true, region});
  else if (team.member() == 0)
    keep_region(p, item, region);
}

// Normalises several regions with each warp.
template <class E, class T>
__global__ void __launch_bounds__(norm_threads, sizeof(T) == sizeof(float) ? norm_blocks : 1)
    normalise_lanes_kernel(const __grid_constant__ NormaliseParams p) {
  const std::int64_t items = p.span.images * p.regions;
  const int each = norm_threads / p.lanes;
  for (std::int64_t first = std::int64_t{blockIdx.x} * each; first < items; first += std::int64_t{gridDim.x} * each) {
    const std::int64_t item = first + static_cast<int>(threadIdx.x) / p.lanes;
    normalise_held<E, T>(p, item < items ? item : items - 1, item < items, LaneTeam{p.lanes});
  }
}

template <class E, class T>
__global__ void __launch_bounds__(norm_threads, sizeof(T) == sizeof(float) ? norm_blocks : 1)
    normalise_block_kernel(const __grid_constant__ NormaliseParams p) {
  const std::int64_t items = p.span.images * p.regions;
  for (std::int64_t item = blockIdx.x; item < items; item += gridDim.x)
    normalise_held<E, T>(p, item, true, BlockTeam<norm_threads>{});
}

// The last block that measures a chunk of a region joins the moments of all its chunks, in order, and raises the
// counter past their number.
template <class T>
__device__ void join_region(const NormaliseParams& p, std::int64_t region, int* counter) {
  const Moments* const partials = static_cast<const Moments*>(p.partials) + region * p.chunks;
  const int lane = threadIdx.x % warp_threads, each = (p.chunks + warp_threads - 1) / warp_threads;
  Moments own{0, 0, 0};
  for (int i = lane * each; i < min((lane + 1) * each, p.chunks); ++i)
    own = merge(own, {__ldcg(&partials[i].count), __ldcg(&partials[i].centre), __ldcg(&partials[i].total)});
  own = join_lanes(own, merge);
  if (lane != 0) return;
  keep_region(p, region, region_of<T>(p, own.centre, own.total / own.count));
  __threadfence();
  atomicAdd(counter, 1);
}

template <class E, class T>
__device__ void measure_chunk(const NormaliseParams& p, int item) {
  const int region = p.chunks_divisor.quotient(item, p.chunks);
  const Part part = part_of<E>(p, region, item - region * p.chunks);
  const HeldSlots<E> held;
  const BlockTeam<norm_threads> team;
  held.load(elements_of<E>(p.span.from, part), part, team);
  const Deviations<T> sums = measure<E, T>(part, held, team);
  if (threadIdx.x >= warp_threads) return;
  int* const counter = p.counters + 1 + region;
  int arrived = 0;
  if (threadIdx.x == 0) {
    const double count = part.end - part.begin;
    static_cast<Moments*>(p.partials)[item] =
        count == 0 ? Moments{0, 0, 0} : moments_of(sums, count, 1 / count);  // the last chunk may be empty
    __threadfence();
    arrived = atomicAdd(counter, 1);
  }
  if (__shfl_sync(all_lanes, arrived, 0) != p.chunks - 1) return;
  __threadfence();
  join_region<T>(p, region, counter);
}

template <class E, class T>
__device__ void normalise_chunk(const NormaliseParams& p, int item) {
  const int region = p.chunks_divisor.quotient(item, p.chunks);
  const Part part = part_of<E>(p, region, item - region * p.chunks);
  const HeldSlots<E> held;
  // Earlier items measure all chunks of this region, and they measure before they wait: this loop ends.
  if (threadIdx.x == 0) {
    while (*static_cast<volatile int*>(p.counters + 1 + region) <= p.chunks) continue;
    __threadfence();
  }
  const BlockTeam<norm_threads> team;
  held.load(elements_of<E>(p.span.from, part), part, team);
  __syncthreads();
  const Region<T> own{__ldcg(static_cast<const T*>(p.centre) + region),
                      __ldcg(static_cast<const T*>(p.scale) + region)};
  finish<E, T>(p.span, {part, held.slots, norm_threads, team.member(), team.size(), true, own});
}

template <class E, class T>
__global__ void __launch_bounds__(norm_threads, sizeof(T) == sizeof(float) ? norm_blocks : 1)
    normalise_chunks_kernel(const __grid_constant__ NormaliseParams p) {
  const int items = static_cast<int>(p.span.images * p.regions * p.chunks), end = p.applies ? items + p.lag : items;
  __shared__ int next;
  while (true) {
    if (threadIdx.x == 0) next = atomicAdd(p.counters, 1);
    __syncthreads();
    const int item = next;
    __syncthreads();
    if (item >= end) return;
    if (item < items) measure_chunk<E, T>(p, item);
    if (p.applies && item >= p.lag) normalise_chunk<E, T>(p, item - p.lag);
  }
}

template <class E, class T>
__global__ void __launch_bounds__(block_threads, sizeof(T) == sizeof(float) ? 3 : 2)
    span_kernel(const __grid_constant__ SpanParams p) {
  constexpr int N = slot_values<E>, each = block_threads * thread_slots * N;
  const std::int64_t elements = std::int64_t{p.channels} * p.pixels, chunks = (elements + N - 1 + each - 1) / each;
  const std::int64_t item = gridDim.x - 1 - blockIdx.x;  // blocks begin at the end, as in chain_kernel
  const std::int64_t n = quotient(item, chunks);
  const SpanView& whole = p.from.along ? p.from : p.to;
  const std::int64_t first =
      (item - n * chunks) * each - lead_elements<E>(static_cast<const E*>(whole.data) + n * whole.n);
  const std::int64_t begin = first < 0 ? 0 : first, end = first + each < elements ? first + each : elements;
  if (begin >= end) return;
  const std::int64_t c = quotient(begin, p.pixels), base = c * p.pixels;
  const Part part{static_cast<int>(n),
                  static_cast<int>(c),
                  static_cast<int>(first - base),
                  static_cast<int>(begin - base),
                  static_cast<int>(end - base),
                  0};
  const HeldSlots<E, block_threads> held;
  const BlockTeam<block_threads> team;
  if (p.from.along && (p.from.c == p.pixels || p.channels == 1)) {
    held.load(elements_of<E>(p.from, part), part, team);
  } else {
#pragma unroll 1
    for (int k = 0, pixel = part.first + team.member() * N; k < thread_slots && pixel < part.end;
         ++k, pixel += block_threads * N) {
      const int lo = max(part.begin - pixel, 0), hi = min(part.end - pixel, N);
      if (lo < hi) load_slot<E>(p, slot_at(p, part.n, part.c, pixel, lo, hi), &held.slots[k * block_threads]);
    }
    wait_copies();
  }
  finish<E, T>(p, {part, held.slots, block_threads, team.member(), block_threads, false, {}});
}

template <class E, class T>
void launch_spans_of(const SpanParams& p, cudaStream_t stream) {
  constexpr std::int64_t N = slot_values<E>, each = block_threads * thread_slots * N;
  const std::int64_t elements = std::int64_t{p.channels} * p.pixels, chunks = (elements + N - 1 + each - 1) / each;
  launch(span_kernel<E, T>, "the kernel of spans",
         {blocks_for(p.images * chunks, 1), stream, std::size_t{block_threads} * thread_slots * span_bytes}, p);
}

inline constexpr std::size_t norm_shared = std::size_t{chunk_slots} * span_bytes;

inline void launch_norm(void (*kernel)(NormaliseParams), const char* name, std::int64_t blocks,
                        const NormaliseParams& p, cudaStream_t stream) {
  launch(kernel, name, {blocks_for(blocks, 1), stream, norm_shared, false, static_cast<int>(norm_shared)}, p,
         norm_threads);
}

template <class E, class T>
void launch_normalise_of(NormaliseParams p, int multiprocessors, cudaStream_t stream) {
  constexpr std::int64_t N = slot_values<E>;
  const std::int64_t slots = (p.elements + N - 2) / N + 1, items = p.span.images * p.regions;
  const std::int64_t resident = std::int64_t{multiprocessors} * norm_blocks;
  p.chunks = static_cast<int>((slots + chunk_slots - 1) / chunk_slots);
  p.each = 1 / static_cast<double>(p.elements);
  constexpr std::int64_t most = most_span_pixels;
  p.small = items * p.chunks < most && p.regions * p.elements < most;
  p.regions_divisor = FastDivisor(p.small ? p.regions : 1);
  p.pixels_divisor = FastDivisor(p.span.pixels);
  p.chunks_divisor = FastDivisor(p.chunks);
  if (slots <= warp_threads * thread_slots) {
    constexpr int few = thread_slots / 2;  // slots of a lane: with more lanes, loads have more neighbours in memory
    p.lanes = 1;
    while (p.lanes < warp_threads && p.lanes * few < slots) p.lanes *= 2;
    const int each = norm_threads / p.lanes;
    launch_norm(normalise_lanes_kernel<E, T>, "the kernel of norms of rows", (items + each - 1) / each, p, stream);
  } else if (p.chunks == 1) {
    launch_norm(normalise_block_kernel<E, T>, "the kernel of norms of planes", items, p, stream);
  } else {
    p.lag = static_cast<int>(p.chunks + resident);
    clear(p.counters, static_cast<std::size_t>(1 + items) * sizeof(int), stream);
    launch_norm(normalise_chunks_kernel<E, T>, "the kernel of norms of chunks", std::min(items * p.chunks, resident), p,
                stream);
  }
}

}  // namespace convt::core::cuda
