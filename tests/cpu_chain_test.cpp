// SPDX-License-Identifier: Apache-2.0
// The chain's kernels on the CPU, for every instruction set that this machine has, against the reference.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "epilogue/text.hpp"
#include "reference/chain.hpp"
#include "support/kernels.hpp"

namespace convt::core::cpu {
namespace {

// A tile in memory of its own, whose surroundings and gaps between channels are checked.
template <class T>
class GuardedTile {
 public:
  GuardedTile(std::int64_t channels, const Box& box, std::int64_t gap)
      : memory_(static_cast<std::size_t>(channels * (box.pixels() + gap) + 2 * zone), guard) {
    tile.data = memory_.data() + zone;
    tile.channel_step = box.pixels() + gap;
    tile.channels = channels;
    tile.box = box;
  }
  T& at(std::int64_t c, std::int64_t pixel) { return tile.data[c * tile.channel_step + pixel]; }
  void expect_guards() const {
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(memory_.size()); ++i) {
      const std::int64_t at = i - zone;
      const bool inside =
          at >= 0 && at < tile.channels * tile.channel_step && at % tile.channel_step < tile.box.pixels();
      ASSERT_TRUE(inside || memory_[static_cast<std::size_t>(i)] == guard) << "at " << at;
    }
  }
  Tile<T> tile;

 private:
  static constexpr T guard = T(12345.5);
  static constexpr std::int64_t zone = 64;
  std::vector<T> memory_;
};

template <class T>
void expect_close(T got, double expected, double tolerance) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(got)) << got;
  } else if (std::isinf(static_cast<T>(expected))) {
    EXPECT_EQ(got, static_cast<T>(expected));
  } else {
    EXPECT_NEAR(got, expected, tolerance * (1 + std::fabs(expected)));
  }
}
template <class T>
constexpr double tolerance = sizeof(T) == sizeof(float) ? 2e-6 : 1e-14;

// One image, its chain so far in doubles, and as a tile.
struct Case {
  Shape shape;
  std::int64_t gap = 0;
};
std::vector<Case> cases() {
  return {{{1, 1, 1, {1, 1, 1}}, 0},   {{3, 1, 6, {2, 3, 19}}, 0}, {{2, 1, 67, {1, 5, 17}}, 3},
          {{3, 1, 24, {3, 7, 33}}, 1}, {{1, 1, 6, {1, 1, 1}}, 0},  {{2, 1, 600, {1, 2, 67}}, 0}};
}

std::vector<Op> examples() {
  std::vector<Op> ops;
  for (const OpDescription& row : op_descriptions()) {
    std::string_view rest = row.examples;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      ops.push_back(parse_chain("chain", rest.substr(0, end)).front());
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return ops;
}

// Is it left to the planner, which makes an Affine of it?
bool becomes_affine(const Op& any) {
  return std::visit(
      []<class O>(const O& op) {
        if constexpr (std::derived_from<O, Combine>)
          return op.term.kind == Term::scalar || op.term.kind == Term::channel;
        if constexpr (std::derived_from<O, Normalise>)
          return op.region().kind == Region::given || (op.affine && op.region().kind != Region::trailing);
        return false;
      },
      any);
}
// Or made of simpler steps by it, or none that works pixel by pixel?
bool is_lowered(const Op& any) {
  return std::visit(
      []<class O>(const O& op) {
        if constexpr (std::derived_from<O, Reduce>) return op.axes.any_space();
        if constexpr (std::derived_from<O, Normalise>) return op.region().kind == Region::axes;
        return std::derived_from<O, Keeps>;
      },
      any);
}
bool is_pool(const Op& any) {
  return std::visit([]<class O>(const O&) { return std::derived_from<O, Pool>; }, any);
}

// A step with everything it is bound to.
template <class T>
struct Bound {
  Step step;
  BoundStep<T> bound;
  std::vector<float> tensor;
  std::vector<T> weight, bias, centre, scale;
  std::vector<OperandView> views;
};

Regions regions_of(const Op& any, const Shape& in) {
  Regions regions;
  std::visit(
      [&]<class O>(const O& op) {
        if constexpr (std::derived_from<O, Normalise>) {
          const Region region = op.region();
          if (region.kind == Region::groups) regions.channels_each = in.channels / region.parameter;
          if (region.kind == Region::trailing && region.parameter > in.dims) regions.channels_each = in.channels;
          if (region.kind == Region::trailing && region.parameter <= in.dims)
            regions.axes = 3 - static_cast<int>(region.parameter);
        }
      },
      any);
  for (int axis = 0; axis < regions.axes; ++axis) regions.outer *= in.space[static_cast<std::size_t>(axis)];
  regions.count = in.channels / regions.channels_each * regions.outer;
  return regions;
}

// Weights of a norm over trailing axes, and the statistics of a norm over space, measured by the kernels.
template <class T, class O>
void bind_norm(const O& op, const ChainKernels<T>& kernels, const Tile<T>& tile, Bound<T>& b) {
  const Shape& in = b.step.in;
  b.bound.regions = regions_of(b.step.what.index() == 0 ? std::get<Op>(b.step.what) : Op(), in);
  const Region region = op.region();
  if (region.kind == Region::channels) return;
  std::vector<Moments> moments(static_cast<std::size_t>(b.bound.regions.count));
  kernels.measure(b.bound, tile, moments.data());
  for (const Moments& m : moments) {
    b.centre.push_back(static_cast<T>(m.centre));
    b.scale.push_back(static_cast<T>(op.scale(m.total, m.count)));
  }
  b.bound.centre = b.centre.data();
  b.bound.scale = b.scale.data();
  if (!op.affine) return;
  const std::int64_t each = in.channels * volume(in.space) / b.bound.regions.count;
  b.weight = random_values<T>(each);
  b.bias = random_values<T>(each);
  b.bound.weight = b.weight.data();
  b.bound.bias = b.bias.data();
  constexpr convt_dtype dtype = sizeof(T) == sizeof(float) ? CONVT_F32 : CONVT_F64;
  for (const auto& part : {&b.weight, &b.bias}) b.views.push_back({part->data(), dtype, 0, 0});
}

template <class T>
void bind_step(const Op& any, const ChainKernels<T>& kernels, const Tile<T>& tile, Bound<T>& b) {
  b.bound.step = &b.step;
  std::visit(
      [&]<class O>(const O& op) {
        if constexpr (std::derived_from<O, Combine>) {
          const Shape& in = b.step.in;
          const bool last = in.channels % 2 == 0;  // either layout gets its turn
          b.tensor = random_values<float>(in.channels * volume(in.space), 0.5, 2);
          b.bound.tensor = {b.tensor.data(), CONVT_F32, last ? CONVT_CHANNELS_LAST : CONVT_CHANNELS_FIRST, in.channels,
                            in.space};
          b.views.push_back({b.tensor.data(), CONVT_F32, last ? 1 : volume(in.space), last ? in.channels : 1});
        }
        if constexpr (std::derived_from<O, Normalise>) bind_norm(op, kernels, tile, b);
      },
      any);
}

TEST(CpuChain, EveryStepIsTheReferences) {
  for_each_isa([&]<class T>(const Isa& isa, T) {
    const ChainKernels<T>& kernels = isa.chain<T>();
    int checked = 0;
    for (const Op& op : examples())
      for (const Case& c : cases()) {
        if (is_pool(op) || becomes_affine(op) || is_lowered(op)) continue;
        Bound<T> b;
        const std::array kept{KeptShape{conv_name, c.shape}};
        try {
          b.step = {op, c.shape, infer(op, c.shape, kept), 0, 0};
        } catch (const Error&) {
          continue;  // group_norm(3) of one channel
        }
        SCOPED_TRACE(print(op) + " of " + std::to_string(c.shape.channels) + " channels");
        const Box box{{0, 0, 0}, c.shape.space};
        GuardedTile<T> tile(c.shape.channels, box, c.gap), conv(c.shape.channels, box, 2);
        std::vector<double> value, other;
        for (std::int64_t i = 0; i < c.shape.channels; ++i)
          for (std::int64_t p = 0; p < box.pixels(); ++p) {
            value.push_back(tile.at(i, p) = random_values<T>(1)[0]);
            other.push_back(conv.at(i, p) = random_values<T>(1, 0.5, 2)[0]);
          }
        bind_step(op, kernels, tile.tile, b);
        std::vector<double> expected(value.size());
        run_stage({op, b.step.in, b.step.out, 0, 0}, {value.data(), other.data(), b.views, expected.data()});
        kernels.run({&b.bound, 1}, tile.tile, conv.tile, nullptr);
        for (std::int64_t i = 0; i < b.step.out.channels; ++i)
          for (std::int64_t p = 0; p < box.pixels(); ++p)
            expect_close(tile.at(i, p), expected[static_cast<std::size_t>(i * box.pixels() + p)],
                         tolerance<T> * (c.shape.channels > 100 ? 20 : 4));
        tile.expect_guards();
        ++checked;
        if (testing::Test::HasFailure()) return;
      }
    EXPECT_GE(checked, 150);
  });
}

TEST(CpuChain, PointwiseOfSpecialValues) {
  for_each_isa([&]<class T>(const Isa& isa, T) {
    using Limits = std::numeric_limits<T>;
    std::vector<T> x = {Limits::quiet_NaN(),
                        Limits::infinity(),
                        -Limits::infinity(),
                        Limits::max(),
                        Limits::lowest(),
                        Limits::min(),
                        -Limits::min(),
                        Limits::denorm_min(),
                        T(0),
                        T(-0.0),
                        T(1),
                        T(-1),
                        T(88.9),
                        T(-88.9),
                        T(-103.5),
                        T(710),
                        T(-710),
                        T(20),
                        T(-20),
                        T(1e-20),
                        T(-1e-20),
                        T(1e4),
                        T(-1e4)};
    for (const Op& any : examples())
      std::visit(
          [&]<class O>(const O& op) {
            if constexpr (std::derived_from<O, Pointwise>) {
              SCOPED_TRACE(print(any));
              const auto count = static_cast<std::int64_t>(x.size());
              GuardedTile<T> tile(1, {{0, 0, 0}, {1, 1, count}}, 0);
              std::copy(x.begin(), x.end(), tile.tile.data);
              const Step step{any, {1, 1, 1, {1, 1, count}}, {1, 1, 1, {1, 1, count}}, 0, 0};
              const BoundStep<T> bound{&step};
              isa.chain<T>().run({&bound, 1}, tile.tile, {}, nullptr);
              for (std::size_t i = 0; i < x.size(); ++i) {
                SCOPED_TRACE(x[i]);
                expect_close(tile.tile.data[i], static_cast<double>(op.apply(x[i])), tolerance<T>);
              }
            }
          },
          any);
  });
}

// What approximations may err, over their whole range.
TEST(CpuChain, TranscendentalMathIsAccurate) {
  struct Bounds {
    const char* chain;
    double low, high;
    double relative, absolute;  // in units of the type's rounding; absolute grows with |x| beyond 1
  };
  const Bounds bounds[] = {
      {"tanh", -12, 12, 4, 0},   {"tanh", -0.01, 0.01, 4, 0}, {"elu", -30, 0, 4, 0},
      {"elu", -0.01, 0, 4, 0},   {"sigmoid", -80, 80, 4, 0},  {"softplus(threshold=1000)", -40, 80, 4, 0},
      {"gelu", -10, 10, 0, 2.2}, {"gelu", -1, 1, 0, 2.2},     {"gelu(tanh)", -10, 10, 0, 4},
      {"silu", -20, 20, 5, 0},   {"mish", -20, 20, 8, 0},
  };
  for_each_isa([&]<class T>(const Isa& isa, T) {
    const double unit = std::numeric_limits<T>::epsilon() / 2;
    for (const Bounds& row : bounds) {
      SCOPED_TRACE(row.chain);
      const Op any = parse_chain("chain", row.chain).front();
      const std::int64_t count = 100003;
      const std::vector<T> x = random_values<T>(count, row.low, row.high);
      std::vector<T> y = x;
      const Step step{any, {1, 1, 1, {1, 1, count}}, {1, 1, 1, {1, 1, count}}, 0, 0};
      const BoundStep<T> bound{&step};
      isa.chain<T>().run({&bound, 1}, {y.data(), count, 0, 1, {{0, 0, 0}, {1, 1, count}}}, {}, nullptr);
      double worst = 0, at = 0;
      std::visit(
          [&]<class O>(const O& op) {
            if constexpr (std::derived_from<O, Pointwise>)
              for (std::size_t i = 0; i < y.size(); ++i) {
                const auto exact = op.apply(static_cast<long double>(x[i]));
                const double error = static_cast<double>(std::fabs(y[i] - exact)), size = std::fabs(double(x[i]));
                const double allowed = row.relative != 0 ? row.relative * static_cast<double>(std::fabs(exact)) * unit
                                                         : row.absolute * std::max(1.0, size) * unit;
                if (error > worst * allowed) worst = error / allowed, at = double(x[i]);
              }
          },
          any);
      EXPECT_LE(worst, 1) << "at " << at;
    }
  });
}

// Tiles of several strips, whose steps follow each other.
TEST(CpuChain, StepsFollowEachOther) {
  const Shape shape{3, 1, 67, {4, 9, 31}};
  const Chain chain =
      parse_chain("chain", "layer_norm(channels) | gelu | mul(conv) | softmax | mul(tensor) | sum | tanh");
  for_each_isa([&]<class T>(const Isa& isa, T) {
    const Box box{{0, 0, 0}, shape.space};
    GuardedTile<T> tile(67, box, 0), conv(67, box, 0);
    std::vector<double> value, other;
    for (std::int64_t i = 0; i < 67 * box.pixels(); ++i) {
      value.push_back(tile.tile.data[i] = random_values<T>(1)[0]);
      other.push_back(conv.tile.data[i] = random_values<T>(1)[0]);
    }
    const std::vector<T> a = random_values<T>(67), b = random_values<T>(67);
    std::vector<Bound<T>> steps(chain.size() + 1);
    std::vector<BoundStep<T>> bounds;
    steps[0].step = {Affine{}, shape, shape, 0, 0};
    bounds.push_back({&steps[0].step, a.data(), b.data()});
    for (std::size_t i = 0; i < value.size(); ++i) {
      const std::size_t c = i / static_cast<std::size_t>(box.pixels());
      value[i] = value[i] * a[c] + b[c];
    }
    Shape in = shape;
    const std::array kept{KeptShape{conv_name, shape}};
    for (std::size_t i = 0; i < chain.size(); ++i) {
      Bound<T>& s = steps[i + 1];
      s.step = {chain[i], in, infer(chain[i], in, kept), 0, 0};
      in = s.step.out;
      bind_step(chain[i], isa.chain<T>(), tile.tile, s);
      bounds.push_back(s.bound);
      std::vector<double> next(value.size());
      run_stage({chain[i], s.step.in, s.step.out, 0, 0}, {value.data(), other.data(), s.views, next.data()});
      value = next;
    }
    isa.chain<T>().run(bounds, tile.tile, conv.tile, nullptr);
    for (std::int64_t p = 0; p < box.pixels(); ++p)
      expect_close(tile.at(0, p), value[static_cast<std::size_t>(p)], 10 * tolerance<T>);
    tile.expect_guards();
  });
}

// A part of the image and of its channels: what is indexed by channel, place or region is found.
TEST(CpuChain, TilesKnowTheirPlace) {
  const Shape shape{3, 1, 12, {5, 6, 23}};
  const Box box{{1, 2, 3}, {3, 2, 18}};
  const std::int64_t first = 4, channels = 4;
  for_each_isa([&]<class T>(const Isa& isa, T) {
    for (const char* text :
         {"add(tensor)", "layer_norm(trailing=1, affine)", "layer_norm(trailing=2, affine)",
          "layer_norm(trailing=3, affine)", "layer_norm(trailing=4, affine)", "group_norm(3)", "instance_norm"}) {
      SCOPED_TRACE(text);
      const Op op = parse_chain("chain", text).front();
      const std::vector<T> value = random_values<T>(shape.count());
      const std::vector<double> exact(value.begin(), value.end());
      std::vector<double> expected(value.size());
      const Tile<T> image{const_cast<T*>(value.data()), volume(shape.space), 0, 12, {{0, 0, 0}, shape.space}};
      Bound<T> b;
      b.step = {op, shape, shape, 0, 0};
      bind_step(op, isa.chain<T>(), image, b);
      run_stage({op, shape, shape, 0, 0}, {exact.data(), nullptr, b.views, expected.data()});
      GuardedTile<T> tile(channels, box, 1);
      tile.tile.first_channel = first;
      const auto index = [&](std::int64_t c, std::int64_t p) {
        const auto& [depth, height, width] = box.size;
        const std::int64_t z = 1 + p / (height * width), y = 2 + p / width % height, x = 3 + p % width;
        return static_cast<std::size_t>((((first + c) * 5 + z) * 6 + y) * 23 + x);
      };
      for (std::int64_t c = 0; c < channels; ++c)
        for (std::int64_t p = 0; p < box.pixels(); ++p) tile.at(c, p) = value[index(c, p)];
      isa.chain<T>().run({&b.bound, 1}, tile.tile, {}, nullptr);
      for (std::int64_t c = 0; c < channels; ++c)
        for (std::int64_t p = 0; p < box.pixels(); ++p)
          expect_close(tile.at(c, p), expected[index(c, p)], 4 * tolerance<T>);
      tile.expect_guards();
    }
  });
}

TEST(CpuChain, NormOfEqualValuesIsZero) {
  for_each_isa([&]<class T>(const Isa& isa, T) {
    const Shape shape{1, 1, 67, {1, 1, 21}};
    const Step step{parse_chain("chain", "layer_norm(channels)").front(), shape, shape, 0, 0};
    const BoundStep<T> bound{&step};
    std::vector<T> x(67 * 21, T(1234.567));
    isa.chain<T>().run({&bound, 1}, {x.data(), 21, 0, 67, {{0, 0, 0}, shape.space}}, {}, nullptr);
    for (const T y : x) ASSERT_EQ(y, T(0));
  });
}

}  // namespace
}  // namespace convt::core::cpu
