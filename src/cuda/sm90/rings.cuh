// SPDX-License-Identifier: Apache-2.0
// How producers, consumers and writers of a block meet: barriers and buffers in shared memory, by address.
#pragma once

#include "cuda/sm90/instructions.cuh"
#include "cuda/sm90/work.cuh"

namespace convt::core::cuda::sm90 {

struct Shared {
  int halo, weights;  // places of operands
  std::uint32_t weights_address, barriers;
  bool careful = false;  // some weight is not finite: neither halo tiles nor weights in shared memory are used

  __device__ std::uint32_t halo_full(int slot) const { return barriers + slot * 8; }
  __device__ std::uint32_t halo_empty(int slot) const { return barriers + (most_slots + slot) * 8; }
  __device__ std::uint32_t weights_full(int stage) const { return barriers + (2 * most_slots + stage) * 8; }
  __device__ std::uint32_t weights_empty(int stage) const {
    return barriers + (2 * most_slots + most_stages + stage) * 8;
  }
  __device__ std::uint32_t staged_full(int part = 0) const {
    return barriers + (2 * (most_slots + most_stages) + part) * 8;
  }
  __device__ std::uint32_t staged_empty(int part = 0) const { return staged_full(most_staged + part); }
};

// Whether one of them is not 0. By all threads of a warp.
__device__ inline bool any_flag(const Flags& flags) {
  const auto* const data = static_cast<const uint4*>(flags.data);
  int thread = threadIdx.x;
  forget(thread);  // or its lane is kept
  unsigned some = 0;
  for (int i = thread % warp_threads; i < flags.loads; i += warp_threads)
    some |= data[i].x | data[i].y | data[i].z | data[i].w;
  return __any_sync(~0U, some != 0) != 0;
}
// Waits for the kernels before; whether some weight is not finite. By all threads of a warp.
template <class Kind>
__device__ bool must_be_careful(const ConvParams& p) {
  wait_for_kernel_before();
  // Never of f16 in place of tf32, whose stand-in is. But ptxas must not know: it would move zeros among products
  // (C7515).
  return Kind::halved ? p.careful.loads < 0 : any_flag(p.careful);
}
// Whether the kernel has to run. tf32 behind f16 in its place does if a range guard tripped; f16 does not if one
// tripped before it. By all threads of a warp.
template <class Kind>
__device__ bool must_run(const ConvParams& p) {
  if (Kind::format == Format::tf32 ? p.guards[2].loads == 0 : !Kind::halved || p.guards[0].loads == 0) return true;
  wait_for_kernel_before();
  const bool before = any_flag(p.guards[0]) || any_flag(p.guards[1]);
  return Kind::halved ? !before : before || any_flag(p.guards[2]);
}

// A block's shared memory: halo slots, stages of weights, items, places of results, and what is behind.
struct Memory {
  unsigned char *slots, *items, *shares, *places, *behind;
  Shared shared;
  int stands_in = 0;  // of a writer in a consumer's place: its number less the consumer's

  __device__ Memory(const ConvParams& p, int tile_bytes, int warps, int place_bytes = 0, bool cuts = false) {
    unsigned char* const dynamic = dynamic_shared();
    slots = dynamic + (shared_slack - shared_address(dynamic) % shared_slack) % shared_slack;
    unsigned char* const weights = slots + p.slots * p.slot_bytes;
    items = weights + p.stages * p.stage_tiles * tile_bytes;
    shares = items + (most_slots + warps) * item_bytes;
    places = shares + (cuts ? (most_slots + warps) * share_bytes : 0);
    behind = places + place_bytes;
    shared = {place_of(shared_address(slots)), place_of(shared_address(weights)), shared_address(weights),
              shared_address(shared_words<barrier_bytes / 8>())};
    if (place_bytes == 0) return;
    // Broadcast, or the compiler finds them again wherever they are used.
    shared.halo = uniform(shared.halo);
    shared.weights = uniform(shared.weights);
    shared.barriers = static_cast<std::uint32_t>(uniform(static_cast<int>(shared.barriers)));
  }
  // Whose box a slot has the first chunk of: producers find out what consumers work on.
  __device__ Item* item_of(int slot) const { return reinterpret_cast<Item*>(items) + slot; }
  // That this warp works on: here, and its place found again, as registers are short.
  __device__ Item* item() const {
    int thread = threadIdx.x;
    forget(thread);
    return reinterpret_cast<Item*>(items) + most_slots + thread / warp_threads;
  }
  // The same of what the block has of an item, where items may be cut.
  __device__ ItemShare* share_of(int slot) const { return reinterpret_cast<ItemShare*>(shares) + slot; }
  __device__ ItemShare* share() const {
    int thread = threadIdx.x;
    forget(thread);
    return reinterpret_cast<ItemShare*>(shares) + most_slots + thread / warp_threads;
  }
  // The consumer that this thread is, or whose place it takes; found again, as registers are short.
  __device__ int consumer() const {
    int thread = static_cast<int>(threadIdx.x) - stands_in;
    forget(thread);
    return thread;
  }
  // A consumer's, of both blocks at most. Where consumers fold, the second is theirs, for offsets.
  __device__ std::int64_t* place() const {
    return reinterpret_cast<std::int64_t*>(places + warp_place_bytes) + consumer() * 2;
  }
  // Where results are stored as vectors: a consumer warp's one place; and what its threads have of places, where they
  // are exchanged.
  __device__ std::int64_t* warp_place() const {
    return reinterpret_cast<std::int64_t*>(places) + consumer() / warp_threads;
  }
  __device__ unsigned char* vectors() const {
    return places + warp_place_bytes + consumer() / warp_threads * vector_round;
  }
  // Of a writer's warp, which has the part of four of the consumers'.
  __device__ unsigned char* many_vectors() const {
    int thread = threadIdx.x;
    forget(thread);
    return places + warp_place_bytes + thread / warp_threads % group_warps * (group_warps * vector_round);
  }
};

// By all threads of a warp.
__device__ inline void keep_item(const Item& item, Item* to) {
  __syncwarp();
  if (threadIdx.x % warp_threads == 0) *to = item;
  __syncwarp();
}
__device__ inline void keep_share(const ItemShare& share, ItemShare* to) {
  __syncwarp();
  if (threadIdx.x % warp_threads == 0) *to = share;
  __syncwarp();
}
// By all threads of a warp: what it works on is the next one. cuts: items may be cut; turns: blocks may take turns.
template <bool cuts, bool turns>
__device__ void keep_next(const ConvParams& p, const Memory& memory) {
  Item item = *memory.item();
  if (!cuts) {
    step_on<turns>(p, item);
    return keep_item(item, memory.item());
  }
  ItemShare share = *memory.share();
  if (share.number + p.grid < p.whole_items) {
    go_on(p, item, share);
    keep_item(item, memory.item());
    keep_share(share, memory.share());
  } else {  // seldom: in memory, as registers are short
    __syncwarp();
    if (threadIdx.x % warp_threads == 0) go_on(p, *memory.item(), *memory.share());
    __syncwarp();
  }
}
// Also where its results go.
__device__ inline void keep_with_result(const ConvParams& p, Item item, Item* to) {
  item.result = result_of(p, item);
  keep_item(item, to);
}

// A place in a ring, and whether the ring's end was passed an odd number of times.
struct Ring {
  int size, place = 0, parity = 0;
  __device__ void next() {
    if (++place == size) {
      place = 0;
      parity ^= 1;
    }
  }
  __device__ int before() const { return (place == 0 ? size : place) - 1; }
};

__device__ inline Ring uniform(const Ring& ring) { return {ring.size, uniform(ring.place), uniform(ring.parity)}; }

// By a producer, behind what it put into a slot. Every lane tells of its own: racecheck does not see a warp's barrier
// that the compiler takes away.
__device__ inline void hand_on_slot(const Shared& shared, int slot) {
  fence_async();
  arrive(shared.halo_full(slot));
}

// By one thread, before any other uses them. staged: parts of results on their way; so many threads put one there, and
// a warpgroup takes it.
__device__ inline void init_barriers(const ConvParams& p, const Shared& shared, int halo_warps, int consumer_warps,
                                     int staged = 0, int staging_threads = 0) {
  for (int i = 0; i < p.slots; ++i) {
    init_barrier(shared.halo_full(i), halo_warps * warp_threads);
    init_barrier(shared.halo_empty(i), consumer_warps);
  }
  for (int i = 0; i < p.stages; ++i) {
    init_barrier(shared.weights_full(i), 1);
    init_barrier(shared.weights_empty(i), consumer_warps);
  }
  for (int i = 0; i < staged; ++i) {
    init_barrier(shared.staged_full(i), staging_threads);
    init_barrier(shared.staged_empty(i), group_threads);
  }
  fence_barrier_init();
}

}  // namespace convt::core::cuda::sm90
