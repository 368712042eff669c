// SPDX-License-Identifier: Apache-2.0
// Register epilogues: they run a chain on the accumulators and pass the results to a writer.
#pragma once

#include "cuda/sm90/epilogue/activation.cuh"
#include "cuda/sm90/epilogue/norm.cuh"
#include "cuda/sm90/loader/element.cuh"

namespace convt::core::cuda::sm90 {

// Runs the chain up to its norm. end_norm() has to apply the norm's scale. Rows: Centred or Shifted.
template <int n, class Rows, int joint, int m_tiles>
__device__ void start_epilogue(const RegisterEpilogue& chain, int channels, const ScaleBiasTable<n>& table,
                               float (&x)[joint][m_tiles][n / 2], Rows& rows) {
  if (chain.without_affine) {
    if constexpr (Rows::at_once)
      return centre_at_once<n>(chain, x, rows);
    else
      return centre<n, true>(chain, channels, x, rows.scale);
  }
  if (chain.scale_bias[RegisterEpilogue::before_norm].present) {
#pragma unroll
    for (int i = 0; i < n / 8; ++i) apply_scale_bias(table.at(RegisterEpilogue::before_norm, i), x, 4 * i);
  }
  if (chain.norm == 0) return;
  centre<n, false>(chain, channels, x, rows.scale);
  if constexpr (Rows::at_once)
    for_each_row<joint, m_tiles>([&](int j, int b, int half) { rows.offset[j][b][half] = 0; });
}

// 8 columns of a thread's rows.
template <int joint, int m_tiles>
using Columns = float[joint][m_tiles][4];

template <int joint, int m_tiles>
__device__ void apply_relu(Columns<joint, m_tiles>& x) {
#pragma unroll
  for (auto& phase : x)
#pragma unroll
    for (auto& m_tile : phase)
#pragma unroll
      for (float& v : m_tile) v = maximum(v, 0.0f);
}

// Runs what follows the norm, except the last scale and bias, on the columns from 8*i on.
template <bool precise, int n, int joint, int m_tiles>
__device__ void end_columns(const RegisterEpilogue& chain, const ScaleBiasTable<n>& table, int i,
                            Columns<joint, m_tiles>& x) {
  if (chain.scale_bias[RegisterEpilogue::after_norm].present)
    apply_scale_bias(table.at(RegisterEpilogue::after_norm, i), x);
  with_activation(
      chain,
      [&] {
#pragma unroll
        for (auto& phase : x) {
          if constexpr (precise)
            apply_precise_gelu<4 * m_tiles>(phase[0]);
          else
            apply_gelu<gelu_degree, 4 * m_tiles>(chain.q, phase[0]);
        }
      },
      [&] { apply_relu(x); });
}

// Calls f(i, sums of the columns from 8*i on) up to the last channel, where the loop breaks. If columns were skipped
// one by one, the compiler would compute all predicates before the first, and keep them.
template <int n, int joint, int m_tiles, class F>
__device__ void for_columns(int channels, float (&sums)[joint][m_tiles][n / 2], F&& f) {
#pragma unroll
  for (int i = 0; i < n / 8; ++i) {
    if (8 * i >= channels) break;
    Columns<joint, m_tiles> x;
#pragma unroll
    for (int k = 0; k < joint * m_tiles * 4; ++k)
      x[k / 4 / m_tiles][k / 4 % m_tiles][k % 4] = sums[k / 4 / m_tiles][k / 4 % m_tiles][4 * i + k % 4];
    f(i, x);
  }
}

// Writers that leave no registers for shortcuts: with shortcuts, GELU took 1 % longer.
template <class WriterAs>
concept WithoutShortcuts = requires {
  requires WriterAs::without_shortcuts;
};

// Runs the rest of a chain after its norm: calls put_columns(end), where end(i, x) finishes the columns from 8*i on.
template <class E, class To, bool shortcuts, int n, class Rows, int joint, int m_tiles, class PutColumns>
__device__ void end_chain(const RegisterEpilogue& chain, const ScaleBiasTable<n>& table, const Rows& rows,
                          float (&sums)[joint][m_tiles][n / 2], const PutColumns& put_columns) {
  // Pairs of results are stored from neighbouring registers. A multiplication writes them there; sums would be moved.
  constexpr bool in_pairs = sizeof(To) == sizeof(float) && joint == 2;
  constexpr int degree = gelu_of_norm_fit<E>().degree;
  const auto put_gelu = [&]<int power>() {
    put_columns([&](int, Columns<joint, m_tiles>& x) { apply_gelu<power, 4 * m_tiles>(chain.q, x[0][0]); });
  };
  // Saves five branches for every 8 columns, some 50 clocks each.
  if (std::is_same_v<E, To> && (joint == 2 ? shortcuts : n < 64) && chain.empty)
    put_columns([](int, Columns<joint, m_tiles>&) {});
  else if (std::is_same_v<E, To> && joint == 2 && shortcuts && chain.only_relu)
    put_columns([](int, Columns<joint, m_tiles>& x) { apply_relu(x); });
  else if (std::is_same_v<E, To> && joint == 1 && chain.only_gelu)
    is_gelu_of_norm(chain) ? put_gelu.template operator()<degree>() : put_gelu.template operator()<gelu_degree>();
  else if (std::is_same_v<E, To> && is_gelu_of_norm(chain))
    put_columns([&](int, Columns<joint, m_tiles>& x) {
      end_norm(rows, x);
#pragma unroll
      for (auto& of_phase : x) apply_gelu<degree, 4 * m_tiles>(chain.q, of_phase[0]);
    });
  else {
    if (chain.norm != 0) end_norm(rows, sums);
    put_columns([&](int i, Columns<joint, m_tiles>& x) {
      end_columns<is_precise<E>>(chain, table, i, x);
      if (in_pairs || chain.scale_bias[RegisterEpilogue::last].present)
        apply_scale_bias(table.at(RegisterEpilogue::last, i), x);
    });
  }
}

// Ends the chain and stores results as To. Stores are in flight while the next columns are computed.
template <class E, class To, int n, class Rows, int joint, int m_tiles, class WriterAs>
__device__ void finish_as(const RegisterEpilogue& chain, const ScaleBiasTable<n>& table, bool vectors,
                          const WriterAs& writer_as, const Rows& rows, float (&sums)[joint][m_tiles][n / 2]) {
  const auto put_by = [&](int channels, auto&& end, auto&& put) {
    for_columns<n>(channels, sums, [&](int i, Columns<joint, m_tiles>& x) {
      end(i, x);
      put(i, x);
    });
  };
  if constexpr (joint == 1 && m_tiles == 1 && sizeof(To) == 2) {
    if (vectors) {
      auto writer = writer_as.template vectors<To>();
      end_chain<E, To, true>(chain, table, rows, sums, [&](auto&& end) {
        put_by(n, end, [&](int i, const Columns<joint, m_tiles>& x) { writer.put(i, x); });
        writer.end();
      });
      return;
    }
  }
  const auto writer = writer_as.template operator()<To>();
  end_chain<E, To, !WithoutShortcuts<WriterAs>>(chain, table, rows, sums, [&](auto&& end) {
    writer.with_put([&](auto&& put) { put_by(writer.channels(), end, put); });
  });
}

// Writers whose results always have the input's dtype: never floats between stages of a schedule.
template <class WriterAs>
concept OfOwnType = requires {
  requires WriterAs::own_type;
};

// Runs a register epilogue and gives its results to writer_as<To>(), 8 columns at a time, or to
// writer_as.vectors<To>(). Between stages of a schedule To is float, whatever E is.
template <class E, template <int, int> class Rows, int n, int joint, int m_tiles, class WriterAs>
__device__ void finish(const RegisterEpilogue& chain, const ScaleBiasTable<n>& table, const ConvParams& p,
                       const WriterAs& writer_as, float (&sums)[joint][m_tiles][n / 2]) {
  Rows<joint, m_tiles> rows;
  start_epilogue(chain, p.out_channels, table, sums, rows);
  if (OfOwnType<WriterAs> || sizeof(E) == sizeof(float) || p.to.dtype != CONVT_F32)
    finish_as<E, ResultOf<E>>(chain, table, p.vectors, writer_as, rows, sums);
  else if constexpr (!OfOwnType<WriterAs>)
    finish_as<E, float>(chain, table, p.vectors, writer_as, rows, sums);
}

}  // namespace convt::core::cuda::sm90
