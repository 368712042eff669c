// SPDX-License-Identifier: Apache-2.0
// CUDA graphs: capture with the caller's workspace or without, and replays that are right whatever happened since.
#include <memory>

#include "gpu/named_call.hpp"

namespace convt::testing {
namespace {

using GpuGraphs = GpuTest;

class Graph {
 public:
  // What f puts on the stream. In the mode of capture that forbids most: a call that may wait or allocate fails.
  template <class F>
  Graph(cudaStream_t stream, F f) {
    EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    f();
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph_), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiate(&executable_, graph_, 0), cudaSuccess);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() {
    cudaGraphExecDestroy(executable_);
    cudaGraphDestroy(graph_);
  }

  void launch(cudaStream_t stream) const { EXPECT_EQ(cudaGraphLaunch(executable_, stream), cudaSuccess); }

  bool has_node(cudaGraphNodeType wanted) const {
    std::size_t count = 0;
    EXPECT_EQ(cudaGraphGetNodes(graph_, nullptr, &count), cudaSuccess);
    std::vector<cudaGraphNode_t> nodes(count);
    EXPECT_EQ(cudaGraphGetNodes(graph_, nodes.data(), &count), cudaSuccess);
    for (cudaGraphNode_t node : nodes) {
      cudaGraphNodeType type{};
      EXPECT_EQ(cudaGraphNodeGetType(node, &type), cudaSuccess);
      if (type == wanted) return true;
    }
    return false;
  }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

// The result of a replay into a poisoned output.
std::vector<double> replay(const Graph& graph, GpuRun& run, const cli::Inputs& inputs, cudaStream_t stream) {
  run.execution.load(inputs);
  graph.launch(stream);
  const std::vector<double> output = run.execution.output();
  EXPECT_EQ(run.execution.defect(), "") << run.plan.text();
  return output;
}

// The first call of all may be the captured one.
TEST_F(GpuGraphs, CaptureBeforeAnythingRan) {
  const Stream stream;
  for (const std::string& text : chain_cases())
    for (const bool own_workspace : {false, true}) {
      SCOPED_TRACE(text);
      const cli::ExecutionOptions options{.own_workspace = own_workspace, .place = place_of(stream)};
      GpuRun run(text, 1, options);
      const Graph graph(stream, [&] { run.execution.launch(); });
      EXPECT_NE(run.execution.defect(), "") << "the capture ran what it captured";
      const std::vector<double> output = replay(graph, run, run.inputs, stream);
      EXPECT_EQ(output, GpuRun(text, 1, options).result());
    }
}

TEST_F(GpuGraphs, ReplaysSeeWhatIsInMemoryThen) {
  const Stream stream;
  for (const std::string& text : chain_cases())
    for (const bool own_workspace : {false, true}) {
      SCOPED_TRACE(text);
      const cli::ExecutionOptions options{.own_workspace = own_workspace, .place = place_of(stream)};
      GpuRun run(text, 1, options), other(text, 2, options);
      const std::vector<double> first = run.result(), second = other.result();
      EXPECT_NE(first, second);
      const Graph graph(stream, [&] { run.execution.launch(); });
      EXPECT_EQ(replay(graph, run, other.inputs, stream), second);
      EXPECT_EQ(replay(graph, run, run.inputs, stream), first);
      cli::Inputs mixed = run.inputs;  // operands that change alone, and weights
      mixed.operands = other.inputs.operands;
      mixed.kernel = other.inputs.kernel;
      other.execution.load(mixed);
      EXPECT_EQ(replay(graph, run, mixed, stream), other.result());
      EXPECT_FALSE(graph.has_node(cudaGraphNodeTypeHost));
    }
}

// Calls that take more memory, in the same stream and in others, and plans that are no more.
TEST_F(GpuGraphs, ReplaysOutliveWhatTheyCameFrom) {
  const Stream stream, elsewhere;
  for (const std::string& text : chain_cases())
    for (const bool own_workspace : {false, true}) {
      SCOPED_TRACE(text);
      const cli::ExecutionOptions options{.own_workspace = own_workspace, .place = place_of(stream)};
      GpuRun run(text, 1, options);
      const std::vector<double> expected = run.result();
      const Graph graph(stream, [&] { run.execution.launch(); });
      GpuRun(text, 1, options).result();  // a sibling that comes and goes
      for (const std::string& after : chain_cases()) {
        GpuRun(after, 3, {.place = place_of(stream)}).result();
        GpuRun(after, 3, {.pack_kernel = true, .place = place_of(elsewhere)}).result();
      }
      GpuRun("conv_transpose2d batch=8 channels=16->32 input=120 kernel=3 stride=2 | instance_norm | group_norm(4)", 3,
             {.place = place_of(stream)})
          .result();
      EXPECT_EQ(replay(graph, run, run.inputs, stream), expected);
      run.plan = gpu_plan(text);  // the plan that was captured is destroyed
      EXPECT_EQ(replay(graph, run, run.inputs, stream), expected);
    }
}

// More calls of named problems than plans are kept.
TEST_F(GpuGraphs, NamedProblemsStayCaptured) {
  const Stream stream;
  const WithStream with(stream);
  for (const NamedFunction& function : named_functions()) {
    SCOPED_TRACE(function.slug);
    const NamedCall call(function, function.example());
    EXPECT_EQ(call.launch(), CONVT_OK) << convt_last_error();
    const std::vector<double> expected = call.output(stream);
    const Graph graph(stream, [&] { EXPECT_EQ(call.launch(), CONVT_OK) << convt_last_error(); });
    for (std::size_t width = 6; width < 86; ++width) {
      auto sizes = function.example();
      sizes[function.index("width")] = width;
      EXPECT_EQ(NamedCall(function, sizes).launch(), CONVT_OK) << convt_last_error();
    }
    CUDA_OK(cudaMemsetAsync(call.address(NamedCall::result), 0xff, call.bytes(NamedCall::result), stream));
    graph.launch(stream);
    EXPECT_EQ(call.output(stream), expected);
  }
}

// Graphs of one plan, replayed at once on two streams, each with calls between.
TEST_F(GpuGraphs, GraphsAtOnce) {
  const Stream streams[2];
  for (const std::string& text : chain_cases()) {
    SCOPED_TRACE(text);
    std::unique_ptr<GpuRun> runs[2];
    std::unique_ptr<Graph> graphs[2];
    std::vector<double> expected[2];
    for (const std::size_t i : {0U, 1U}) {
      runs[i] = std::make_unique<GpuRun>(text, i + 1, cli::ExecutionOptions{.place = place_of(streams[i])});
      expected[i] = runs[i]->result();
      graphs[i] = std::make_unique<Graph>(streams[i], [&] { runs[i]->execution.launch(); });
    }
    for (int repeat = 0; repeat < 10; ++repeat)
      for (const std::size_t i : {0U, 1U}) {
        graphs[i]->launch(streams[i]);
        if (repeat % 3 == 0) runs[i]->execution.launch();
      }
    for (const std::size_t i : {0U, 1U}) EXPECT_EQ(runs[i]->execution.output(), expected[i]);
  }
}

// Several calls in one graph, one reading what the other wrote before.
TEST_F(GpuGraphs, CallsInARow) {
  const Stream stream;
  std::vector<std::unique_ptr<GpuRun>> runs;
  std::vector<std::vector<double>> expected;
  for (const std::string& text : chain_cases()) {
    runs.push_back(std::make_unique<GpuRun>(text, 1, cli::ExecutionOptions{.place = place_of(stream)}));
    expected.push_back(runs.back()->result());
    runs.back()->execution.load(runs.back()->inputs);
  }
  const Graph graph(stream, [&] {
    for (int repeat = 0; repeat < 2; ++repeat)
      for (const auto& run : runs) run->execution.launch();
  });
  for (int repeat = 0; repeat < 3; ++repeat) graph.launch(stream);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(runs[i]->execution.output(), expected[i]) << runs[i]->plan.text();
    EXPECT_EQ(runs[i]->execution.defect(), "");
  }
}

}  // namespace
}  // namespace convt::testing
