// SPDX-License-Identifier: Apache-2.0
// Reading and writing tensors on the CPU, for every instruction set that this machine has: every element type, layout
// and place, and every conversion that there is, or many.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "support/kernels.hpp"

namespace convt::core::cpu {
namespace {

template <class T>
std::vector<convt_dtype> dtypes_of() {
  return sizeof(T) == sizeof(float) ? std::vector{CONVT_F32, CONVT_F16, CONVT_BF16} : std::vector{CONVT_F64, CONVT_F32};
}

// An image of small whole numbers, which every type has.
struct Stored {
  ImageView view;
  std::vector<double> values;  // [channel][pixel]
  std::vector<std::byte> bytes;

  std::size_t place(std::int64_t c, std::int64_t pixel) const {
    const bool last = view.layout == CONVT_CHANNELS_LAST;
    return static_cast<std::size_t>(last ? pixel * view.channels + c : c * volume(view.space) + pixel);
  }
  double at(std::int64_t c, std::int64_t pixel) const {
    return visit_dtype(view.dtype, [&]<class E>(E*) {
      E element;
      std::memcpy(&element, bytes.data() + place(c, pixel) * sizeof(E), sizeof(E));
      return to_double(element);
    });
  }
};
Stored random_image(convt_dtype dtype, convt_layout layout, std::int64_t channels, const Axes& space) {
  Stored image;
  image.view = {nullptr, dtype, layout, channels, space};
  image.bytes.resize(static_cast<std::size_t>(channels * volume(space)) * size_of(dtype));
  image.view.data = image.bytes.data();
  visit_dtype(dtype, [&]<class E>(E*) {
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t p = 0; p < volume(space); ++p) {
        const E element = from_double<E>(static_cast<double>(draw(-100, 100)));
        std::memcpy(image.bytes.data() + image.place(c, p) * sizeof(E), &element, sizeof(E));
        image.values.push_back(to_double(element));
      }
  });
  return image;
}

template <class T>
void check_read(const ChainKernels<T>& kernels, convt_dtype dtype, convt_layout layout) {
  const Axes space{draw(1, 3), draw(1, 5), draw(1, 70)};
  const Stored image = random_image(dtype, layout, draw(1, 40), space);
  Window window;
  window.first_channel = draw(0, image.view.channels - 1);
  window.channels = draw(1, image.view.channels - window.first_channel);
  for (std::size_t i = 0; i < 3; ++i) {
    const bool whole = draw(0, 2) == 0;
    window.box.origin[i] = whole ? 0 : draw(-3, space[i] - 1);
    window.box.size[i] = whole ? space[i] : draw(1, space[i] + 4);
  }
  const Axes& size = window.box.size;
  window.row_step = size[2] + draw(0, 1) * 3;
  window.plane_step = size[1] * window.row_step + draw(0, 1) * 2;
  window.channel_step = size[0] * window.plane_step + draw(0, 1) * 5;
  std::vector<T> to(static_cast<std::size_t>(window.channels * window.channel_step + 64), T(77));
  std::vector<T> expected = to;
  for (std::int64_t c = 0; c < window.channels; ++c)
    for (std::int64_t d = 0; d < size[0]; ++d)
      for (std::int64_t h = 0; h < size[1]; ++h)
        for (std::int64_t w = 0; w < size[2]; ++w) {
          const Axes at{window.box.origin[0] + d, window.box.origin[1] + h, window.box.origin[2] + w};
          bool inside = true;
          for (std::size_t i = 0; i < 3; ++i) inside = inside && at[i] >= 0 && at[i] < space[i];
          const std::int64_t pixel = (at[0] * space[1] + at[1]) * space[2] + at[2];
          const std::int64_t place = c * window.channel_step + d * window.plane_step + h * window.row_step + w;
          expected[static_cast<std::size_t>(place)] =
              inside ? static_cast<T>(image.at(window.first_channel + c, pixel)) : T(0);
        }
  kernels.read(image.view, window, to.data());
  ASSERT_EQ(to, expected);
}

template <class T>
void check_write(const ChainKernels<T>& kernels, convt_dtype dtype, convt_layout layout) {
  const Axes space{draw(1, 3), draw(1, 5), draw(1, 70)};
  const Stored before = random_image(dtype, layout, draw(1, 40), space);
  Stored after = before;
  after.view.data = after.bytes.data();
  Tile<T> tile;
  tile.first_channel = draw(0, before.view.channels - 1);
  tile.channels = draw(1, before.view.channels - tile.first_channel);
  for (std::size_t i = 0; i < 3; ++i) {
    const bool whole = draw(0, 2) == 0;
    tile.box.origin[i] = whole ? 0 : draw(0, space[i] - 1);
    tile.box.size[i] = draw(1, space[i] - tile.box.origin[i]);
    if (whole) tile.box.size[i] = space[i];
  }
  tile.channel_step = tile.box.pixels() + draw(0, 1) * 3;
  std::vector<T> from(static_cast<std::size_t>(tile.channels * tile.channel_step));
  for (T& x : from) x = static_cast<T>(draw(-100, 100));
  tile.data = from.data();
  kernels.write(tile, after.view);
  for (std::int64_t c = 0; c < before.view.channels; ++c)
    for (std::int64_t p = 0; p < volume(space); ++p) {
      const Axes at{p / (space[1] * space[2]), p / space[2] % space[1], p % space[2]};
      bool inside = c >= tile.first_channel && c < tile.first_channel + tile.channels;
      for (std::size_t i = 0; i < 3; ++i)
        inside = inside && at[i] >= tile.box.origin[i] && at[i] < tile.box.origin[i] + tile.box.size[i];
      double expected = before.at(c, p);
      if (inside) {
        const auto& [d, h, w] = tile.box.origin;
        const std::int64_t place = ((at[0] - d) * tile.box.size[1] + at[1] - h) * tile.box.size[2] + at[2] - w;
        expected = from[static_cast<std::size_t>((c - tile.first_channel) * tile.channel_step + place)];
      }
      ASSERT_EQ(after.at(c, p), expected) << "channel " << c << " pixel " << p;
    }
}

TEST(CpuRows, ReadAndWriteEverywhere) {
  for_each_isa([&]<class T>(const Isa& isa, T) {
    for (const convt_dtype dtype : dtypes_of<T>())
      for (const convt_layout layout : {CONVT_CHANNELS_FIRST, CONVT_CHANNELS_LAST}) {
        SCOPED_TRACE(std::string(name_of(dtype)) + (layout == CONVT_CHANNELS_LAST ? " channels last" : ""));
        for (int round = 0; round < 60 && !testing::Test::HasFatalFailure(); ++round) {
          check_read(isa.chain<T>(), dtype, layout);
          check_write(isa.chain<T>(), dtype, layout);
        }
      }
  });
}

template <class E>
void check_every_read(const ChainKernels<float>& kernels, convt_dtype dtype) {
  std::vector<E> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i].bits = static_cast<std::uint16_t>(i);
  for (const std::int64_t width : {std::int64_t{65536}, std::int64_t{1}}) {
    const std::int64_t height = 65536 / width;
    const ImageView view{all.data(), dtype, CONVT_CHANNELS_FIRST, 1, {1, height, width}};
    std::vector<float> to(static_cast<std::size_t>(height * (width + 1)));
    kernels.read(view, {0, 1, {{0, 0, 0}, {1, height, width}}, 0, 0, width + 1}, to.data());
    for (std::size_t i = 0; i < all.size(); ++i) {
      const float got = to[width == 1 ? 2 * i : i];
      const double expected = to_double(all[i]);
      ASSERT_TRUE(std::isnan(expected) ? std::isnan(got)
                                       : got == expected && std::signbit(got) == std::signbit(expected))
          << i << ": " << got << " for " << expected;
    }
  }
}

template <class E>
void check_many_writes(const ChainKernels<float>& kernels, convt_dtype dtype) {
  std::vector<float> from;
  for (std::uint32_t i = 0; i < 65536; ++i) {
    // Every result, the ties between it and the next, and their neighbours; then anything.
    const E low{static_cast<std::uint16_t>(i)}, high{static_cast<std::uint16_t>(i + 1)};
    const auto a = static_cast<float>(to_double(low)), b = static_cast<float>(to_double(high));
    const float tie = static_cast<float>((static_cast<double>(a) + static_cast<double>(b)) / 2);
    const float largest = std::numeric_limits<float>::infinity();
    for (const float x : {a, tie, std::nextafter(tie, largest), std::nextafter(tie, -largest)}) from.push_back(x);
    from.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(engine()())));
  }
  for (const float x : {65504.0F, 65519.9F, 65520.0F, 65536.0F, 1e30F, 0x1p-24F, 0x1p-25F, 0x1.8p-25F, 3.4e38F})
    for (const float y : {x, -x}) from.push_back(y);
  const auto count = static_cast<std::int64_t>(from.size());
  std::vector<E> to(from.size());
  kernels.write({from.data(), count, 0, 1, {{0, 0, 0}, {1, 1, count}}},
                {to.data(), dtype, CONVT_CHANNELS_FIRST, 1, {1, 1, count}});
  for (std::size_t i = 0; i < from.size(); ++i) {
    const E expected = from_double<E>(static_cast<double>(from[i]));
    if (std::isnan(from[i]))
      ASSERT_TRUE(std::isnan(to_double(to[i])));
    else
      ASSERT_EQ(to[i].bits, expected.bits) << from[i];
  }
}

TEST(CpuRows, EverySixteenBitValue) {
  for (const Isa& isa : isas()) {
    if (!isa.runs_here()) continue;
    SCOPED_TRACE(isa.name);
    check_every_read<convt_f16>(isa.chain<float>(), CONVT_F16);
    check_every_read<convt_bf16>(isa.chain<float>(), CONVT_BF16);
    check_many_writes<convt_f16>(isa.chain<float>(), CONVT_F16);
    check_many_writes<convt_bf16>(isa.chain<float>(), CONVT_BF16);
  }
}

}  // namespace
}  // namespace convt::core::cpu
