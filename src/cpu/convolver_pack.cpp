// SPDX-License-Identifier: Apache-2.0
// The kernel, to the order that products read it in: for each split or group, class and block of rows, [depth][rows].
#include <algorithm>
#include <concepts>

#include "cpu/convert.hpp"
#include "cpu/convolver.hpp"
#include "cpu/sizes.hpp"

namespace convt::core::cpu {
namespace {

constexpr std::int64_t most_block_rows = 16;  // of any instruction set

// A block of rows of one class on its way into the packed weights: element (tap, row) of a channel comes from
// from[row], at the place that order[row] has for the tap.
template <class T, class E>
struct PackedBlock {
  std::int64_t rows = 0, taps = 0;
  bool adjacent = true;  // rows are elements that follow each other, as merged phases of W are
  std::array<const E*, most_block_rows> from;
  std::array<const std::int64_t*, most_block_rows> order;
  T* to = nullptr;

  // The most usual number of rows, in a loop that compilers make vectors of.
  static constexpr std::int64_t common_rows = 8;
  template <std::int64_t count>
  static void copy(const E* first, T* out) {
    for (std::int64_t r = 0; r < count; ++r) out[r] = to_real<T>(first[r]);
  }

  void pack_channel(std::int64_t offset) {
    if (adjacent) {
      for (std::int64_t t = 0; t < taps; ++t) {
        const E* const first = from[0] + offset + order[0][t];
        if (rows == common_rows)
          copy<common_rows>(first, to + t * common_rows);
        else
          for (std::int64_t r = 0; r < rows; ++r) to[t * rows + r] = to_real<T>(first[r]);
      }
    } else {
      for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
        const E* const its = from[r] + offset;
        const std::int64_t* const at = order[r];
        T* out = to + r;
        for (std::int64_t t = 0; t < taps; ++t, out += rows) *out = to_real<T>(its[at[t]]);
      }
    }
    to += taps * rows;
  }
};

// Input channels that one part packs: whole cache lines of the kernel are read once, while many classes take from them.
constexpr std::int64_t pack_channels = 16;

}  // namespace

template <class T>
std::int64_t Convolver<T>::pack_parts() const {
  const std::int64_t units =
      convolution_.groups > 1 ? convolution_.groups : splits() * ceil_div(blocking_.channels, blocking_.bundle);
  return units * ceil_div(ins_, pack_channels);
}

// Where no phases are merged: every tap of the kernel is one tap of one class, and all classes have the same rows.
template <class T>
template <class E>
void Convolver<T>::pack_taps(const E* from, const Interval& ins, std::int64_t outs, T* to) const {
  const std::int64_t taps = volume(convolution_.kernel);
  const Rows rows = rows_of(classes_.front(), outs);
  std::vector<typename PackTaps<T>::Place> places(static_cast<std::size_t>(taps));
  for (std::int64_t b = 0; b < rows.blocks; ++b) {
    const std::int64_t begin = rows.begin(b), count = rows.begin(b + 1) - begin;
    for (const Class& one : classes_)
      for (std::int64_t t = 0; t < one.taps; ++t)
        places[static_cast<std::size_t>(one.kernel_taps[static_cast<std::size_t>(t)])] = {
            to + outs * one.packed_before + (begin * ins_ + ins.begin * count) * one.taps + t * count,
            one.taps * count};
    const E* const first = from + (ins.begin * outs_ + begin) * taps;
    if constexpr (std::same_as<E, T>) {
      kernels_.pack_taps({first, ins.size(), outs_ * taps, count, taps, places.data()});
    } else {
      for (std::int64_t c = 0; c < ins.size(); ++c) {
        const E* element = first + c * outs_ * taps;
        for (std::int64_t r = 0; r < count; ++r)
          for (const auto& place : places) place.at[c * place.step + r] = to_real<T>(*element++);
      }
    }
  }
}

template <class T>
void Convolver<T>::pack(const Kernel& kernel, std::int64_t part, T* packed) const {
  const std::int64_t chunks = ceil_div(ins_, pack_channels), unit = part / chunks;
  const Interval ins{part % chunks * pack_channels, std::min((part % chunks + 1) * pack_channels, ins_)};
  Interval outs{unit * outs_, (unit + 1) * outs_};
  if (convolution_.groups == 1) {
    const std::int64_t bundles = ceil_div(blocking_.channels, blocking_.bundle);
    outs = channels(unit / bundles);
    outs.begin += unit % bundles * blocking_.bundle;
    outs.end = std::min(outs.begin + blocking_.bundle, outs.end);
  }
  if (outs.size() > 0) pack_bundle(kernel, ins, outs, packed + outs.begin * packed_each_);
}

// Output channels of one group, some input channels of it.
template <class T>
void Convolver<T>::pack_bundle(const Kernel& kernel, const Interval& ins, const Interval& outs, T* to) const {
  const std::int64_t group = outs.begin / outs_, taps = volume(convolution_.kernel);
  visit_dtype(kernel.dtype, [&]<class E>(E*) {
    const E* const from = static_cast<const E*>(kernel.data) + (group * ins_ * outs_ + outs.begin % outs_) * taps;
    if (blocking_.merged == 0) return pack_taps(from, ins, outs.size(), to);
    // All classes take from a channel's taps while they are in cache.
    std::vector<PackedBlock<T, E>> blocks;
    for (std::int64_t b = 0;; ++b) {
      blocks.clear();
      for (const Class& one : classes_) {
        const Rows rows = rows_of(one, outs.size());
        if (b >= rows.blocks) continue;
        PackedBlock<T, E>& block = blocks.emplace_back();
        block.rows = rows.begin(b + 1) - rows.begin(b);
        block.taps = one.taps;
        block.to = to + outs.size() * one.packed_before + (rows.begin(b) * ins_ + ins.begin * block.rows) * one.taps;
        for (std::size_t r = 0; r < static_cast<std::size_t>(block.rows); ++r) {
          const std::int64_t row = rows.begin(b) + as_index(r);
          block.from[r] = from + row / one.phases * taps;
          block.order[r] = one.kernel_taps.data() + row % one.phases * one.taps;
          for (std::size_t t = 0; t < static_cast<std::size_t>(one.taps); ++t)
            block.adjacent &= block.from[r] + block.order[r][t] == block.from[0] + block.order[0][t] + r;
        }
      }
      if (blocks.empty()) break;
      for (std::int64_t c = ins.begin; c < ins.end; ++c)
        for (PackedBlock<T, E>& block : blocks) block.pack_channel(c * outs_ * taps);
    }
  });
}

template std::int64_t Convolver<float>::pack_parts() const;
template std::int64_t Convolver<double>::pack_parts() const;
template void Convolver<float>::pack(const Kernel&, std::int64_t, float*) const;
template void Convolver<double>::pack(const Kernel&, std::int64_t, double*) const;
template void Convolver<float>::pack_bundle(const Kernel&, const Interval&, const Interval&, float*) const;
template void Convolver<double>::pack_bundle(const Kernel&, const Interval&, const Interval&, double*) const;

}  // namespace convt::core::cpu
