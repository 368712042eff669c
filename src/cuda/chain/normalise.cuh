// SPDX-License-Identifier: Apache-2.0
// Norms over space. A region of up to 60 KiB is loaded once: lanes of a warp, or a block, measure and normalise it.
// Larger regions are cut into chunks of 60 KiB. Persistent blocks take items in order. Item i measures chunk i, then
// normalises chunk i - lag, which is still in the L2 cache.
#pragma once

#include "cuda/chain/moments.cuh"
#include "cuda/chain/span.cuh"

namespace convt::core::cuda {

// a / b for numbers that are nearly always below 2^32.
__device__ inline std::int64_t quotient(std::int64_t a, std::int64_t b) {
  if ((a | b) >> 32 == 0) return static_cast<unsigned>(a) / static_cast<unsigned>(b);
  return a / b;
}

// A part of a region, cut into slots for the members of a team.
struct Part {
  int n, c;             // image; the channel in which the part begins
  int first;            // pixel of c where the first slot begins
  int begin, end;       // pixels of c where elements begin and end
  std::int64_t region;  // index, [image][region]
};

// The elements of a chunk of a region. item: the region's index, [image][region].
template <class E>
__device__ Part part_of(const NormaliseParams& p, std::int64_t item, int chunk) {
  constexpr int each = chunk_slots * slot_values<E>;
  const SpanParams& span = p.span;
  const std::int64_t n = quotient(item, p.regions), begin = (item - n * p.regions) * p.elements;
  const int lead = lead_elements<E>(static_cast<const E*>(span.from.data) + n * span.from.n + begin);
  // Counted from the region's first element.
  const std::int64_t first = std::int64_t{chunk} * each - lead, skipped = first < 0 ? 0 : first;
  const std::int64_t c = quotient(begin + skipped, span.pixels), base = c * span.pixels - begin;
  // The number of chunks is that of the longest lead. With a shorter lead, the last chunk may be empty.
  const std::int64_t end = first + each < p.elements ? first + each : p.elements, last = end < skipped ? skipped : end;
  return {static_cast<int>(n),
          static_cast<int>(c),
          static_cast<int>(first - base),
          static_cast<int>(skipped - base),
          static_cast<int>(last - base),
          item};
}

// A thread's slots in shared memory, `threads` slots apart.
template <class E, int threads = norm_threads>
struct HeldSlots {
  Raw* slots = reinterpret_cast<Raw*>(dynamic_shared()) + threadIdx.x;

  // Calls one(raw, slot) for a member's slots that hold elements. For two whole slots it calls two(raw, raw, pixel,
  // pixel) instead, unless that returns false.
  template <class Two, class One>
  __device__ void for_each(const SpanParams& p, const Part& part, int member, int size, Two&& two, One&& one) const {
    constexpr int N = slot_values<E>;
    static_assert(thread_slots % 2 == 0);
    const auto alone = [&](int k, int pixel) {
      const int lo = max(part.begin - pixel, 0), hi = min(part.end - pixel, N);
      if (lo < hi) one(slots[k * threads], slot_at(p, part.n, part.c, pixel, lo, hi));
    };
#pragma unroll 1
    for (int k = 0, pixel = part.first + member * N; k < thread_slots && pixel < part.end;
         k += 2, pixel += 2 * size * N) {
      const int next = pixel + size * N;
      if (pixel >= part.begin && next + N <= part.end && two(slots[k * threads], slots[(k + 1) * threads], pixel, next))
        continue;
      alone(k, pixel);
      alone(k + 1, next);
    }
  }
  template <class One>
  __device__ void for_each(const SpanParams& p, const Part& part, int member, int size, One&& one) const {
    for_each(
        p, part, member, size, [](const Raw&, const Raw&, int, int) { return false; }, one);
  }
  __device__ void load(const SpanParams& p, const Part& part, int member, int size) const {
    for_each(p, part, member, size, [&](Raw& one, const Slot& at) { load_slot<E>(p, at, &one); });
    wait_copies();
  }
};

struct Sums {
  double a, b;
};
// Lanes of a warp that work together; their number is a power of 2.
struct LaneTeam {
  int lanes;
  __device__ int member() const { return static_cast<int>(threadIdx.x) % lanes; }
  __device__ int size() const { return lanes; }
  __device__ Sums sum(const Sums& own) const { return {sum_lanes(own.a, lanes), sum_lanes(own.b, lanes)}; }
};
struct BlockTeam {
  __device__ int member() const { return static_cast<int>(threadIdx.x); }
  __device__ int size() const { return norm_threads; }
  // The sum over all threads, in the order of warps.
  __device__ Sums sum(const Sums& own) const {
    constexpr int warps = norm_threads / warp_threads;
    __shared__ Sums of_warp[warps];
    const Sums here{sum_lanes(own.a, warp_threads), sum_lanes(own.b, warp_threads)};
    __syncthreads();
    if (threadIdx.x % warp_threads == 0) of_warp[threadIdx.x / warp_threads] = here;
    __syncthreads();
    Sums all{0, 0};
    for (const Sums& one : of_warp) all = {all.a + one.a, all.b + one.b};
    return all;
  }
};

// The moments of a part, for every member. Deviations are taken from the mean of all members' first slots. These are a
// 12th of the part, so their mean is off by at most 3.4 standard deviations. The sum of squares then loses at most 4
// bits (6 in a row whose first slot has one element). Sums of up to 96 values are in T, everything else in double.
template <class E, class T, class Team>
__device__ Moments measure(const SpanParams& p, const Part& part, const HeldSlots<E>& held, const Team& team) {
  constexpr int N = slot_values<E>;
  const int first_end = min(part.first + team.size() * N, part.end);
  Part some = part;
  some.end = first_end;
  T sum = 0;
  held.for_each(p, some, team.member(), team.size(), [&](const Raw& raw, const Slot&) {
    E e[N];
    std::memcpy(&e, &raw, sizeof raw);
#pragma unroll
    for (const E& one : e) sum += to_real(one);
  });
  const double of_some = team.sum({static_cast<double>(sum), 0}).a;
  const T centre = static_cast<T>(of_some / (first_end - part.begin));
  T first = 0, second = 0;
  const auto add = [&](const Raw& raw, int lo, int hi) {
    E e[N];
    std::memcpy(&e, &raw, sizeof raw);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const T deviation = lo <= k && k < hi ? to_real(e[k]) - centre : T(0);
      first += deviation;
      second += deviation * deviation;
    }
  };
  held.for_each(
      p, part, team.member(), team.size(),
      [&](const Raw& a, const Raw& b, int, int) {
        add(a, 0, N);
        add(b, 0, N);
        return true;
      },
      [&](const Raw& raw, const Slot& at) { add(raw, at.lo, at.hi); });
  const Sums sums = team.sum({static_cast<double>(first), static_cast<double>(second)});
  const double count = part.end - part.begin, correction = sums.a / count, total = sums.b - sums.a * correction;
  return {count, static_cast<double>(centre) + correction, total < 0 ? 0 : total};
}

template <class T>
__device__ Region<T> region_of(const NormaliseParams& p, const Moments& moments) {
  ops_device::Norm norm;
  norm.eps = p.eps;
  // The variance is in T's range even if the sum of squares is not.
  return {static_cast<T>(moments.centre), norm.scale(static_cast<T>(moments.total / moments.count), T(1))};
}
template <class T>
__device__ void keep_region(const NormaliseParams& p, std::int64_t item, const Region<T>& region) {
  static_cast<T*>(p.centre)[item] = region.centre;
  static_cast<T*>(p.scale)[item] = region.scale;
}

// Runs the chain on a part and stores it. known: see finish_slots().
template <class E, class T, int threads>
__device__ void finish(const SpanParams& p, const Part& part, const HeldSlots<E, threads>& held, int member, int size,
                       const Region<T>* known) {
  held.for_each(
      p, part, member, size,
      [&](const Raw& a, const Raw& b, int pixel, int next) {
        constexpr int N = slot_values<E>;
        if (next + N > p.pixels) return false;
        finish_slots<E, T, 2>(p, {a, b}, {{part.n, part.c, pixel, 0, N}, {part.n, part.c, next, 0, N}}, known);
        return true;
      },
      [&](const Raw& raw, const Slot& at) { finish_slot<E, T>(p, raw, at, known); });
}

template <class E, class T, class Team>
__device__ void normalise_held(const NormaliseParams& p, std::int64_t item, bool there, const Team& team) {
  const Part part = part_of<E>(p, item, 0);
  const HeldSlots<E> held;
  held.load(p.span, part, team.member(), team.size());
  const Region<T> region = region_of<T>(p, measure<E, T>(p.span, part, held, team));
  if (!there) return;
  if (team.member() == 0) keep_region(p, item, region);
  if (p.applies) finish<E, T>(p.span, part, held, team.member(), team.size(), &region);
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
    normalise_held<E, T>(p, item, true, BlockTeam{});
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
  keep_region(p, region, region_of<T>(p, own));
  __threadfence();
  atomicAdd(counter, 1);
}

template <class E, class T>
__device__ void measure_chunk(const NormaliseParams& p, int item) {
  const int region = item / p.chunks;
  const Part part = part_of<E>(p, region, item - region * p.chunks);
  const HeldSlots<E> held;
  const BlockTeam team;
  held.load(p.span, part, team.member(), team.size());
  const Moments moments = measure<E, T>(p.span, part, held, team);
  if (threadIdx.x >= warp_threads) return;
  int* const counter = p.counters + 1 + region;
  int arrived = 0;
  if (threadIdx.x == 0) {
    static_cast<Moments*>(p.partials)[item] = moments;
    __threadfence();
    arrived = atomicAdd(counter, 1);
  }
  if (__shfl_sync(all_lanes, arrived, 0) != p.chunks - 1) return;
  __threadfence();
  join_region<T>(p, region, counter);
}

template <class E, class T>
__device__ void normalise_chunk(const NormaliseParams& p, int item) {
  const int region = item / p.chunks;
  // Earlier items measure all chunks of this region, and they measure before they wait: this loop ends.
  if (threadIdx.x == 0)
    while (*static_cast<volatile int*>(p.counters + 1 + region) <= p.chunks) continue;
  __syncthreads();
  __threadfence();
  const Part part = part_of<E>(p, region, item - region * p.chunks);
  const HeldSlots<E> held;
  held.load(p.span, part, static_cast<int>(threadIdx.x), norm_threads);
  const Region<T> own{__ldcg(static_cast<const T*>(p.centre) + region),
                      __ldcg(static_cast<const T*>(p.scale) + region)};
  finish<E, T>(p.span, part, held, static_cast<int>(threadIdx.x), norm_threads, &own);
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
  held.load(p, part, static_cast<int>(threadIdx.x), block_threads);
  finish<E, T>(p, part, held, static_cast<int>(threadIdx.x), block_threads, static_cast<const Region<T>*>(nullptr));
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
