// SPDX-License-Identifier: Apache-2.0
// Boxes of images in the caller's memory to and from rows of T.
#pragma once

#include <hwy/cache_control.h>

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "cpu/kernels.hpp"
#include "cpu/simd/convert-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace convt::core::cpu::CONVT_ISA {
namespace {

// A box of an image, where rows that follow each other on both sides have become one.
struct Place {
  Axes space;
  Box box;
  std::int64_t plane_step = 0, row_step = 0;

  Place(const Axes& image, const Box& of, std::int64_t plane, std::int64_t row)
      : space(image), box(of), plane_step(plane), row_step(row) {
    if (joins(2) && row_step == box.size[2]) {
      join(1);
      row_step = plane_step;
      if (joins(2) && plane_step == box.size[2]) join(0);
    }
  }

  // Pixels of the row from which on, and up to which, it lies in the image.
  std::int64_t begin() const { return std::clamp<std::int64_t>(-box.origin[2], 0, box.size[2]); }
  std::int64_t end() const { return std::clamp<std::int64_t>(space[2] - box.origin[2], begin(), box.size[2]); }
  bool has_row(std::int64_t d, std::int64_t h) const {
    const std::int64_t z = box.origin[0] + d, y = box.origin[1] + h;
    return z >= 0 && z < space[0] && y >= 0 && y < space[1];
  }
  // The first row of the box that lies in the image, as far as D and H tell.
  Axes first_row() const {
    return {std::max<std::int64_t>(-box.origin[0], 0), std::max<std::int64_t>(-box.origin[1], 0), 0};
  }
  // The image's pixel where the row's part in the image begins; of a row that the image has.
  std::int64_t pixel(std::int64_t d, std::int64_t h) const {
    return ((box.origin[0] + d) * space[1] + box.origin[1] + h) * space[2] + box.origin[2] + begin();
  }
  std::int64_t row(std::int64_t d, std::int64_t h) const { return d * plane_step + h * row_step; }

 private:
  bool joins(std::size_t axis) const { return box.origin[axis] == 0 && box.size[axis] == space[axis]; }
  void join(std::size_t axis) {
    box.origin[2] = box.origin[axis] * space[2];
    box.size[2] *= box.size[axis];
    space[2] *= space[axis];
    box.origin[axis] = 0;
    box.size[axis] = space[axis] = 1;
  }
};

template <class T>
HWY_INLINE void zero(T* to, std::int64_t count) {
  using V = Values<T>;
  std::int64_t i = 0;
  for (; i + V::lanes <= count; i += V::lanes) V(0.0).store(to + i);
  for (; i < count; ++i) to[i] = 0;
}

// ---- Channels first.

// Asks for a row that will be read soon: short rows far apart are nothing that hardware sees coming.
template <class Stored>
HWY_INLINE void fetch(const Stored* row, std::int64_t count) {
  constexpr std::int64_t line = 64 / sizeof(Stored), most = 8;  // longer rows hardware does see
  for (std::int64_t i = 0; i < std::min(count, most * line); i += line) hwy::Prefetch(row + i);
}

template <class T, class Stored>
void read_first(const ImageView& image, const Window& window, T* to) {
  const Place place(image.space, window.box, window.plane_step, window.row_step);
  const std::int64_t begin = place.begin(), end = place.end(), width = place.box.size[2], pixels = volume(image.space);
  const auto* const data = static_cast<const Stored*>(image.data);
  const RowReader<T, Stored> read_row{end - begin, data + image.channels * pixels};
  // Counted from a row in the image: the pixel of one far outside can pass 63 bits.
  const Axes inside = place.first_row();
  const bool any = begin != end && place.has_row(inside[0], inside[1]);
  const std::int64_t first = any ? place.pixel(inside[0], inside[1]) : 0, plane = place.space[1] * place.space[2];
  for (std::int64_t c = 0; c < window.channels; ++c) {
    const Stored* const channel = data + (window.first_channel + c) * pixels;
    T* const rows = to + c * window.channel_step;
    for (std::int64_t d = 0; d < place.box.size[0]; ++d)
      for (std::int64_t h = 0; h < place.box.size[1]; ++h) {
        T* const row = rows + place.row(d, h);
        if (begin == end || !place.has_row(d, h)) {
          zero(row, width);
          continue;
        }
        const Stored* const from = channel + first + (d - inside[0]) * plane + (h - inside[1]) * place.space[2];
        zero(row, begin);
        if (c + 1 < window.channels) fetch(from + pixels, end - begin);
        read_row(from, row + begin);
        zero(row + end, width - end);
      }
  }
}

// A tile's place in its image, where it lies as a whole.
template <class T>
Place place_of(const Tile<T>& tile, const ImageView& image) {
  const Axes& size = tile.box.size;
  return Place(image.space, tile.box, size[1] * size[2], size[2]);
}

// Past the caches: whole vectors at aligned places. What is left at both ends is stored as usual: the rest of its cache
// line comes from elsewhere.
template <class T>
struct RowStreamer {
  std::int64_t count;

  HWY_INLINE void operator()(const T* from, T* to) const {
    using V = Values<T>;
    constexpr auto line = static_cast<std::uintptr_t>(V::lanes) * sizeof(T);
    const std::uintptr_t past = reinterpret_cast<std::uintptr_t>(to) % line;
    std::int64_t i = 0;
    if (past != 0) {
      i = std::min(count, static_cast<std::int64_t>((line - past) / sizeof(T)));
      const Part<T> part(i);
      part.store(part.load(from), to);
    }
    for (; i + V::lanes <= count; i += V::lanes) hn::Stream(V::load(from + i).raw, typename V::Tag(), to + i);
    if (i == count) return;
    const Part<T> part(count - i);
    part.store(part.load(from + i), to + i);
  }
};

template <class T, class Stored, class Writer>
void write_rows(const Tile<T>& tile, const ImageView& image, const Place& place, const Writer& write_row) {
  const std::int64_t pixels = volume(image.space);
  for (std::int64_t c = 0; c < tile.channels; ++c) {
    Stored* const channel = static_cast<Stored*>(image.data) + (tile.first_channel + c) * pixels;
    const T* const rows = tile.data + c * tile.channel_step;
    for (std::int64_t d = 0; d < place.box.size[0]; ++d)
      for (std::int64_t h = 0; h < place.box.size[1]; ++h)
        write_row(rows + place.row(d, h), channel + place.pixel(d, h));
  }
}

template <class T, class Stored>
void write_first(const Tile<T>& tile, const ImageView& image) {
  const Place place = place_of(tile, image);
  if constexpr (std::same_as<T, Stored>)
    if (image.stream) {
      write_rows<T, Stored>(tile, image, place, RowStreamer<T>{place.box.size[2]});
      hwy::FlushStream();
      return;
    }
  write_rows<T, Stored>(tile, image, place, RowWriter<T, Stored>{place.box.size[2]});
}

// ---- Channels last: the transpose of a matrix, in squares of 16 bytes.

template <class Data>
struct Matrix {
  Data* data;
  std::int64_t step;  // from row to row
};

#if HWY_TARGET == HWY_SCALAR
template <class T>
inline constexpr std::int64_t square = 1;

template <class T, class From, class To>
HWY_INLINE void transpose_square(Matrix<const From> from, Matrix<To> to) {
  store_one<T>(load_one<T>(from.data), to.data);
}
#else
template <class T>
inline constexpr std::int64_t square = 16 / sizeof(T);

template <class T, class From, class To>
HWY_INLINE void transpose_square(Matrix<const From> from, Matrix<To> to) {
  const hn::FixedTag<T, 16 / sizeof(T)> tag;
  const auto a = load_as(tag, from.data), b = load_as(tag, from.data + from.step);
  if constexpr (square<T> == 2) {
    store_as(tag, hn::InterleaveLower(tag, a, b), to.data);
    store_as(tag, hn::InterleaveUpper(tag, a, b), to.data + to.step);
  } else {
    const auto c = load_as(tag, from.data + 2 * from.step), d = load_as(tag, from.data + 3 * from.step);
    const auto ab = hn::InterleaveLower(tag, a, b), cd = hn::InterleaveLower(tag, c, d);
    const auto ab_upper = hn::InterleaveUpper(tag, a, b), cd_upper = hn::InterleaveUpper(tag, c, d);
    store_as(tag, hn::ConcatLowerLower(tag, cd, ab), to.data);
    store_as(tag, hn::ConcatUpperUpper(tag, cd, ab), to.data + to.step);
    store_as(tag, hn::ConcatLowerLower(tag, cd_upper, ab_upper), to.data + 2 * to.step);
    store_as(tag, hn::ConcatUpperUpper(tag, cd_upper, ab_upper), to.data + 3 * to.step);
  }
}
#endif

// to[j][i] = from[i][j] for i < rows, j < columns.
template <class T, class From, class To>
void transpose(Matrix<const From> from, Matrix<To> to, std::int64_t rows, std::int64_t columns) {
  // A cache line of either side is used whole before it can be lost.
  constexpr std::int64_t line = 64 / sizeof(T);
  const auto from_at = [&](std::int64_t i, std::int64_t j) { return from.data + i * from.step + j; };
  const auto to_at = [&](std::int64_t i, std::int64_t j) { return to.data + j * to.step + i; };
  for (std::int64_t first = 0; first < columns; first += line) {
    const std::int64_t last = std::min(first + line, columns);
    for (std::int64_t i = 0; i < rows; i += square<T>) {
      std::int64_t j = first;
      if (i + square<T> <= rows)
        for (; j + square<T> <= last; j += square<T>)
          transpose_square<T, From, To>({from_at(i, j), from.step}, {to_at(i, j), to.step});
      for (; j < last; ++j)
        for (std::int64_t k = i; k < std::min(i + square<T>, rows); ++k)
          store_one<T>(load_one<T>(from_at(k, j)), to_at(k, j));
    }
  }
}

template <class T, class Stored>
void read_last(const ImageView& image, const Window& window, T* to) {
  const Place place(image.space, window.box, window.plane_step, window.row_step);
  const std::int64_t begin = place.begin(), end = place.end(), width = place.box.size[2];
  const Stored* const data = static_cast<const Stored*>(image.data) + window.first_channel;
  for (std::int64_t d = 0; d < place.box.size[0]; ++d)
    for (std::int64_t h = 0; h < place.box.size[1]; ++h) {
      T* const row = to + place.row(d, h);
      const bool inside = begin != end && place.has_row(d, h);
      for (std::int64_t c = 0; c < window.channels; ++c) {
        zero(row + c * window.channel_step, inside ? begin : width);
        if (inside) zero(row + c * window.channel_step + end, width - end);
      }
      if (inside)
        transpose<T, Stored, T>({data + place.pixel(d, h) * image.pixel_step(), image.pixel_step()},
                                {row + begin, window.channel_step}, end - begin, window.channels);
    }
}

template <class T, class Stored>
void write_last(const Tile<T>& tile, const ImageView& image) {
  const Place place = place_of(tile, image);
  Stored* const data = static_cast<Stored*>(image.data) + tile.first_channel;
  for (std::int64_t d = 0; d < place.box.size[0]; ++d)
    for (std::int64_t h = 0; h < place.box.size[1]; ++h)
      transpose<T, T, Stored>({tile.data + place.row(d, h), tile.channel_step},
                              {data + place.pixel(d, h) * image.pixel_step(), image.pixel_step()}, tile.channels,
                              place.box.size[2]);
}

// ----

template <class T>
void read(const ImageView& image, const Window& window, T* to) {
  visit_dtype(image.dtype, [&]<class Stored>(Stored*) {
    if constexpr (StoredFor<Stored, T>)
      image.layout == CONVT_CHANNELS_FIRST ? read_first<T, Stored>(image, window, to)
                                           : read_last<T, Stored>(image, window, to);
    else
      assert(false && "an element type that T is not computed for");
  });
}

template <class T>
void write(const Tile<T>& tile, const ImageView& image) {
  visit_dtype(image.dtype, [&]<class Stored>(Stored*) {
    if constexpr (StoredFor<Stored, T>)
      image.layout == CONVT_CHANNELS_FIRST ? write_first<T, Stored>(tile, image) : write_last<T, Stored>(tile, image);
    else
      assert(false && "an element type that T is not computed for");
  });
}

}  // namespace
}  // namespace convt::core::cpu::CONVT_ISA
HWY_AFTER_NAMESPACE();
