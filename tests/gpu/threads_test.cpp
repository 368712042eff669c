// SPDX-License-Identifier: Apache-2.0
// Several host threads and several streams at once.
#include <memory>
#include <thread>

#include "gpu/named_call.hpp"
#include "support/engine_cases.hpp"

namespace convt::testing {
namespace {

using GpuThreads = GpuTest;

constexpr std::size_t threads = 8;

template <class F>
void in_threads(F f) {
  std::vector<std::thread> all;
  for (std::size_t t = 0; t < threads; ++t) all.emplace_back([&, t] { f(t); });
  for (std::thread& thread : all) thread.join();
}

// One plan, executed by all with memory of their own.
TEST_F(GpuThreads, OnePlan) {
  for (const std::string& text : chain_cases()) {
    SCOPED_TRACE(text);
    Plan plan = gpu_plan(text);
    const cli::Inputs inputs = cli::make_inputs(plan, 1, cli::Fill::unit);
    const std::vector<double> expected = GpuRun(text, 1, {.place = place_of(nullptr)}).result();
    in_threads([&](std::size_t t) {
      const Stream stream;
      const bool own_stream = t % 4 != 0;
      const cli::Place place = place_of(own_stream ? static_cast<cudaStream_t>(stream) : nullptr);
      cli::Execution execution(plan, inputs, {.own_workspace = t % 2 == 0, .place = place});
      for (int repeat = 0; repeat < 10; ++repeat) {
        execution.load(inputs);
        for (int call = 0; call < 3; ++call) execution.launch();
        EXPECT_EQ(execution.output(), expected);
        EXPECT_EQ(execution.defect(), "");
      }
    });
  }
}

// Two threads that share a stream.
TEST_F(GpuThreads, OneStream) {
  const Stream stream;
  const auto& texts = chain_cases();
  std::vector<std::vector<double>> expected;
  for (const std::string& text : texts) expected.push_back(GpuRun(text, 1, {.place = place_of(stream)}).result());
  in_threads([&](std::size_t t) {
    for (std::size_t i = 0; i < 3 * texts.size(); ++i) {
      const std::size_t one = (i + t) % texts.size();
      EXPECT_EQ(GpuRun(texts[one], 1, {.place = place_of(stream)}).result(), expected[one]) << texts[one];
    }
  });
}

// Plans and streams that come and go, more named problems than plans are kept.
TEST_F(GpuThreads, ManyPlans) {
  constexpr std::size_t cases = 60;
  std::vector<std::vector<double>> expected;
  for (std::size_t i = 0; i < cases; ++i)
    expected.push_back(GpuRun(draw_case(i).text, i, {.place = place_of(nullptr)}).result());
  in_threads([&](std::size_t t) {
    for (std::size_t i = 0; i < cases; ++i) {
      const std::size_t one = (7 * i + 11 * t) % cases;
      const Stream stream;
      GpuRun run(draw_case(one).text, one, {.pack_kernel = t % 2 == 0, .place = place_of(stream)});
      EXPECT_EQ(run.result(), expected[one]) << run.plan.text();
    }
  });
}

TEST_F(GpuThreads, NamedProblems) {
  const NamedFunction& function = named_functions()[3];
  const auto sizes_of = [&](std::size_t i) {
    auto sizes = function.example();
    sizes[function.index("height")] = 2 + i % 10;
    sizes[function.index("width")] = 2 + i / 10;
    return sizes;
  };
  constexpr std::size_t problems = 80;
  std::vector<std::unique_ptr<NamedCall>> calls;
  std::vector<std::vector<double>> expected;
  for (std::size_t i = 0; i < problems; ++i) {
    calls.push_back(std::make_unique<NamedCall>(function, sizes_of(i)));
    EXPECT_EQ(calls[i]->launch(), CONVT_OK) << convt_last_error();
    expected.push_back(calls[i]->output(nullptr));
  }
  in_threads([&](std::size_t t) {
    const Stream stream;
    const WithStream with(stream);
    for (std::size_t i = 0; i < problems; ++i) {
      const std::size_t one = (7 * i + 11 * t) % problems;
      const NamedCall call(function, sizes_of(one));
      EXPECT_EQ(call.launch(), CONVT_OK) << convt_last_error();
      EXPECT_EQ(call.output(stream), expected[one]);
    }
  });
}

}  // namespace
}  // namespace convt::testing
