// SPDX-License-Identifier: Apache-2.0
// From sums to outputs: short chains on registers, any chain in a strip of shared memory.
#pragma once

#include "cuda/sm90/gelu.cuh"
#include "cuda/sm90/lines.cuh"
#include "cuda/sm90/twins.cuh"
#include "cuda/sm90/vectors.cuh"

namespace convt::core::cuda::sm90 {

// The four threads of a row join what they have of it.
__device__ inline float sum_of_four(float x) {
  x += __shfl_xor_sync(~0U, x, 1);
  return x + __shfl_xor_sync(~0U, x, 2);
}

// A number for each row of a thread.
template <int joint, int blocks>
using PerRow = float[joint][blocks][2];

template <int joint, int blocks, class F>
__device__ void for_each_row(F&& f) {
#pragma unroll
  for (int j = 0; j < joint; ++j)
#pragma unroll
    for (int b = 0; b < blocks; ++b)
#pragma unroll
      for (int half = 0; half < 2; ++half) f(j, b, half);
}

// Columns that are not there, if there are such. They are no zeros by themselves: an infinite input makes NaN of them.
template <int n, int joint, int blocks>
__device__ void set_absent(int channels, const PerRow<joint, blocks>& to, float (&x)[joint][blocks][n / 2]) {
  if (channels >= n) return;
  int thread = threadIdx.x;
  forget(thread);  // its column is found again: registers are short
  const int left = channels - Sums<n>::column(0, thread);
#pragma unroll
  for (int i = 0; i < n / 4; ++i)
    if (i / 2 * 8 + i % 2 >= left)
      for_each_row<joint, blocks>(
          [&](int j, int b, int half) { x[j][b][i / 2 * 4 + 2 * half + i % 2] = to[j][b][half]; });
}

// What a norm makes of x in a row: scale*x + offset, or, where x is centred, scale*x.
template <int joint, int blocks>
struct Centred {
  static constexpr bool at_once = false;
  PerRow<joint, blocks> scale;
};
template <int joint, int blocks>
struct Shifted : Centred<joint, blocks> {
  static constexpr bool at_once = true;
  PerRow<joint, blocks> offset;
};

// Takes the means of rows away, and tells what is left to multiply them by.
// Two passes. A mean of m floats comes out within m/8 + 4 roundings of the largest: 8 partial sums, three levels that
// join them, one product. Each float is itself a sum that tensor cores cut off at every step, by up to two roundings:
// from six steps on (ten, of 128 columns) it is no closer to the truth. So the mean is not corrected by what is left,
// as elsewhere.
template <int n, bool bare, int joint, int blocks>
__device__ void centre(const ShortChain& chain, int channels, float (&x)[joint][blocks][n / 2],
                       PerRow<joint, blocks>& scale) {
  PerRow<joint, blocks> mean = {}, odd;
  if constexpr (!bare) set_absent<n>(channels, mean, x);
  for_each_row<joint, blocks>([&](int j, int b, int half) {
    mean[j][b][half] = x[j][b][2 * half];
    odd[j][b][half] = x[j][b][2 * half + 1];
    scale[j][b][half] = 0;
  });
#pragma unroll
  for (int i = 1; i < n / 8; ++i)
    for_each_row<joint, blocks>([&](int j, int b, int half) {
      mean[j][b][half] += x[j][b][4 * i + 2 * half];
      odd[j][b][half] += x[j][b][4 * i + 2 * half + 1];
    });
  for_each_row<joint, blocks>(
      [&](int j, int b, int half) { mean[j][b][half] = sum_of_four(mean[j][b][half] + odd[j][b][half]) * chain.each; });
  if constexpr (!bare) set_absent<n>(channels, mean, x);
#pragma unroll
  for (int i = 0; i < n / 4; ++i)
    for_each_row<joint, blocks>([&](int j, int b, int half) {
      float& v = x[j][b][i / 2 * 4 + 2 * half + i % 2];
      v -= mean[j][b][half];
      scale[j][b][half] = fmaf(v, v, scale[j][b][half]);
    });
  for_each_row<joint, blocks>([&](int j, int b, int half) {
    float& v = scale[j][b][half];
    v = chain.gain * rsqrtf(fmaf(sum_of_four(v), chain.each, chain.eps));
  });
}

// The same in one pass, of a bare norm. What squares less the mean's square leave is the variance within 2^-19 of the
// mean's square, or 2^-18 of 128 columns. Where that square is more than 2^8 times the variance, or 2^7, and where the
// variance is tiny or squares overflow, there are two passes.
template <int n, int joint, int blocks>
__device__ void centre_at_once(const ShortChain& chain, float (&x)[joint][blocks][n / 2],
                               Shifted<joint, blocks>& rows) {
  PerRow<joint, blocks>&mean = rows.offset, &squares = rows.scale;
  for_each_row<joint, blocks>([&](int j, int b, int half) {
    mean[j][b][half] = x[j][b][2 * half];
    squares[j][b][half] = x[j][b][2 * half] * x[j][b][2 * half];
  });
#pragma unroll
  for (int i = 1; i < n / 4; ++i)
    for_each_row<joint, blocks>([&](int j, int b, int half) {
      const float v = x[j][b][i / 2 * 4 + 2 * half + i % 2];
      mean[j][b][half] += v;
      squares[j][b][half] = fmaf(v, v, squares[j][b][half]);
    });
#pragma unroll  // all rows step by step: a shuffle's latency is what the others take
  for (int lanes = 1; lanes <= 2; lanes *= 2)
    for_each_row<joint, blocks>([&](int j, int b, int half) {
      mean[j][b][half] += __shfl_xor_sync(~0U, mean[j][b][half], lanes);
      squares[j][b][half] += __shfl_xor_sync(~0U, squares[j][b][half], lanes);
    });
  bool exact = true;
  for_each_row<joint, blocks>([&](int j, int b, int half) {
    const float m = mean[j][b][half] * chain.each, square = m * m;
    const float variance = fmaf(squares[j][b][half], chain.each, chain.eps) - square;
    exact &= variance >= fmaf(square, n > 64 ? 0x1p-7f : 0x1p-8f, 0x1p-100f) && variance < INFINITY;
    squares[j][b][half] = chain.gain * inverse_root(variance);
    mean[j][b][half] = -m * squares[j][b][half];
  });
  if (!__any_sync(~0U, !exact)) return;
  centre<n, true>(chain, n, x, rows.scale);
  for_each_row<joint, blocks>([&](int j, int b, int half) { rows.offset[j][b][half] = 0; });
}

// The chain up to its norm, whose end is left to do. Rows: Centred, or Shifted.
template <int n, class Rows, int joint, int blocks>
__device__ void start_short(const ShortChain& chain, int channels, const Lines<n>& lines,
                            float (&x)[joint][blocks][n / 2], Rows& rows) {
  if (chain.bare) {
    if constexpr (Rows::at_once)
      return centre_at_once<n>(chain, x, rows);
    else
      return centre<n, true>(chain, channels, x, rows.scale);
  }
  if (chain.lines[ShortChain::before_norm].there) {
#pragma unroll
    for (int i = 0; i < n / 8; ++i) apply_line(lines.at(ShortChain::before_norm, i), x, 4 * i);
  }
  if (chain.norm == 0) return;
  centre<n, false>(chain, channels, x, rows.scale);
  if constexpr (Rows::at_once)
    for_each_row<joint, blocks>([&](int j, int b, int half) { rows.offset[j][b][half] = 0; });
}

// The norm's end, of so many values of each block.
template <class Rows, int joint, int blocks, int count>
__device__ void end_norm(const Rows& rows, float (&x)[joint][blocks][count]) {
#pragma unroll
  for (int i = 0; i < count / 2; ++i)
    for_each_row<joint, blocks>([&](int j, int b, int half) {
      float& v = x[j][b][i / 2 * 4 + 2 * half + i % 2];
      if constexpr (Rows::at_once)
        v = fmaf(v, rows.scale[j][b][half], rows.offset[j][b][half]);
      else
        v *= rows.scale[j][b][half];
    });
}

// 8 columns of a thread's rows.
template <int joint, int blocks>
using Columns = float[joint][blocks][4];

template <int joint, int blocks>
__device__ void apply_relu(Columns<joint, blocks>& x) {
#pragma unroll
  for (auto& phase : x)
#pragma unroll
    for (auto& block : phase)
#pragma unroll
      for (float& v : block) v = maximum(v, 0.0f);
}

// What is behind the norm but the last line, of the columns 8*i and on.
template <int n, int joint, int blocks>
__device__ void end_columns(const ShortChain& chain, const Lines<n>& lines, int i, Columns<joint, blocks>& x) {
  if (chain.lines[ShortChain::behind_norm].there) apply_line(lines.at(ShortChain::behind_norm, i), x);
  if (chain.activation == ShortChain::gelu) {
#pragma unroll
    for (auto& phase : x) apply_gelu<ShortChain::gelu_degree, 4 * blocks>(chain.q, phase[0]);
  } else if (chain.activation == ShortChain::relu) {
    apply_relu(x);
  }
}

// f(i, the sums of the columns 8*i and on), from the first on, while there are some. It ends where there are none:
// passed over one by one, the compiler would find out about all of them before the first, and keep that.
template <int n, int joint, int blocks, class F>
__device__ void for_columns(int channels, float (&sums)[joint][blocks][n / 2], F&& f) {
#pragma unroll
  for (int i = 0; i < n / 8; ++i) {
    if (8 * i >= channels) break;
    Columns<joint, blocks> x;
#pragma unroll
    for (int k = 0; k < joint * blocks * 4; ++k)
      x[k / 4 / blocks][k / 4 % blocks][k % 4] = sums[k / 4 / blocks][k / 4 % blocks][4 * i + k % 4];
    f(i, x);
  }
}

// Who has no registers for them: with shortcuts for chains of nothing and of ReLU, GELU's took 1 % longer.
template <class WriterAs>
concept WithoutShortcuts = requires {
  requires WriterAs::without_shortcuts;
};

// The rest of a chain behind its norm: put_columns(end), where end(i, x) is what is left for the columns 8*i and on.
template <class E, class To, bool shortcuts, int n, class Rows, int joint, int blocks, class PutColumns>
__device__ void end_chain(const ShortChain& chain, const Lines<n>& lines, const Rows& rows,
                          float (&sums)[joint][blocks][n / 2], const PutColumns& put_columns) {
  // Results of a multiplication fall into neighbouring registers, which sums would have to be moved to.
  constexpr bool in_pairs = sizeof(To) == sizeof(float) && joint == 2;
  constexpr int degree = gelu_of_norm_fit<E>().degree;
  const auto put_gelu = [&]<int power>() {
    put_columns([&](int, Columns<joint, blocks>& x) { apply_gelu<power, 4 * blocks>(chain.q, x[0][0]); });
  };
  // Five questions less for every 8 columns: some 50 clocks each.
  if (std::is_same_v<E, To> && (joint == 2 ? shortcuts : n < 64) && chain.missing)
    put_columns([](int, Columns<joint, blocks>&) {});
  else if (std::is_same_v<E, To> && joint == 2 && shortcuts && chain.only_relu)
    put_columns([](int, Columns<joint, blocks>& x) { apply_relu(x); });
  else if (std::is_same_v<E, To> && joint == 1 && chain.only_gelu)
    chain.activation == ShortChain::gelu_of_norm ? put_gelu.template operator()<degree>()
                                                 : put_gelu.template operator()<ShortChain::gelu_degree>();
  else if (std::is_same_v<E, To> && chain.activation == ShortChain::gelu_of_norm)
    put_columns([&](int, Columns<joint, blocks>& x) {
      end_norm(rows, x);
#pragma unroll
      for (auto& of_phase : x) apply_gelu<degree, 4 * blocks>(chain.q, of_phase[0]);
    });
  else {
    if (chain.norm != 0) end_norm(rows, sums);
    put_columns([&](int i, Columns<joint, blocks>& x) {
      end_columns(chain, lines, i, x);
      if (in_pairs || chain.lines[ShortChain::last].there) apply_line(lines.at(ShortChain::last, i), x);
    });
  }
}

// Stores go on while the next columns are computed.
template <class E, class To, int n, class Rows, int joint, int blocks, class WriterAs>
__device__ void finish_as(const ShortChain& chain, const Lines<n>& lines, bool vectors, const WriterAs& writer_as,
                          const Rows& rows, float (&sums)[joint][blocks][n / 2]) {
  const auto put_by = [&](int channels, auto&& end, auto&& put) {
    for_columns<n>(channels, sums, [&](int i, Columns<joint, blocks>& x) {
      end(i, x);
      put(i, x);
    });
  };
  if constexpr (joint == 1 && blocks == 1 && sizeof(To) == 2) {
    if (vectors) {
      auto writer = writer_as.template vectors<To>();
      end_chain<E, To, true>(chain, lines, rows, sums, [&](auto&& end) {
        put_by(n, end, [&](int i, const Columns<joint, blocks>& x) { writer.put(i, x); });
        writer.end();
      });
      return;
    }
  }
  const auto writer = writer_as.template operator()<To>();
  end_chain<E, To, !WithoutShortcuts<WriterAs>>(chain, lines, rows, sums, [&](auto&& end) {
    writer.with_put([&](auto&& put) { put_by(writer.channels(), end, put); });
  });
}

// Whose results have the type of inputs, always: what stages hand on does not go there.
template <class WriterAs>
concept OfOwnType = requires {
  requires WriterAs::own_type;
};

// A short chain, and what writer_as<To>() makes of its results, 8 columns at a time; or writer_as.vectors<To>(). Values
// between stages are floats, whatever E is.
template <class E, template <int, int> class Rows, int n, int joint, int blocks, class WriterAs>
__device__ void finish(const ShortChain& chain, const Lines<n>& lines, const ConvParams& p, const WriterAs& writer_as,
                       float (&sums)[joint][blocks][n / 2]) {
  Rows<joint, blocks> rows;
  start_short(chain, p.out_channels, lines, sums, rows);
  if (OfOwnType<WriterAs> || sizeof(E) == sizeof(float) || p.to.dtype != CONVT_F32)
    finish_as<E, E>(chain, lines, p.vectors, writer_as, rows, sums);
  else if constexpr (!OfOwnType<WriterAs>)
    finish_as<E, float>(chain, lines, p.vectors, writer_as, rows, sums);
}

// What phases are folded into. Offsets of norms come at the end; where registers are short they are kept elsewhere.
template <int n>
struct Folded {
  float results[1][1][n / 2];
  float2& offset;

  __device__ Folded(const Fold& fold, float2& offset_) : offset(offset_) {
    offset = {0, 0};
#pragma unroll
    for (float& x : results[0][0]) x = fold.kind >= Fold::max ? -INFINITY : 0.0f;
  }
  __device__ void add(const PerRow<1, 1>& scale, const float (&x)[1][1][n / 2]) {
#pragma unroll
    for (int i = 0; i < n / 2; ++i) results[0][0][i] = fmaf(x[0][0][i], scale[0][0][i / 2 % 2], results[0][0][i]);
  }
  __device__ void add(const Shifted<1, 1>& rows, const float (&x)[1][1][n / 2]) {
    const float2 before = offset;
    offset = {before.x + rows.offset[0][0][0], before.y + rows.offset[0][0][1]};
    add(rows.scale, x);
  }
  // Of a bare norm.
  __device__ void add_norm(const ShortChain& chain, float (&x)[1][1][n / 2]) {
    Shifted<1, 1> rows;
    centre_at_once<n>(chain, x, rows);
    add(rows, x);
  }
  __device__ void add_greater(const float (&x)[1][1][n / 2]) {
#pragma unroll
    for (int i = 0; i < n / 2; ++i) results[0][0][i] = maximum(results[0][0][i], x[0][0][i]);
  }
  __device__ void end(const Fold& fold) {
    if (fold.kind != Fold::sum_of_bare_norm) return;
    const float2 all = offset;
#pragma unroll
    for (int i = 0; i < n / 2; ++i) results[0][0][i] += i / 2 % 2 == 0 ? all.x : all.y;
  }
};
// One phase, through its chain, into the results.
template <int n>
__device__ void fold_phase(const ConvParams& p, const Lines<n>& lines, float (&x)[1][1][n / 2], Folded<n>& folded) {
  const Fold::Kind kind = p.fold.kind;
  if (kind == Fold::sum_of_bare_norm) return folded.add_norm(p.quick, x);
  if (kind == Fold::max_of_sums) return folded.add_greater(x);
  float(&results)[n / 2] = folded.results[0][0];
  Centred<1, 1> rows;
  start_short(p.quick, p.out_channels, lines, x, rows);
  if (kind == Fold::sum_of_norm) return folded.add(rows.scale, x);
  if (p.quick.norm != 0) end_norm(rows, x);
  const auto into = [&](auto&& join) {
    for_columns<n>(n, x, [&](int i, Columns<1, 1>& ended) {
      end_columns(p.quick, lines, i, ended);
      if (p.quick.lines[ShortChain::last].there) apply_line(lines.at(ShortChain::last, i), ended);
#pragma unroll
      for (int k = 0; k < 4; ++k) results[4 * i + k] = join(results[4 * i + k], ended[0][0][k]);
    });
  };
  if (kind == Fold::max)
    into([](float a, float b) { return maximum(a, b); });
  else
    into([](float a, float b) { return a + b; });
}

// A strip of a power of 2 blocks' positions in memory that all consumers share.
template <int n>
__device__ Strip<float> strip_at(const ConvParams& p, const Item& item, int log_pixels, unsigned char* memory) {
  Strip<float> strip = strip_in<float>(memory, log_pixels);
  strip.data = reinterpret_cast<float*>(memory + strip_shared<float>(strip.pixels()));
  strip.pitch = strip.pixels() + 1;
  strip.first_channel = item.band * n;
  strip.channels = min(n, p.out_channels - item.band * n);
  return strip;
}

__device__ inline void run_strip(const ConvParams& p, const Strip<float>& strip) {
  sync_strip();
  run_chain(p.chain, strip, p.to);
  sync_strip();
}

// One block of each warpgroup.
template <int n>
__device__ void finish_in_strip(const ConvParams& p, const Item& item, int phase, const float (&sums)[n / 2],
                                unsigned char* memory) {
  const Strip<float> strip = strip_at<n>(p, item, 7, memory);
  const int group = threadIdx.x / group_threads;
  if (threadIdx.x < strip.pixels())
    const_cast<Pixel*>(strip.at)[threadIdx.x] =
        pixel_at(p, item, phase, threadIdx.x / block_rows, threadIdx.x % block_rows);
#pragma unroll
  for (int i = 0; i < n / 8; ++i)
#pragma unroll
    for (int k = 0; k < 4; ++k)
      strip(Sums<n>::column(i) + k % 2, group * block_rows + Sums<n>::row(k / 2)) = sums[4 * i + k];
  run_strip(p, strip);
}

}  // namespace convt::core::cuda::sm90
