// SPDX-License-Identifier: Apache-2.0
// The kernel, to the order that products read it in: for each split or group, class and block of rows, [depth][rows].
#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstring>
#include <iterator>
#include <new>
#include <span>

#include "cpu/convert.hpp"
#include "cpu/convolver.hpp"
#include "cpu/sizes.hpp"

namespace convt::core::cpu {
namespace {

constexpr std::int64_t most_block_rows = 16;  // of any instruction set

// Sees elements on their way and says whether all were finite: an exponent of ones, and no other, carries into the sign
// where a unit of it is added.
template <class E>
struct Exponent;
template <>
struct Exponent<float> {
  using Bits = std::uint32_t;
  static constexpr Bits all = 0x7f800000U, unit = 0x00800000U;
};
template <>
struct Exponent<double> {
  using Bits = std::uint64_t;
  static constexpr Bits all = 0x7ff0000000000000U, unit = 0x0010000000000000U;
};
template <>
struct Exponent<convt_f16> {
  using Bits = std::uint16_t;
  static constexpr Bits all = 0x7c00U, unit = 0x0400U;
};
template <>
struct Exponent<convt_bf16> {
  using Bits = std::uint16_t;
  static constexpr Bits all = 0x7f80U, unit = 0x0080U;
};
template <class E, std::size_t lanes = 1>
struct Watch {
  using Bits = typename Exponent<E>::Bits;
  Bits carries[lanes] = {};

  void see(E element, std::size_t lane = 0) {
    const auto exponent = static_cast<Bits>(std::bit_cast<Bits>(element) & Exponent<E>::all);
    carries[lane] = static_cast<Bits>(carries[lane] | (exponent + Exponent<E>::unit));
  }
  // A run of them, by vectors that every machine has.
  void see_run(const E* from, std::int64_t count) {
    using Vector [[gnu::vector_size(16)]] = Bits;
    constexpr auto together = static_cast<std::int64_t>(16 / sizeof(Bits));
    Vector carry = {};
    std::int64_t i = 0;
    for (; i + together <= count; i += together) {
      Vector elements;
      std::memcpy(&elements, from + i, sizeof elements);
      carry |= (elements & Exponent<E>::all) + Exponent<E>::unit;
    }
    for (std::int64_t lane = 0; lane < together; ++lane) carries[0] = static_cast<Bits>(carries[0] | carry[lane]);
    for (; i < count; ++i) see(from[i]);
  }
  bool finite() const {
    return std::all_of(std::begin(carries), std::end(carries),
                       [](Bits carry) { return carry >> (8 * sizeof(E) - 1) == 0; });
  }
};

// A block of rows of one class on its way into the packed weights: element (tap, row) of a channel comes from
// from[row], at the place that order[row] has for the tap.
template <class T, class E>
struct PackedBlock {
  std::int64_t rows = 0, taps = 0;
  bool adjacent = true;  // rows are elements that follow each other, as merged phases of W are
  std::array<const E*, most_block_rows> from;
  std::array<const std::int64_t*, most_block_rows> order;
  T* to = nullptr;
  Watch<E, 8> watch;

  // The most usual number of rows, in a loop that compilers make vectors of.
  static constexpr std::int64_t common_rows = 8;
  template <std::size_t count>
  void copy(const E* first, T* out) {
    for (std::size_t r = 0; r < count; ++r) out[r] = to_real<T>(first[r]);
    for (std::size_t r = 0; r < count; ++r) watch.see(first[r], r);
  }

  void pack_channel(std::int64_t offset) {
    if (adjacent) {
      for (std::int64_t t = 0; t < taps; ++t) {
        const E* const first = from[0] + offset + order[0][t];
        if (rows == common_rows)
          copy<common_rows>(first, to + t * common_rows);
        else
          for (std::int64_t r = 0; r < rows; ++r) {
            to[t * rows + r] = to_real<T>(first[r]);
            watch.see(first[r]);
          }
      }
    } else {
      for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
        const E* const its = from[r] + offset;
        const std::int64_t* const at = order[r];
        T* out = to + r;
        for (std::int64_t t = 0; t < taps; ++t, out += rows) {
          *out = to_real<T>(its[at[t]]);
          watch.see(its[at[t]]);
        }
      }
    }
    to += taps * rows;
  }
};

template <class T>
using LargestBlock = PackedBlock<T, double>;

// Input channels that one part packs: whole cache lines of the kernel are read once, while many classes take from them.
constexpr std::int64_t pack_channels = 16;

}  // namespace

template <class T>
std::int64_t Convolver<T>::pack_parts() const {
  const std::int64_t units =
      convolution_.groups > 1 ? convolution_.groups : splits() * ceil_div(blocking_.channels, blocking_.bundle);
  return units * ceil_div(ins_, pack_channels);
}

template <class T>
void Convolver<T>::make_room(PackSpace& space) const {
  const auto taps = static_cast<std::size_t>(volume(convolution_.kernel));
  const std::size_t bytes = classes_.size() * sizeof(LargestBlock<T>);
  if (space.places.size() < taps) space.places.resize(taps);
  if (space.blocks.size() < bytes) space.blocks.resize(bytes);
}

// Where no phases are merged: every tap of the kernel is one tap of one class, and all classes have the same rows.
template <class T>
template <class E>
bool Convolver<T>::pack_taps(const Bundle& bundle, const E* from) const {
  const std::int64_t taps = volume(convolution_.kernel), outs = bundle.outs.size();
  const Interval& ins = bundle.ins;
  const Rows rows = rows_of(classes_.front(), outs);
  bool finite = true;
  const std::span places(bundle.space.places.data(), static_cast<std::size_t>(taps));
  for (std::int64_t b = 0; b < rows.blocks; ++b) {
    const std::int64_t begin = rows.begin(b), count = rows.begin(b + 1) - begin;
    for (const Class& one : classes_)
      for (std::int64_t t = 0; t < one.taps; ++t)
        places[static_cast<std::size_t>(one.kernel_taps[static_cast<std::size_t>(t)])] = {
            bundle.to + outs * one.packed_before + (begin * ins_ + ins.begin * count) * one.taps + t * count,
            one.taps * count};
    const E* const first = from + (ins.begin * outs_ + begin) * taps;
    if constexpr (std::same_as<E, T>) {
      finite &= kernels_.pack_taps({first, ins.size(), outs_ * taps, count, taps, places.data()});
    } else {
      Watch<E> watch;
      for (std::int64_t c = 0; c < ins.size(); ++c) {
        const E* element = first + c * outs_ * taps;
        for (std::int64_t r = 0; r < count; ++r)
          for (const auto& place : places) place.at[c * place.step + r] = to_real<T>(*element++);
        watch.see_run(first + c * outs_ * taps, count * taps);
      }
      finite &= watch.finite();
    }
  }
  return finite;
}

// All classes take from a channel's taps while they are in cache.
template <class T>
template <class E>
bool Convolver<T>::pack_merged(const Bundle& bundle, const E* from) const {
  using Block = PackedBlock<T, E>;
  static_assert(sizeof(Block) <= sizeof(LargestBlock<T>) && std::is_trivially_destructible_v<Block>);
  bool finite = true;
  const std::int64_t taps = volume(convolution_.kernel), outs = bundle.outs.size();
  const Interval& ins = bundle.ins;
  auto* const blocks = reinterpret_cast<Block*>(bundle.space.blocks.data());
  for (std::int64_t b = 0;; ++b) {
    std::size_t count = 0;
    for (const Class& one : classes_) {
      const Rows rows = rows_of(one, outs);
      if (b >= rows.blocks) continue;
      Block& block = *new (blocks + count++) Block;
      block.rows = rows.begin(b + 1) - rows.begin(b);
      block.taps = one.taps;
      block.to = bundle.to + outs * one.packed_before + (rows.begin(b) * ins_ + ins.begin * block.rows) * one.taps;
      for (std::size_t r = 0; r < static_cast<std::size_t>(block.rows); ++r) {
        const std::int64_t row = rows.begin(b) + as_index(r);
        block.from[r] = from + row / one.phases * taps;
        block.order[r] = one.kernel_taps.data() + row % one.phases * one.taps;
        for (std::size_t t = 0; t < static_cast<std::size_t>(one.taps); ++t)
          block.adjacent &= block.from[r] + block.order[r][t] == block.from[0] + block.order[0][t] + r;
      }
    }
    if (count == 0) return finite;
    for (std::int64_t c = ins.begin; c < ins.end; ++c)
      for (Block& block : std::span(blocks, count)) block.pack_channel(c * outs_ * taps);
    for (const Block& block : std::span(blocks, count)) finite &= block.watch.finite();
  }
}

template <class T>
bool Convolver<T>::pack(const Kernel& kernel, std::int64_t part, T* packed) const {
  const std::int64_t chunks = ceil_div(ins_, pack_channels), unit = part / chunks;
  const Interval ins{part % chunks * pack_channels, std::min((part % chunks + 1) * pack_channels, ins_)};
  Interval outs{unit * outs_, (unit + 1) * outs_};
  if (convolution_.groups == 1) {
    const std::int64_t bundles = ceil_div(blocking_.channels, blocking_.bundle);
    outs = channels(unit / bundles);
    outs.begin += unit % bundles * blocking_.bundle;
    outs.end = std::min(outs.begin + blocking_.bundle, outs.end);
  }
  if (outs.size() <= 0) return true;
  PackSpace space;
  make_room(space);
  return pack_bundle({kernel, space, ins, outs, packed + outs.begin * packed_each_});
}

// Output channels of one group, some input channels of it.
template <class T>
bool Convolver<T>::pack_bundle(const Bundle& bundle) const {
  const Interval &ins = bundle.ins, &outs = bundle.outs;
  const std::int64_t group = outs.begin / outs_, taps = volume(convolution_.kernel);
  bool finite = true;
  visit_dtype(bundle.kernel.dtype, [&]<class E>(E*) {
    const E* const from =
        static_cast<const E*>(bundle.kernel.data) + (group * ins_ * outs_ + outs.begin % outs_) * taps;
    finite = blocking_.merged == 0 ? pack_taps(bundle, from) : pack_merged(bundle, from);
  });
  if (!finite) drop_nonfinite(ins, outs.size(), bundle.to);
  return finite;
}

// From what pack_bundle() packed.
template <class T>
void Convolver<T>::drop_nonfinite(const Interval& ins, std::int64_t outs, T* to) const {
  for (const Class& one : classes_) {
    const Rows rows = rows_of(one, outs);
    for (std::int64_t b = 0; b < rows.blocks; ++b) {
      const std::int64_t begin = rows.begin(b), count = rows.begin(b + 1) - begin;
      T* const block = to + outs * one.packed_before + (begin * ins_ + ins.begin * count) * one.taps;
      std::replace_if(
          block, block + ins.size() * count * one.taps, [](T weight) { return !std::isfinite(weight); }, T(0));
    }
  }
}

template std::int64_t Convolver<float>::pack_parts() const;
template std::int64_t Convolver<double>::pack_parts() const;
template bool Convolver<float>::pack(const Kernel&, std::int64_t, float*) const;
template bool Convolver<double>::pack(const Kernel&, std::int64_t, double*) const;
template bool Convolver<float>::pack_bundle(const Bundle&) const;
template bool Convolver<double>::pack_bundle(const Bundle&) const;
template void Convolver<float>::make_room(PackSpace&) const;
template void Convolver<double>::make_room(PackSpace&) const;

}  // namespace convt::core::cpu
