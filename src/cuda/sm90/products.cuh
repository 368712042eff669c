// SPDX-License-Identifier: Apache-2.0
// A warpgroup's products: the taps of one class, from a halo tile and weights that stay or come in stages.
#pragma once

#include "cuda/sm90/operand.cuh"
#include "cuda/sm90/rings.cuh"

namespace convt::core::cuda::sm90 {

// Any sums: they are overwritten, or not used.
template <int blocks, int count>
__device__ void leave_open(float (&sums)[blocks][count]) {
#pragma unroll
  for (auto& block : sums)
#pragma unroll
    for (float& x : block) leave_open(x);
}

// What consumers know of the rings.
struct Feed {
  Ring halo, stage;
};

// Where in the halo tile a warpgroup's blocks meet the taps of a class, one after the other; in units of 16 bytes.
struct Walk {
  int place, h, w;  // h, w: taps that are left
  int along_h, along_w, step, line, plane;

  __device__ Walk(const ConvParams& p, const Class& c, int first)
      : place(first),
        h(c.along_h),
        w(c.along_w),
        along_h(h),
        along_w(w),
        step(p.tap_step),
        line(c.line),
        plane(c.plane) {}
  template <int count>
  __device__ void take(int (&places)[count]) {
#pragma unroll
    for (int& at : places) {
      at = place;
      next();
    }
  }
  __device__ void next() {
    place += step;
    if (--w > 0) return;
    w = along_w;
    place += line;
    if (--h > 0) return;
    h = along_h;
    place += plane;
  }
};

// The same from a list.
struct Listed {
  const ConvParams& p;
  int first, tap;

  template <int count>
  __device__ void take(int (&places)[count]) {
#pragma unroll
    for (int i = 0; i < count; ++i) places[i] = first + p.places[tap + i];
    tap += count;
  }
};

// What a warpgroup has open while products are under way.
struct Open {
  int tile = 0;     // of weights, the next one's place
  int left = 0;     // tiles of this stage
  int stage = -1;   // it has open; none
  int behind = -1;  // the stage and
  int slot = -1;    // the slot that are to be released when the products before the last tap's are done
  int add = 0;      // not 0: sums have products already
};
__device__ inline void release_weights(const Shared& shared, int stage) {
  if (threadIdx.x % warp_threads == 0) arrive(shared.weights_empty(stage));
}
__device__ inline void release_halo(const Shared& shared, int slot) {
  if (threadIdx.x % warp_threads == 0) arrive(shared.halo_empty(slot));
}

// Waits for a stage of weights, and goes on to the next.
__device__ inline void next_stage(const ConvParams& p, const Shared& shared, Feed& feed, Open& open) {
  wait_together(shared.weights_full(feed.stage.place), feed.stage.parity);
  open.tile = shared.weights + feed.stage.place * p.stage_units;
  feed.stage.next();
}

// Weights that stay, by one thread.
__device__ inline void load_weights(const ConvParams& p, const Shared& shared, int tile_bytes) {
  const int bytes = p.taps * p.chunks * tile_bytes;
  arrive_expecting(shared.weights_full(0), bytes);
  copy_bulk(shared.weights_address, p.weights, bytes, shared.weights_full(0));
}

// Waits for a tile's first chunk or, where they stay, for all; these are freed when it is done.
__device__ inline void wait_for_tile(const ConvParams& p, const Shared& shared, const Feed& feed) {
  Ring slot = feed.halo;
  for (int left = p.resident ? p.chunks : 1; left > 0; --left, slot.next())
    wait_together(shared.halo_full(slot.place), slot.parity);
}
__device__ inline void release_tile(const ConvParams& p, const Shared& shared, Feed& feed) {
  for (int chunk = 0; chunk < p.chunks; ++chunk, feed.halo.next()) release_halo(shared, feed.halo.place);
}

// `count` taps, whose operands are there, as one group of products: without loops inside, whose ends would close it.
// places.take() tells where the operands are; `offset` is of each block, in units of 16 bytes; add: 0 if the first
// product overwrites the sums.
template <class Kind, int steps, int count, class Places, int blocks = Kind::blocks>
__device__ void multiply_taps(const ConvParams& p, const Operand& inputs, const Operand& weights,
                              const int (&offset)[blocks], Places& places, int& tile, int add,
                              float (&sums)[blocks][Kind::across / 2]) {
  constexpr int step_units = step_bytes / 16;
  int place[count];
  places.take(place);
  multiply_begin();
#pragma unroll
  for (int tap = 0; tap < count; ++tap) {
#pragma unroll
    for (int k = 0; k < steps; ++k)
#pragma unroll
      for (int i = 0; i < blocks; ++i) {
        const std::uint64_t positions = inputs.at(place[tap] + offset[i] + k * step_units);
        const std::uint64_t channels = weights.at(tile + k * step_units);
        multiply<Kind::format, Kind::across>(sums[i], Kind::wide ? channels : positions,
                                             Kind::wide ? positions : channels, tap == 0 && k == 0 ? add : 1);
      }
    tile += p.tile_units;
  }
  multiply_commit();
}

// The products of one chunk of channels, which is in this slot; they are under way when it returns. Taps come in runs,
// of those that one stage has weights for: what waits and what is released is left to their ends.
template <class Kind, int steps, int blocks = Kind::blocks>
__device__ void multiply_chunk(const ConvParams& p, const Shared& shared, const Class& c, const int (&offset)[blocks],
                               int slot, Feed& feed, Open& open, float (&sums)[blocks][Kind::across / 2]) {
  const Operand inputs{shared.halo + slot * p.slot_units, p.input_layout};
  const Operand weights{shared.weights, p.weight_layout};
  Walk walk(p, c, inputs.place + c.place);
  for (int left = c.taps; left > 0;) {
    if (open.left == 0) {
      open.behind = open.stage;
      open.stage = feed.stage.place;
      next_stage(p, shared, feed, open);
      open.left = p.stage_tiles;
    }
    int run = min(left, open.left);
    left -= run;
    open.left -= run;
    const auto multiply_some = [&]<int count>() {
      multiply_taps<Kind, steps, count>(p, inputs, weights, offset, walk, open.tile, open.add, sums);
      open.add = 1;
    };
#pragma unroll 1
    for (; run >= 2; run -= 2) multiply_some.template operator()<2>();
    if (run > 0) multiply_some.template operator()<1>();
    if (open.behind < 0 && open.slot < 0) continue;
    multiply_wait<1>();
    if (open.behind >= 0) release_weights(shared, open.behind);
    if (open.slot >= 0) release_halo(shared, open.slot);
    open.behind = open.slot = -1;
  }
}

// f.operator()<steps>(), of 1 to 4 matrix instructions along a row.
template <class F>
__device__ void with_steps(int steps, F&& f) {
  switch (steps) {
    case 1:
      return f.template operator()<1>();
    case 2:
      return f.template operator()<2>();
    case 3:
      return f.template operator()<3>();
    default:
      return f.template operator()<4>();
  }
}

// The products of one class into the sums of the warpgroup's blocks; they are under way when it returns.
template <class Kind, int blocks = Kind::blocks>
__device__ void accumulate(const ConvParams& p, const Shared& shared, const Class& c, const int (&offset)[blocks],
                           Feed& feed, Open& open, float (&sums)[blocks][Kind::across / 2]) {
  open.tile = shared.weights + c.weights;
  open.left = p.all_weights ? c.taps * p.chunks : 0;  // a class begins with a stage
  open.add = 0;
  leave_open(sums);
  Ring tile = feed.halo;
  for (int chunk = 0; chunk < p.chunks; ++chunk) {
    if (!p.resident) wait_together(shared.halo_full(feed.halo.place), feed.halo.parity);
    with_steps(chunk + 1 == p.chunks ? p.last_steps : p.steps, [&]<int steps>() {
      multiply_chunk<Kind, steps>(p, shared, c, offset, feed.halo.place, feed, open, sums);
    });
    if (!p.resident) open.slot = feed.halo.place;
    feed.halo.next();
  }
  if (p.resident) feed.halo = tile;
}

// The same of joint phases, chunk by chunk: each is there once for all of them. Some class has taps, and what each has
// of a chunk's weights begins with a stage.
template <class Kind, int joint, int blocks = Kind::blocks>
__device__ void accumulate_joint(const ConvParams& p, const Shared& shared, int number, int there,
                                 const int (&offset)[blocks], Feed& feed, Open& open,
                                 float (&sums)[joint][blocks][Kind::across / 2]) {
  Ring slot = feed.halo;
  for (int chunk = 0; chunk < p.chunks; ++chunk, slot.next()) {
    if (!p.resident) wait_together(shared.halo_full(slot.place), slot.parity);
#pragma unroll
    for (int j = 0; j < joint; ++j) {
      const Class c = uniform(p.classes[number + j]);
      if (j >= there || c.taps == 0) continue;
      open.tile = shared.weights + c.weights + chunk * c.taps * p.tile_units;
      open.left = p.all_weights ? c.taps : 0;
      open.add = chunk;
      with_steps(chunk + 1 == p.chunks ? p.last_steps : p.steps, [&]<int steps>() {
        multiply_chunk<Kind, steps>(p, shared, c, offset, slot.place, feed, open, sums[j]);
      });
    }
    if (!p.resident) open.slot = slot.place;
  }
  if (!p.resident) feed.halo = slot;
}

// What is known of weights on a short route: they come in stages; all of these are whole, pairs of taps; or they stay.
enum class Come : int { in_stages, in_whole_stages, never };

// The same on a short route: without a question that the host has answered. So many matrix instructions along a row.
template <class Kind, int steps, Come weights_come, int blocks = Kind::blocks>
__device__ void accumulate_shortly(const ConvParams& p, const Shared& shared, const Class& c,
                                   const int (&offset)[blocks], Feed& feed, Open& open,
                                   float (&sums)[blocks][Kind::across / 2]) {
  const Operand inputs{shared.halo + feed.halo.place * p.slot_units, p.input_layout};
  constexpr bool whole = weights_come == Come::in_whole_stages;
  const Operand weights{shared.weights, p.weight_layout};
  Listed places{p, inputs.place, c.listed};
  int left = c.taps;
  leave_open(sums);
  const auto multiply_pairs = [&](int pairs) {
#pragma unroll 1
    for (; pairs > 0; --pairs) multiply_taps<Kind, steps, 2>(p, inputs, weights, offset, places, open.tile, 1, sums);
  };
  // The first product overwrites: known here, or zeros would be made for it.
  const auto multiply_first = [&](int taps) {
    if (!whole && taps % 2 != 0)
      multiply_taps<Kind, steps, 1>(p, inputs, weights, offset, places, open.tile, 0, sums);
    else
      multiply_taps<Kind, steps, 2>(p, inputs, weights, offset, places, open.tile, 0, sums);
    multiply_pairs((taps - 1) / 2);
  };
  if constexpr (weights_come == Come::never) {
    open.tile = shared.weights + c.weights;
    return multiply_first(left);
  }
  const auto begin_stage = [&] {
    open.behind = open.stage;
    open.stage = feed.stage.place;
    next_stage(p, shared, feed, open);
    return whole ? p.stage_tiles : min(left, p.stage_tiles);
  };
  const auto end_stage = [&] {
    left -= p.stage_tiles;
    if (open.behind < 0) return;
    multiply_wait<1>();
    release_weights(shared, open.behind);
  };
  multiply_first(begin_stage());
  end_stage();
#pragma unroll 1
  while (left > 0) {
    const int taps = begin_stage();
    multiply_pairs(taps / 2);
    if (!whole && taps % 2 != 0) multiply_taps<Kind, steps, 1>(p, inputs, weights, offset, places, open.tile, 1, sums);
    end_stage();
  }
}

// f.operator()<steps, Come>() if the route is a short one; whether it is.
template <class F>
__device__ bool with_route(int route, F&& f) {
  if (route == Route::two_steps_stay)
    f.template operator()<2, Come::never>();
  else if (route == Route::four_steps_whole)
    f.template operator()<4, Come::in_whole_stages>();
  else if (route == Route::two_steps_whole)
    f.template operator()<2, Come::in_whole_stages>();
  else if (route == Route::four_steps)
    f.template operator()<4, Come::in_stages>();
  else if (route == Route::two_steps)
    f.template operator()<2, Come::in_stages>();
  else if (route == Route::four_steps_stay)
    f.template operator()<4, Come::never>();
  else
    return false;
  return true;
}

}  // namespace convt::core::cuda::sm90
