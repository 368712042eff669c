// SPDX-License-Identifier: Apache-2.0
// Pools: windows are folded along D and H by vectors over whole rows, then along W.
#pragma once

#include <algorithm>
#include <cassert>

#include "cpu/simd/ops-inl.hpp"
#include "cpu/tile.hpp"

HWY_BEFORE_NAMESPACE();
namespace convt::core::cpu::CONVT_ISA {
namespace {

// The windows of one axis.
struct WindowAxis {
  std::int64_t in, size, stride, padding;
  bool whole;  // padding counts

  std::int64_t start(std::int64_t out) const { return out * stride - padding; }
  std::int64_t begin(std::int64_t out) const { return std::max<std::int64_t>(start(out), 0); }
  // Compared by difference: start + size can pass 63 bits.
  std::int64_t end(std::int64_t out) const { return size < in - start(out) ? start(out) + size : in; }
  double counted(std::int64_t out) const {
    const std::int64_t left = in - start(out);  // in + padding - start(out) can pass 63 bits too
    return static_cast<double>(whole ? (size - padding <= left ? size : left + padding) : end(out) - begin(out));
  }
};

// The windows of one output row, in one channel of the tile pooled from.
template <class T>
struct PoolRow {
  const T* from;
  const Box* box;
  std::int64_t z_begin, z_end, y_begin, y_end;  // in the image
  double counted;                               // along D and H
};

// A part of a row of outputs: [out, end), the inputs under them, folded along D and H, and what each divides by along
// W. Elements outside the image are start(), so that every window is whole.
template <class T>
struct PoolStrip {
  static constexpr std::int64_t most = 1024;
  const WindowAxis* w;
  std::int64_t out, end;
  T folded[most + 3 * Values<T>::lanes] = {};  // vectors may be read behind the last window
  T counted[most + Values<T>::lanes] = {};

  std::int64_t first() const { return w->start(out); }
  std::int64_t begin() const { return w->begin(out); }
};

template <class V>
struct WholeVector {
  static HWY_INLINE V load(const typename V::Lane* from) { return V::load(from); }
};

// Folds along D and H, from `first` on in each row; of many rows, in parts, since a sum's error grows with its length.
template <class V, class Access, class Op, class T>
HWY_INLINE V fold_window(const Op& op, const Access& access, const PoolRow<T>& row, const T* first) {
  constexpr std::int64_t part_rows = 128;
  const Axes& size = row.box->size;
  V folded = op.template start<V>(), part = folded;
  std::int64_t rows = 0;
  for (std::int64_t z = row.z_begin; z < row.z_end; ++z) {
    const T* line = first + ((z - row.box->origin[0]) * size[1] + row.y_begin - row.box->origin[1]) * size[2];
    for (std::int64_t y = row.y_begin; y < row.y_end; ++y, line += size[2]) {
      part = op.join(part, access.load(line));
      if (++rows % part_rows != 0) continue;
      folded = op.join(folded, part);
      part = op.template start<V>();
    }
  }
  return rows < part_rows ? part : op.join(folded, part);
}
// The same for [begin, end) of W. Up to a vector behind `to` is written.
template <class T, class Op>
HWY_NOINLINE void fold_rows(const Op op, const PoolRow<T>& row, std::int64_t begin, std::int64_t end, T* to) {
  using V = Values<T>;
  const T* const first = row.from + (begin - row.box->origin[2]);
  const std::int64_t count = end - begin;
  std::int64_t i = 0;
  for (; i + Four<T>::lanes <= count; i += Four<T>::lanes)
    fold_window<Four<T>>(op, WholeVector<Four<T>>(), row, first + i).store(to + i);
  for (; i + V::lanes <= count; i += V::lanes) fold_window<V>(op, WholeVector<V>(), row, first + i).store(to + i);
  if (i < count) fold_window<V>(op, Part<T>(count - i), row, first + i).store(to + i);
}

// Folds elements 0, stride, 2*stride... of `from` with their `size - 1` successors each.
template <int stride, class T, class Op>
HWY_INLINE Values<T> fold_apart(const Op& op, const T* from, std::int64_t size) {
  using V = Values<T>;
  V folded = op.template start<V>();
  std::int64_t k = 0;
#if HWY_TARGET != HWY_SCALAR
  const typename V::Tag tag;
  if constexpr (stride == 2)
    for (; k + 2 <= size; k += 2) {
      typename V::Raw a, b;
      hn::LoadInterleaved2(tag, from + k, a, b);
      folded = op.join(folded, op.join(V(a), V(b)));
    }
  if constexpr (stride == 3)
    for (; k + 3 <= size; k += 3) {
      typename V::Raw a, b, c;
      hn::LoadInterleaved3(tag, from + k, a, b, c);
      folded = op.join(folded, op.join(op.join(V(a), V(b)), V(c)));
    }
  for (; k < size; ++k) {
    typename V::Raw a = hn::LoadU(tag, from + k), b = a, c = a;
    if constexpr (stride == 2) hn::LoadInterleaved2(tag, from + k, a, b);
    if constexpr (stride == 3) hn::LoadInterleaved3(tag, from + k, a, b, c);
    folded = op.join(folded, V(a));
  }
#else
  for (; k < size; ++k) folded = op.join(folded, V::load(from + k));
#endif
  return folded;
}

template <int stride, class T, class Op>
HWY_NOINLINE void pool_vectors(const Op op, const PoolRow<T>& row, const PoolStrip<T>& strip, T* to) {
  using V = Values<T>;
  const V count(row.counted);
  const std::int64_t outputs = strip.end - strip.out;
  for (std::int64_t i = 0; i < outputs; i += V::lanes) {
    const V folded = fold_apart<stride>(op, strip.folded + i * stride, strip.w->size);
    const V result = op.result(folded, count * V::load(strip.counted + i));
    if (outputs - i >= V::lanes)
      result.store(to + i);
    else
      Part<T>(outputs - i).store(result, to + i);
  }
}

#if HWY_TARGET != HWY_SCALAR
// Windows of two along W, two apart and inside the image: folded in registers.
template <class T, class Op>
HWY_NOINLINE void pool_pairs(const Op op, const PoolRow<T>& row, const PoolStrip<T>& strip, T* to) {
  using V = Values<T>;
  const typename V::Tag tag;
  const V count(row.counted);
  const T* const first = row.from + (strip.first() - row.box->origin[2]);
  const auto join_pairs = [&](V a, V b) HWY_ATTR {
    return op.join(V(hn::ConcatEven(tag, b.raw, a.raw)), V(hn::ConcatOdd(tag, b.raw, a.raw)));
  };
  std::int64_t i = 0;
  const std::int64_t outputs = strip.end - strip.out;
  for (; i + V::lanes <= outputs; i += V::lanes) {
    const auto folded = fold_window<Pair<V>>(op, WholeVector<Pair<V>>(), row, first + 2 * i);
    op.result(join_pairs(folded.low, folded.high), count * V::load(strip.counted + i)).store(to + i);
  }
  if (i == outputs) return;
  const std::int64_t inputs = 2 * (outputs - i), second = std::max<std::int64_t>(inputs - V::lanes, 0);
  const V low = fold_window<V>(op, Part<T>(inputs - second), row, first + 2 * i);
  const V high = second == 0 ? low : fold_window<V>(op, Part<T>(second), row, first + 2 * i + V::lanes);
  Part<T>(outputs - i).store(op.result(join_pairs(low, high), count * V::load(strip.counted + i)), to + i);
}
#endif

template <class T, class Op>
void pool_one_by_one(const Op& op, const PoolRow<T>& row, const PoolStrip<T>& strip, T* to) {
  for (std::int64_t i = 0; i < strip.end - strip.out; ++i) {
    T result = op.template start<T>();
    for (std::int64_t k = 0; k < strip.w->size; ++k) result = op.join(result, strip.folded[i * strip.w->stride + k]);
    to[i] = op.result(result, static_cast<T>(row.counted) * strip.counted[i]);
  }
}

template <class T, class Op>
HWY_NOINLINE T fold_pixels(const Op op, const T* x, std::int64_t count) {
  using V = Values<T>;
  // A sum's parts stay short: its error grows with the longest.
  constexpr std::int64_t block = 32 * Four<T>::lanes;
  T result = op.template start<T>();
  while (count >= V::lanes) {
    std::int64_t i = 0;
    Four<T> many(op.template start<Four<T>>());
    for (; i + Four<T>::lanes <= std::min(count, block); i += Four<T>::lanes)
      many = op.join(many, Four<T>::load(x + i));
    V folded = op.join(op.join(many.low.low, many.low.high), op.join(many.high.low, many.high.high));
    if (i < block)
      for (; i + V::lanes <= count; i += V::lanes) folded = op.join(folded, V::load(x + i));
    T lanes[V::lanes];
    folded.store(lanes);
    for (std::int64_t half = V::lanes / 2; half > 0; half /= 2)
      for (std::int64_t k = 0; k < half; ++k) lanes[k] = op.join(lanes[k], lanes[k + half]);
    result = op.join(result, lanes[0]);
    x += i;
    count -= i;
  }
  for (std::int64_t i = 0; i < count; ++i) result = op.join(result, x[i]);
  return result;
}

// One output whose window is longer than a strip.
template <class T, class Op>
T pool_long_window(const Op& op, const PoolRow<T>& row, PoolStrip<T>& strip) {
  T result = op.template start<T>();
  const std::int64_t end = strip.w->end(strip.out);
  for (std::int64_t x = strip.begin(); x < end; x += strip.most) {
    const std::int64_t stop = std::min(x + strip.most, end);
    fold_rows(op, row, x, stop, strip.folded);
    result = op.join(result, fold_pixels(op, strip.folded, stop - x));
  }
  return op.result(result, static_cast<T>(row.counted) * strip.counted[0]);
}

template <class T, class Op>
void pool_row(const Op& op, const PoolRow<T>& row, PoolStrip<T>& strip, T* to) {
  const WindowAxis& w = *strip.w;
  if (w.size > strip.most) {
    *to = pool_long_window(op, row, strip);
    return;
  }
  const std::int64_t first = strip.first(), end = w.end(strip.end - 1);
  const std::int64_t behind = w.start(strip.end - 1) + w.size;
#if HWY_TARGET != HWY_SCALAR
  if (w.size == 2 && w.stride == 2 && first >= 0 && end == behind) return pool_pairs(op, row, strip, to);
#endif
  std::fill(strip.folded, strip.folded + (strip.begin() - first), op.template start<T>());
  fold_rows(op, row, strip.begin(), end, strip.folded + (strip.begin() - first));
  std::fill(strip.folded + (end - first), strip.folded + (behind - first), op.template start<T>());
  switch (w.stride) {
    case 1:
      return pool_vectors<1>(op, row, strip, to);
    case 2:
      return pool_vectors<2>(op, row, strip, to);
    case 3:
      return pool_vectors<3>(op, row, strip, to);
    default:
      return pool_one_by_one(op, row, strip, to);
  }
}

template <class T, class Op>
void pool_op(const Op& op, const Step& step, const Tile<T>& from, const Tile<T>& to) {
  const auto [size, stride, padding] = windows_of(op, step.in);
  WindowAxis axes[3];
  for (std::size_t i = 0; i < 3; ++i)
    axes[i] = {step.in.space[i], size[i], stride[i], padding[i], op.divides_by_whole_window()};
  const auto& [d_axis, h_axis, w_axis] = axes;
  const Axes &first = to.box.origin, &count = to.box.size;
  PoolStrip<T> strip{&w_axis, first[2], first[2]};
  while (strip.end < first[2] + count[2]) {
    strip.out = strip.end;
    const std::int64_t more = std::max<std::int64_t>(strip.most - w_axis.size, 0) / w_axis.stride;
    strip.end = std::min(strip.out + 1 + more, first[2] + count[2]);
    for (std::int64_t out = strip.out; out < strip.end; ++out)
      strip.counted[out - strip.out] = static_cast<T>(w_axis.counted(out));
    for (std::int64_t c = 0; c < to.channels; ++c) {
      T* row = to.data + c * to.channel_step + (strip.out - first[2]);
      for (std::int64_t d = first[0]; d < first[0] + count[0]; ++d)
        for (std::int64_t h = first[1]; h < first[1] + count[1]; ++h, row += count[2])
          pool_row(op,
                   PoolRow<T>{from.data + c * from.channel_step, &from.box, d_axis.begin(d), d_axis.end(d),
                              h_axis.begin(h), h_axis.end(h), d_axis.counted(d) * h_axis.counted(h)},
                   strip, row);
    }
  }
}

// Calls f with the twin of a step's pool.
template <class F>
void visit_pool(const Step& step, F&& f) {
  visit_twin(std::get<Op>(step.what), [&]<class O>(const O& op) {
    if constexpr (std::derived_from<O, Pool>)
      f(op);
    else
      assert(false && "a step that is no pool");
  });
}

template <class T>
void pool(const Step& step, const Tile<T>& from, const Tile<T>& to) {
  visit_pool(step, [&](const auto& op) { pool_op(op, step, from, to); });
}

// ---- Over the whole image.

template <class T>
void fold(const Step& step, const Tile<T>& tile, T* folded) {
  visit_pool(step, [&](const auto& op) {
    for (std::int64_t c = 0; c < tile.channels; ++c)
      folded[c] = fold_pixels(op, tile.data + c * tile.channel_step, tile.box.pixels());
  });
}

template <class T, class Op>
void join_op(const Op& op, const T* other, T* folded, std::int64_t channels) {
  for (std::int64_t c = 0; c < channels; ++c) folded[c] = op.join(folded[c], other[c]);
}
template <class T>
void join(const Step& step, const T* other, T* folded, std::int64_t channels) {
  visit_pool(step, [&](const auto& op) { join_op(op, other, folded, channels); });
}

template <class T, class Op>
void result_op(const Op& op, T* folded, std::int64_t channels, double count) {
  for (std::int64_t c = 0; c < channels; ++c) folded[c] = op.result(folded[c], static_cast<T>(count));
}
template <class T>
void result(const Step& step, T* folded, std::int64_t channels, double count) {
  visit_pool(step, [&](const auto& op) { result_op(op, folded, channels, count); });
}

}  // namespace
}  // namespace convt::core::cpu::CONVT_ISA
HWY_AFTER_NAMESPACE();
