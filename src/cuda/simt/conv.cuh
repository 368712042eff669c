// SPDX-License-Identifier: Apache-2.0
// The convolution as a matrix product, phase by phase (plan/phases.hpp), and the chain after it. Rows of a block are
// output channels of one group; columns are positions of one phase, in one image or several; depth is (tap, input
// channel). A phase without taps has depth 0: its zeros go through the chain like other results.
#pragma once

#include "cuda/chain/strip.cuh"
#include "cuda/simt/launchers.hpp"

namespace convt::core::cuda::simt {

template <class T, int size>
struct alignas(size * sizeof(T) < 16 ? size * sizeof(T) : 16) Vector {
  T v[size];
};

// How threads divide a block's sums: each has row_count x column_count.
template <class T, Shape shape>
struct Block {
  static constexpr bool doubles = sizeof(T) == sizeof(double);
  static constexpr int rows = rows_of(shape), columns = columns_of(shape, doubles);
  static constexpr int depth = shape == Shape::thin ? 8 : 16;  // of one step
  static constexpr int known_depth = 128;                      // looked up at once
  static constexpr int row_count = doubles && shape == Shape::middle ? 2 : 4;
  static constexpr int column_count = rows * columns / block_threads / row_count;
  static constexpr int vector = column_count < 4 ? column_count : 4;  // neighbouring columns of one thread
  static constexpr int row_threads = rows / row_count, column_threads = columns / column_count;
  static_assert(row_threads * column_threads == block_threads);
  static constexpr int column_pitch = columns + 4;  // stores of channels-last inputs cover all banks

  static constexpr int weight_vectors = depth * rows / 4;
  static constexpr int inputs_each = depth * columns / block_threads;
};

// One position: the offset of its input at shift 0, and that input's coordinates.
struct Position {
  std::int64_t offset;
  int d, h, w;
};
// One step of depth: the offset from a position's input at shift 0 to the one that is multiplied, and its weights.
struct Depth {
  std::int64_t input;
  int weights;  // index of their row
  int d, h, w;  // shifts
};

// The phase that a block works on, along one axis.
struct Phase {
  PhaseTaps taps;
  int first, position, count;  // first output and its position, and how many outputs
};
__device__ inline Phase phase_at(const ConvAxis& axis, int number) {
  const std::int64_t at = axis.lead + number;
  return {axis.taps.taps(at % axis.taps.stride), number, static_cast<int>(at / axis.taps.stride),
          static_cast<int>((axis.size - 1 - number) / axis.taps.stride) + 1};
}

// What one block computes.
struct Work {
  Phase phase[3];
  int group, first_row, first_column, columns, steps;  // columns: of the phase, in all images; steps of depth
};
// Threads 0, 1 and 2 find one axis each: the divisions of an axis take as long as many products.
template <class B>
__device__ void find_work(const ConvParams& p, Work& work) {
  unsigned rest = blockIdx.x;
  const auto next = [&](int count) {
    const unsigned quotient = rest / static_cast<unsigned>(count);
    const int index = static_cast<int>(rest - quotient * static_cast<unsigned>(count));
    rest = quotient;
    return index;
  };
  if (threadIdx.x < warp_threads) {
    const int first_row = next(p.padded_rows / B::rows) * B::rows;
    // Neighbouring phases are neighbours in the grid, so that their parts of a sector meet in the L2 cache.
    const int w = next(p.axis[2].phases), h = next(p.axis[1].phases), d = next(p.axis[0].phases);
    const int group = next(p.groups);
    const int a = threadIdx.x;
    if (a < 3) work.phase[a] = phase_at(p.axis[a], a == 0 ? d : a == 1 ? h : w);
    __syncwarp();
    if (threadIdx.x == 0) {
      const Phase* const phase = work.phase;
      work.group = group;
      work.first_row = first_row;
      work.first_column = static_cast<int>(rest) * B::columns;
      work.columns = p.images * phase[0].count * phase[1].count * phase[2].count;
      work.steps = static_cast<int>(phase[0].taps.count * phase[1].taps.count * phase[2].taps.count * p.depth);
    }
  }
  __syncthreads();
}

// Finds a column's position and its pixel of the output.
__device__ inline void locate_column(const ConvParams& p, const Work& work, int column, Position& position,
                                     Pixel& pixel) {
  constexpr int nowhere = -(1 << 29);
  position = {0, nowhere, nowhere, nowhere};
  pixel = {-1, 0, 0, 0};
  if (column >= work.columns) return;
  int index[3];
  for (int a = 2; a >= 0; --a) {
    index[a] = column % work.phase[a].count;
    column /= work.phase[a].count;
  }
  int at[3], out[3];
  position.offset = column * p.image_step;
  for (int a = 0; a < 3; ++a) {
    at[a] = work.phase[a].position + index[a];
    out[a] = static_cast<int>(work.phase[a].first + index[a] * p.axis[a].taps.stride);
    position.offset += at[a] * p.axis[a].step;
  }
  position.d = at[0] - p.axis[0].lowest;
  position.h = at[1] - p.axis[1].lowest;
  position.w = at[2] - p.axis[2].lowest;
  pixel = {column, out[0], out[1], out[2]};
}

// The step of depth; after the last one, a step for which every input is outside the image.
__device__ inline Depth depth_at(const ConvParams& p, const Work& work, int step) {
  constexpr int nowhere = (1 << 30) + 1;
  if (step >= work.steps) return {0, 0, nowhere, nowhere, nowhere};
  int tap = step / p.depth;
  const int channel = step - tap * p.depth;
  int shift[3];
  std::int64_t input = (static_cast<std::int64_t>(work.group) * p.depth + channel) * p.channel_step;
  int row = work.group, number[3];
  for (int a = 2; a >= 0; --a) {
    const PhaseTaps& taps = work.phase[a].taps;
    const int index = tap % static_cast<int>(taps.count);
    tap /= static_cast<int>(taps.count);
    shift[a] = static_cast<int>(taps.first_shift + index * taps.shift_step);
    number[a] = static_cast<int>(taps.first + index * taps.step);
    input -= shift[a] * p.axis[a].step;
  }
  for (int a = 0; a < 3; ++a) row = row * static_cast<int>(p.axis[a].taps.kernel) + number[a];
  return {input, row * p.depth + channel, shift[0], shift[1], shift[2]};
}

// Has no branches: three comparisons are cheaper than branches.
__device__ inline bool inside(const ConvParams& p, const Position& position, const Depth& depth) {
  const bool d = static_cast<unsigned>(position.d - depth.d) < static_cast<unsigned>(p.axis[0].inputs);
  const bool h = static_cast<unsigned>(position.h - depth.h) < static_cast<unsigned>(p.axis[1].inputs);
  const bool w = static_cast<unsigned>(position.w - depth.w) < static_cast<unsigned>(p.axis[2].inputs);
  return d & h & w;
}

// Shared memory of a block. The strip replaces the tiles when the products are complete.
template <class T, class B>
struct Shared {
  struct Tiles {
    T weights[2][B::depth][B::rows];
    T inputs[2][B::depth][B::column_pitch];
  };
  static constexpr int strip_pitch = B::columns + 1;
  union {
    Tiles tiles;
    T strip[B::rows * strip_pitch];
  };
  Work work;
  Position positions[B::columns];
  Depth depths[B::known_depth];
  alignas(16) unsigned char chain[strip_shared<T>(B::columns)];

  __device__ Shared() {}  // leaves the content undefined
};

// The sums of one thread.
template <class T, class B>
struct Sums {
  T v[B::row_count][B::column_count];

  __device__ static int row(int i) { return threadIdx.x / B::column_threads * B::row_count + i; }
  __device__ static int column(int j) {
    constexpr int apart = B::columns / (B::column_count / B::vector);
    return j / B::vector * apart + threadIdx.x % B::column_threads * B::vector + j % B::vector;
  }
  __device__ void clear() {
    for (auto& line : v)
      for (T& x : line) x = T(0);
  }
  __device__ void add(const Sums& other) {
#pragma unroll
    for (int i = 0; i < B::row_count; ++i)
#pragma unroll
      for (int j = 0; j < B::column_count; ++j) v[i][j] += other.v[i][j];
  }
};

// What a thread copies from global to shared memory in one step.
template <class E, class T, class B>
struct Fetched {
  T inputs[B::inputs_each];
  Vector<T, 4> weights;

  // depths: those of the step. Neighbours in memory go to neighbouring threads. A thread looks up once what its
  // elements have in common: the input channel; or the position and, if one tap fills the step, the tap.
  __device__ void load(const ConvParams& p, const Shared<T, B>& shared, const Depth* depths) {
    if (p.channel_step == 1) {
      const Depth depth = depths[threadIdx.x % B::depth];
#pragma unroll
      for (int i = 0; i < B::inputs_each; ++i)
        inputs[i] = input(p, shared.positions[threadIdx.x / B::depth + i * (block_threads / B::depth)], depth);
    } else if (p.depth % B::depth != 0) {
      const Position position = shared.positions[threadIdx.x % B::columns];
#pragma unroll
      for (int i = 0; i < B::inputs_each; ++i)
        inputs[i] = input(p, position, depths[threadIdx.x / B::columns + i * (block_threads / B::columns)]);
    } else {
      const Position position = shared.positions[threadIdx.x % B::columns];
      const Depth depth = depths[threadIdx.x / B::columns];
      const E* const from = static_cast<const E*>(p.input) + (position.offset + depth.input);
      const bool there = inside(p, position, depth);
#pragma unroll
      for (int i = 0; i < B::inputs_each; ++i)
        inputs[i] = there ? static_cast<T>(to_real(from[i * (block_threads / B::columns) * p.channel_step])) : T(0);
    }
    if (threadIdx.x < B::weight_vectors) {
      const std::int64_t row = depths[threadIdx.x / (B::rows / 4)].weights;
      const T* const from = static_cast<const T*>(p.weights) + row * p.padded_rows + shared.work.first_row;
      weights = *reinterpret_cast<const Vector<T, 4>*>(from + threadIdx.x % (B::rows / 4) * 4);
    }
  }
  __device__ static T input(const ConvParams& p, const Position& position, const Depth& depth) {
    const E* const from = static_cast<const E*>(p.input) + (position.offset + depth.input);
    return inside(p, position, depth) ? static_cast<T>(to_real(*from)) : T(0);
  }

  __device__ void store(const ConvParams& p, Shared<T, B>& shared, int slot) const {
    const bool by_channel = p.channel_step == 1;
#pragma unroll
    for (int i = 0; i < B::inputs_each; ++i) {
      const int k = by_channel ? threadIdx.x % B::depth : threadIdx.x / B::columns + i * (block_threads / B::columns);
      const int column =
          by_channel ? threadIdx.x / B::depth + i * (block_threads / B::depth) : threadIdx.x % B::columns;
      shared.tiles.inputs[slot][k][column] = inputs[i];
    }
    if (threadIdx.x < B::weight_vectors)
      *reinterpret_cast<Vector<T, 4>*>(
          &shared.tiles.weights[slot][threadIdx.x / (B::rows / 4)][threadIdx.x % (B::rows / 4) * 4]) = weights;
  }
};

template <class T, class B>
__device__ void multiply(const Shared<T, B>& shared, int slot, Sums<T, B>& sums) {
#pragma unroll
  for (int k = 0; k < B::depth; ++k) {
    Vector<T, B::row_count> weights =
        *reinterpret_cast<const Vector<T, B::row_count>*>(&shared.tiles.weights[slot][k][sums.row(0)]);
    Vector<T, B::vector> inputs[B::column_count / B::vector];
#pragma unroll
    for (int j = 0; j < B::column_count / B::vector; ++j)
      inputs[j] =
          *reinterpret_cast<const Vector<T, B::vector>*>(&shared.tiles.inputs[slot][k][sums.column(j * B::vector)]);
#pragma unroll
    for (int i = 0; i < B::row_count; ++i)
#pragma unroll
      for (int j = 0; j < B::column_count; ++j)
        sums.v[i][j] = fma(weights.v[i], inputs[j / B::vector].v[j % B::vector], sums.v[i][j]);
  }
}

// Floats are summed in parts of this many steps of depth: the error grows with a part's length instead of the depth.
inline constexpr int part_steps = 256;

template <class E, class T, class B>
__device__ void convolve(const ConvParams& p, Shared<T, B>& shared, const Strip<T>& strip) {
  const Work& work = shared.work;
  Sums<T, B> sums, part;
  Fetched<E, T, B> fetched;
  sums.clear();
  part.clear();
  const int steps = (work.steps + B::depth - 1) / B::depth;
  constexpr int known = B::known_depth / B::depth;  // steps whose depths are looked up at once
  const auto look_up = [&](int step) {
    if (threadIdx.x < B::known_depth) shared.depths[threadIdx.x] = depth_at(p, work, step * B::depth + threadIdx.x);
    __syncthreads();
  };
  look_up(0);
  if (steps > 0) {
    fetched.load(p, shared, shared.depths);
    fetched.store(p, shared, 0);
  }
  __syncthreads();
  for (int s = 0; s < steps; ++s) {
    const int next = s + 1;
    if (next % known == 0 && next < steps) look_up(next);
    if (next < steps) fetched.load(p, shared, shared.depths + next % known * B::depth);
    multiply(shared, s % 2, part);
    if (next < steps) fetched.store(p, shared, next % 2);
    if (!B::doubles && next % (part_steps / B::depth) == 0) {
      sums.add(part);
      part.clear();
    }
    __syncthreads();
  }
  sums.add(part);
#pragma unroll
  for (int i = 0; i < B::row_count; ++i)
#pragma unroll
    for (int j = 0; j < B::column_count; ++j) strip(sums.row(i), sums.column(j)) = sums.v[i][j];
}

// convolve() if some weight is not finite: 0*Inf is NaN, so padding must skip such weights.
template <class E, class T, class B>
__device__ __noinline__ void convolve_nonfinite(const ConvParams& p, const Shared<T, B>& shared, Strip<T> strip) {
  for (int i = threadIdx.x; i < B::rows * B::columns; i += block_threads) {
    const int row = i / B::columns, column = i % B::columns;
    const Position position = shared.positions[column];
    T sum = 0;
    for (int step = 0; step < shared.work.steps; ++step) {
      const Depth depth = depth_at(p, shared.work, step);
      if (!inside(p, position, depth)) continue;
      const T x = static_cast<T>(to_real(static_cast<const E*>(p.input)[position.offset + depth.input]));
      const std::int64_t first = static_cast<std::int64_t>(depth.weights) * p.padded_rows + shared.work.first_row;
      sum = fma(static_cast<const T*>(p.weights)[first + row], x, sum);
    }
    strip(row, column) = sum;
  }
}

template <class E, class T, Shape shape>
__global__ void __launch_bounds__(block_threads, 2) conv_kernel(const __grid_constant__ ConvParams p) {
  using B = Block<T, shape>;
  __shared__ Shared<T, B> shared;
  find_work<B>(p, shared.work);
  const Work& work = shared.work;
  if (work.first_column >= work.columns) return;
  if (threadIdx.x < B::columns)
    locate_column(p, work, work.first_column + threadIdx.x, shared.positions[threadIdx.x],
                  reinterpret_cast<Pixel*>(shared.chain)[threadIdx.x]);
  Strip<T> strip = strip_in<T>(shared.chain, 31 - __clz(B::columns));
  strip.data = shared.strip;
  strip.pitch = shared.strip_pitch;
  strip.first_channel = work.group * p.rows + work.first_row;
  strip.channels = min(B::rows, p.rows - work.first_row);
  __syncthreads();
  if (*p.nonfinite == 0)
    convolve<E>(p, shared, strip);
  else
    convolve_nonfinite<E>(p, shared, strip);
  __syncthreads();
  run_chain(p.chain, strip, p.to);
}

template <class E>
void launch_conv(Shape shape, const ConvParams& params, const Launch& how) {
  using T = decltype(to_real(E{}));
  const auto kernel = shape == Shape::wide     ? conv_kernel<E, T, Shape::wide>
                      : shape == Shape::middle ? conv_kernel<E, T, Shape::middle>
                                               : conv_kernel<E, T, Shape::thin>;
  launch(kernel, "the convolution's kernel", how, params);
}

}  // namespace convt::core::cuda::simt
