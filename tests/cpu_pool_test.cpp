// SPDX-License-Identifier: Apache-2.0
// Pools and moments on the CPU, for every instruction set that this machine has, against the reference and plain sums.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "epilogue/text.hpp"
#include "reference/chain.hpp"
#include "support/kernels.hpp"

namespace convt::core::cpu {
namespace {

template <class T>
constexpr double tolerance = sizeof(T) == sizeof(float) ? 1e-6 : 1e-15;

// A box of an image [channel][pixel], as a tile without gaps.
template <class T>
std::vector<T> cut(const std::vector<T>& image, const Shape& shape, const Box& box) {
  std::vector<T> tile;
  const auto& [depth, height, width] = shape.space;
  for (std::int64_t c = 0; c < shape.channels; ++c)
    for (std::int64_t d = box.origin[0]; d < box.origin[0] + box.size[0]; ++d)
      for (std::int64_t h = box.origin[1]; h < box.origin[1] + box.size[1]; ++h)
        for (std::int64_t w = box.origin[2]; w < box.origin[2] + box.size[2]; ++w)
          tile.push_back(image[static_cast<std::size_t>(((c * depth + d) * height + h) * width + w)]);
  return tile;
}

// What the windows of a box of outputs cover.
Box covered(const Windows& windows, const Shape& in, const Box& out) {
  Box box;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t start = out.origin[i] * windows.stride[i] - windows.padding[i];
    const std::int64_t last = (out.origin[i] + out.size[i] - 1) * windows.stride[i] - windows.padding[i];
    box.origin[i] = std::max<std::int64_t>(start, 0);
    box.size[i] = std::min(last + windows.size[i], in.space[i]) - box.origin[i];
  }
  return box;
}

template <class T>
void check_pool(const ChainKernels<T>& kernels, const std::string& text, const Shape& in, bool with_nan) {
  SCOPED_TRACE(text);
  const Op op = parse_chain("chain", text).front();
  const Step step{op, in, infer(op, in, {}), 0, 0};
  std::vector<T> image = random_values<T>(in.count());
  if (with_nan) image[image.size() / 2] = std::numeric_limits<T>::quiet_NaN();
  const std::vector<double> exact(image.begin(), image.end());
  std::vector<double> all(static_cast<std::size_t>(step.out.count()));
  run_stage({op, in, step.out, 0, 0}, {exact.data(), nullptr, {}, all.data()});

  Box to_box;
  for (std::size_t i = 0; i < 3; ++i) {
    to_box.origin[i] = draw(0, step.out.space[i] - 1);
    to_box.size[i] = draw(1, step.out.space[i] - to_box.origin[i]);
  }
  const Windows windows = std::visit(
      [&]<class O>(const O& pool) {
        if constexpr (std::derived_from<O, Pool>) return windows_of(pool, in);
        return Windows{};
      },
      op);
  const Box from_box = covered(windows, in, to_box);
  std::vector<T> from = cut(image, in, from_box);
  const std::vector<double> expected = cut(all, step.out, to_box);
  const std::int64_t pixels = to_box.pixels(), gap = 3;
  std::vector<T> to(static_cast<std::size_t>(in.channels * (pixels + gap)), T(77));
  kernels.pool(step, {from.data(), from_box.pixels(), 0, in.channels, from_box},
               {to.data(), pixels + gap, 0, in.channels, to_box});
  for (std::int64_t c = 0; c < in.channels; ++c)
    for (std::int64_t p = 0; p < pixels + gap; ++p) {
      const T got = to[static_cast<std::size_t>(c * (pixels + gap) + p)];
      if (p >= pixels) {
        ASSERT_EQ(got, T(77)) << "behind a channel";
        continue;
      }
      const double e = expected[static_cast<std::size_t>(c * pixels + p)];
      if (std::isnan(e))
        ASSERT_TRUE(std::isnan(got)) << "channel " << c << " pixel " << p;
      else
        ASSERT_NEAR(got, e, tolerance<T> * 4) << "channel " << c << " pixel " << p;
    }
}

TEST(CpuPool, IsTheReferences) {
  for_each_isa([&]<class T>(const Isa& isa, T) {
    for (const OpDescription& row : op_descriptions()) {
      if (row.name != "max_pool" && row.name != "avg_pool") continue;
      std::string_view rest = row.examples;
      while (!rest.empty()) {
        const std::size_t end = std::min(rest.find('\n'), rest.size());
        for (int round = 0; round < 6; ++round)
          check_pool(isa.chain<T>(), std::string(rest.substr(0, end)),
                     {3, 1, 2, {draw(3, 7), draw(3, 9), draw(3, 150)}}, round == 0);
        rest.remove_prefix(std::min(end + 1, rest.size()));
      }
    }
    for (const char* text :
         {"max_pool(1x2x5, stride=1)", "avg_pool(3x1x4, stride=2x1x3)", "max_pool(2x2x7, stride=1x2x3)",
          "avg_pool(2x3x5, stride=5)", "avg_pool(4, stride=1, padding=2, count_include_pad=false)",
          "max_pool(1x1x5, stride=1x1x2, padding=0x0x2, ceil)"})
      for (int round = 0; round < 6; ++round)
        check_pool(isa.chain<T>(), text, {3, 1, 2, {draw(4, 6), draw(4, 9), draw(9, 150)}}, false);
    check_pool(isa.chain<T>(), "avg_pool(1x2x1500, stride=1x1x7)", {3, 1, 1, {1, 3, 3100}}, false);
    check_pool(isa.chain<T>(), "max_pool(1x1x2)", {3, 1, 1, {1, 1, 5000}}, true);
  });
}

TEST(CpuPool, WholeImages) {
  for_each_isa([&]<class T>(const Isa& isa, T) {
    const ChainKernels<T>& kernels = isa.chain<T>();
    for (const char* text : {"global_avg_pool", "max_pool(1x3x801)"}) {
      const Shape in{3, 1, 3, {1, 3, 801}};
      const Op op = parse_chain("chain", text).front();
      const Step step{op, in, infer(op, in, {}), 0, 0};
      const std::vector<T> image = random_values<T>(in.count());
      const std::vector<double> exact(image.begin(), image.end());
      std::vector<double> expected(3);
      run_stage({op, in, step.out, 0, 0}, {exact.data(), nullptr, {}, expected.data()});
      T folded[3], other[3];
      const Box parts[] = {{{0, 0, 0}, {1, 3, 7}}, {{0, 0, 7}, {1, 3, 794}}};
      for (const Box& box : parts) {
        std::vector<T> tile = cut(image, in, box);
        kernels.fold(step, {tile.data(), box.pixels(), 0, 3, box}, &box == parts ? folded : other);
      }
      kernels.join(step, other, folded, 3);
      kernels.result(step, folded, 3, static_cast<double>(volume(in.space)));
      for (std::size_t c = 0; c < 3; ++c) EXPECT_NEAR(folded[c], expected[c], tolerance<T>);
    }
  });
}

TEST(CpuPool, MomentsOfParts) {
  for_each_isa([&]<class T>(const Isa& isa, T) {
    const Shape shape{3, 1, 6, {2, 3, 700}};
    std::vector<T> image = random_values<T>(shape.count());
    for (T& x : image) x += T(100);
    const Step step{parse_chain("chain", "group_norm(3)").front(), shape, shape, 0, 0};
    BoundStep<T> bound{&step};
    bound.regions = {2, 0, 1, 3};
    const Box parts[] = {{{0, 0, 0}, {2, 3, 33}}, {{0, 0, 33}, {2, 3, 667}}};
    std::vector<Moments> moments(3);
    for (const Box& box : parts) {
      std::vector<T> tile = cut(image, shape, box);
      std::vector<Moments> some(3);
      isa.chain<T>().measure(bound, {tile.data(), box.pixels(), 0, 6, box}, some.data());
      for (std::size_t r = 0; r < 3; ++r) moments[r] = merge(moments[r], some[r]);
    }
    const std::size_t each = image.size() / 3;
    for (std::size_t r = 0; r < 3; ++r) {
      double centre = 0, total = 0;
      for (std::size_t i = 0; i < each; ++i) centre += image[r * each + i] / static_cast<double>(each);
      for (std::size_t i = 0; i < each; ++i) total += std::pow(image[r * each + i] - centre, 2);
      EXPECT_EQ(moments[r].count, static_cast<double>(each));
      EXPECT_NEAR(moments[r].centre, centre, 1e-7);
      EXPECT_NEAR(moments[r].total, total, 1e-6 * total);
    }
  });
}

}  // namespace
}  // namespace convt::core::cpu
