// SPDX-License-Identifier: Apache-2.0
// Work is ordered by the caller's stream, and a call waits for nothing.
#include <memory>
#include <thread>

#include "compare.hpp"
#include "gpu/named_call.hpp"

namespace convt::testing {
namespace {

using GpuStreams = GpuTest;

// The first call of its shape may load code and allocate, and so wait; the second may not.
TEST_F(GpuStreams, RepeatedCallsOfPlansDoNotWait) {
  for (const std::string& text : chain_cases())
    for (const bool own_workspace : {false, true}) {
      SCOPED_TRACE(text);
      const Stream stream;
      GpuRun run(text, 1, {.own_workspace = own_workspace, .place = place_of(stream)});
      const std::vector<double> expected = run.result();
      run.execution.load(run.inputs);
      Gate gate(stream);
      run.execution.launch();
      EXPECT_FALSE(gate.is_passed()) << "the call waited for its stream";
      EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
      gate.open();
      EXPECT_EQ(run.execution.output(), expected);
      EXPECT_EQ(run.execution.defect(), "");
    }
}

TEST_F(GpuStreams, NamedProblemsReadWhatTheirStreamWroteBefore) {
  for (const NamedFunction& function : named_functions()) {
    SCOPED_TRACE(function.slug);
    const Stream stream;
    const WithStream with(stream);
    const NamedCall call(function, function.example()), other(function, function.example(), DType::f32, 99);
    for (const NamedCall* one : {&call, &other}) EXPECT_EQ(one->launch(), CONVT_OK) << convt_last_error();
    const std::vector<double> expected = other.output(stream);
    EXPECT_NE(call.output(stream), expected);
    {
      Gate gate(stream);
      for (const auto tensor : {NamedCall::input, NamedCall::kernel, NamedCall::bias})
        CUDA_OK(cudaMemcpyAsync(call.address(tensor), other.address(tensor), call.bytes(tensor),
                                cudaMemcpyDeviceToDevice, stream));
      EXPECT_EQ(call.launch(), CONVT_OK) << convt_last_error();
      EXPECT_FALSE(gate.is_passed()) << "the call waited for its stream";
    }
    EXPECT_EQ(call.output(stream), expected);
  }
}

// On the host and on the GPU, in every element type.
TEST_F(GpuStreams, NamedProblemsOnBothSides) {
  for (const NamedFunction& function : named_functions())
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      SCOPED_TRACE(function.slug + " " + to_string(dtype));
      const NamedCall call(function, function.example(), dtype);
      EXPECT_EQ(call.launch(), CONVT_OK) << convt_last_error();
      const std::vector<double> got = call.output(nullptr), expected = call.on_host();
      cli::Tolerance tolerance = cli::tolerance_of(dtype, Float32Precision::ieee);
      // This one's values before its pool are stored in the tensors' type: one rounding more (docs/numerics.md).
      const bool stores = function.slug.find("avgpool") != std::string::npos;
      if (stores && dtype == DType::f16) tolerance.of_largest = 0x1p-11;
      if (stores && dtype == DType::bf16) tolerance.of_largest = 0x1p-8;
      const auto comparison = cli::compare(got, expected, {got.size()}, tolerance);
      EXPECT_TRUE(comparison.ok) << comparison.text;
    }
}

// A stream that is held up holds up no other.
TEST_F(GpuStreams, StreamsAreIndependent) {
  for (const std::string& text : chain_cases()) {
    SCOPED_TRACE(text);
    const Stream held, free;
    GpuRun late(text, 1, {.place = place_of(held)}), early(text, 1, {.place = place_of(free)});
    const std::vector<double> expected = late.result();
    EXPECT_EQ(early.result(), expected);
    late.execution.load(late.inputs);
    early.execution.load(early.inputs);
    Gate gate(held);
    late.execution.launch();
    EXPECT_EQ(early.result(), expected);
    EXPECT_FALSE(gate.is_passed());
    gate.open();
    EXPECT_EQ(late.execution.output(), expected);
  }
}

// One buffer after the other on one stream, without a wait between.
TEST_F(GpuStreams, CallsInARow) {
  const Stream stream;
  std::vector<std::unique_ptr<GpuRun>> runs;
  std::vector<std::vector<double>> expected;
  for (const std::string& text : chain_cases()) {
    runs.push_back(std::make_unique<GpuRun>(text, 1, cli::ExecutionOptions{.place = place_of(stream)}));
    expected.push_back(runs.back()->result());
    runs.back()->execution.load(runs.back()->inputs);
  }
  for (int repeat = 0; repeat < 10; ++repeat)
    for (const auto& run : runs) run->execution.launch();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(runs[i]->execution.output(), expected[i]) << runs[i]->plan.text();
    EXPECT_EQ(runs[i]->execution.defect(), "");
  }
}

TEST_F(GpuStreams, SpecialStreams) {
  const std::string& text = chain_cases()[3];
  const std::vector<double> expected = GpuRun(text, 1, {.place = place_of(nullptr)}).result();
  for (cudaStream_t stream : {cudaStreamLegacy, cudaStreamPerThread})
    EXPECT_EQ(GpuRun(text, 1, {.place = place_of(stream)}).result(), expected);
}

TEST_F(GpuStreams, AThreadsStreamIsItsOwn) {
  const Stream stream;
  const WithStream with(stream);
  std::thread([] { EXPECT_EQ(convt_get_stream(), nullptr); }).join();
  EXPECT_EQ(convt_get_stream(), static_cast<cudaStream_t>(stream));
}

// Packing reads the kernel when the stream comes to it, and keeps a copy.
TEST_F(GpuStreams, PackingIsOrderedToo) {
  for (const std::string& text : chain_cases()) {
    SCOPED_TRACE(text);
    const Stream stream;
    Plan plan = gpu_plan(text);
    cli::Inputs inputs = cli::make_inputs(plan, 1, cli::Fill::unit);
    const std::vector<double> expected = GpuRun(text, 1, {.place = place_of(stream)}).result();
    const std::size_t bytes = plan.kernel_info().bytes;
    const cli::GpuMemory kernel(0, bytes), source(0, bytes);
    std::visit([&](const auto& elements) { source.write(std::as_bytes(std::span(elements)), stream); }, inputs.kernel);
    const auto pack = [&] { return convt_plan_pack_kernel(plan.get(), kernel.data(), stream); };
    CUDA_OK(cudaMemsetAsync(kernel.data(), 0xff, bytes, stream));
    ASSERT_EQ(pack(), CONVT_OK) << convt_last_error();
    CUDA_OK(cudaMemcpyAsync(kernel.data(), source.data(), bytes, cudaMemcpyDeviceToDevice, stream));
    ASSERT_EQ(pack(), CONVT_OK) << convt_last_error();
    CUDA_OK(cudaMemsetAsync(kernel.data(), 0xff, bytes, stream));
    inputs.kernel = cli::make_inputs(plan, 2, cli::Fill::unit).kernel;  // ignored
    cli::Execution execution(plan, inputs, {.place = place_of(stream)});
    execution.execute();
    EXPECT_EQ(execution.output(), expected);
    EXPECT_EQ(execution.defect(), "");
  }
}

}  // namespace
}  // namespace convt::testing
