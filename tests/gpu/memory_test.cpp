// SPDX-License-Identifier: Apache-2.0
// Device memory: what calls take and give back, what they do when there is none, and tensors past 2^31 elements.
#include <algorithm>
#include <memory>

#include "gpu/named_call.hpp"
#include "support/engine_cases.hpp"

namespace convt::testing {
namespace {

using GpuMemories = GpuTest;

constexpr std::size_t mega = std::size_t{1} << 20;

std::size_t free_bytes() {
  std::size_t free = 0, total = 0;
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  return free;
}

// ---- what calls take

TEST_F(GpuMemories, RepeatedCallsTakeNothing) {
  for (const std::string& text : chain_cases()) {
    const Stream stream;
    GpuRun run(text, 1, {.place = place_of(stream)});
    run.execution.execute();
    const std::size_t before = free_bytes();
    for (int repeat = 0; repeat < 50; ++repeat) run.execution.launch();
    EXPECT_EQ(free_bytes(), before) << text;
  }
}

// Memory that a call took and gave back would show in the pool's high-water mark.
TEST_F(GpuMemories, RepeatedCallsAllocateNothing) {
  cudaMemPool_t pool = nullptr;
  CUDA_OK(cudaDeviceGetMemPool(&pool, 0));
  for (const std::string& text : chain_cases()) {
    const Stream stream;
    GpuRun run(text, 1, {.place = place_of(stream)});
    run.execution.execute();
    std::uint64_t used = 0, most = 0;
    CUDA_OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    CUDA_OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &most));
    for (int repeat = 0; repeat < 5; ++repeat) run.execution.launch();
    CUDA_OK(cudaStreamSynchronize(stream));
    CUDA_OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &most));
    EXPECT_EQ(most, used) << text;
  }
}

// While some stream is captured in global mode, calls that may allocate, free or wait fail, whatever their stream.
TEST_F(GpuMemories, RepeatedCallsMakeNoUnsafeCalls) {
  const Stream captured;
  for (const std::string& text : chain_cases())
    for (const bool own_workspace : {false, true}) {
      const Stream stream;
      GpuRun run(text, 1, {.own_workspace = own_workspace, .place = place_of(stream)});
      run.execution.execute();
      CUDA_OK(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal));
      EXPECT_NO_THROW(run.execution.launch()) << text;
      cudaGraph_t graph = nullptr;
      CUDA_OK(cudaStreamEndCapture(captured, &graph));
      CUDA_OK(cudaGraphDestroy(graph));
    }
}

// Plans, packed kernels, streams and buffers of all sizes: a second round finds what it needs, or gives back what it
// takes.
TEST_F(GpuMemories, NothingIsLeaked) {
  const auto round = [] {
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      const Stream stream;
      GpuRun(draw_case(seed).text, seed, {.pack_kernel = seed % 2 == 0, .place = place_of(stream)}).result();
    }
  };
  round();
  const std::size_t before = free_bytes();
  for (int repeat = 0; repeat < 3; ++repeat) round();
  EXPECT_GE(free_bytes() + 2 * mega, before);
}

// ---- when there is none

// All of the GPU's memory, but for less than a mega.
class Filler {
 public:
  Filler() {
    for (std::size_t bytes = free_bytes(); bytes >= mega / 4; bytes /= 2)
      for (void* block = nullptr; cudaMalloc(&block, bytes) == cudaSuccess;) blocks_.push_back(block);
    EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  }
  Filler(const Filler&) = delete;
  Filler& operator=(const Filler&) = delete;
  ~Filler() {
    for (void* block : blocks_) cudaFree(block);
  }

 private:
  std::vector<void*> blocks_;
};

Status status_of(const std::function<void()>& f) {
  try {
    f();
    return Status::ok;
  } catch (const Error& error) {
    EXPECT_STRNE(error.what(), "");
    return error.status();
  }
}

TEST_F(GpuMemories, NoMemoryForTheWorkspace) {
  const std::string text = "conv_transpose1d channels=4096->4096 input=1 kernel=4";  // to pack the kernel into
  const Stream stream;
  GpuRun small(chain_cases()[3], 1, {.place = place_of(stream)});
  const std::vector<double> expected = small.result();
  GpuRun run(text, 1, {.place = place_of(stream)});
  ASSERT_GE(run.plan.workspace_size(), 128 * mega);
  const std::size_t before = free_bytes();
  {
    const Filler filler;
    EXPECT_EQ(status_of([&] { run.execution.execute(); }), Status::out_of_memory);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "the library's failure is its own";
    EXPECT_EQ(run.execution.defect().substr(0, 4), "left");  // nothing was written, not even to the output
  }
  EXPECT_GE(free_bytes() + 2 * mega, before);
  run.result();
  small.execution.load(small.inputs);
  EXPECT_EQ(small.result(), expected);
}

TEST_F(GpuMemories, NoMemoryForThePackedKernel) {
  const std::string text = "conv_transpose1d channels=2048->2048 input=3 kernel=4 stride=2";
  const Stream stream;
  GpuRun run(text, 1, {.own_workspace = true, .place = place_of(stream)});
  const std::vector<double> expected = run.result();
  const std::size_t bytes = run.plan.kernel_info().bytes;
  const cli::GpuMemory kernel(0, bytes);
  CUDA_OK(cudaMemset(kernel.data(), 0, bytes));
  const std::size_t before = free_bytes();
  const auto pack = [&] { return convt_plan_pack_kernel(run.plan.get(), kernel.data(), stream); };
  {
    const Filler filler;
    // Plans that take what the library had kept from earlier calls.
    std::vector<Plan> others;
    do others.push_back(gpu_plan(text));
    while (convt_plan_pack_kernel(others.back().get(), kernel.data(), stream) == CONVT_OK);
    EXPECT_EQ(pack(), CONVT_OUT_OF_MEMORY);
    EXPECT_STRNE(convt_last_error(), "");
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "the library's failure is its own";
    run.execution.load(run.inputs);
    EXPECT_EQ(run.result(), expected);  // with the kernel of the call
  }
  EXPECT_GE(free_bytes() + 2 * mega, before);
  EXPECT_EQ(pack(), CONVT_OK) << convt_last_error();
  run.execution.execute();
  EXPECT_EQ(run.execution.output(), std::vector<double>(expected.size()));
}

TEST_F(GpuMemories, NoMemoryForNamedProblems) {
  const NamedFunction& function = named_functions()[4];
  auto sizes = function.example();
  for (const char* name : {"depth", "height", "width"}) sizes[function.index(name)] = 48;
  sizes[function.index("batch_size")] = 8;
  sizes[function.index("out_channels")] = 32;
  const NamedCall call(function, sizes);
  {
    const Filler filler;
    const convt_status status = call.launch();
    EXPECT_TRUE(status == CONVT_OK || status == CONVT_OUT_OF_MEMORY) << convt_last_error();
  }
  EXPECT_EQ(call.launch(), CONVT_OK) << convt_last_error();
  const NamedCall again(function, sizes);
  EXPECT_EQ(again.launch(), CONVT_OK) << convt_last_error();
  EXPECT_EQ(call.output(nullptr), again.output(nullptr));
}

// ---- past 2^31 elements

// Element i of the input is pattern(i): multiples of 1/512 that f16 holds, and with a kernel of such numbers every
// product is exact in f32. The period is prime, so that an index that lost its upper bits meets another number.
constexpr std::size_t period = 1000003;
double pattern(std::size_t i) { return static_cast<double>(static_cast<int>(i % period * 7919 % 1021) - 510) / 512; }

// Fills by copying what is there already.
cli::GpuMemory patterned(std::size_t count) {
  std::vector<f16> host(std::min(period, count));
  for (std::size_t i = 0; i < host.size(); ++i) host[i] = from_double<f16>(pattern(i));
  cli::GpuMemory memory(0, count * sizeof(f16));
  memory.write(std::as_bytes(std::span(host)), nullptr);
  for (std::size_t done = host.size(); done < count; done *= 2)
    EXPECT_EQ(cudaMemcpy(memory.data() + done * sizeof(f16), memory.data(), std::min(done, count - done) * sizeof(f16),
                         cudaMemcpyDeviceToDevice),
              cudaSuccess);
  return memory;
}

struct Huge {
  std::size_t height, width, stride;  // of the input; the kernel is `stride` square, so that each output is one product
};

void run_huge(const Huge& huge, const std::string& chain, double (*finish)(double)) {
  const auto [height, width, stride] = huge;
  const std::string s = std::to_string(stride);
  const Plan plan = gpu_plan("conv_transpose2d dtype=f16 channels=1->1 input=" + std::to_string(height) + "x" +
                             std::to_string(width) + " kernel=" + s + " stride=" + s + chain);
  const std::size_t count = plan.output_info().elements();
  ASSERT_GT(count, std::size_t{1} << 31);
  if (free_bytes() < (height * width + 2 * count) * sizeof(f16) + (1 << 30)) GTEST_SKIP() << "too little memory";
  const cli::GpuMemory input = patterned(height * width), kernel = patterned(stride * stride),
                       output(0, count * sizeof(f16));
  CUDA_OK(cudaMemset(output.data(), 0xff, count * sizeof(f16)));
  convt_tensors tensors = CONVT_TENSORS_INIT;
  tensors.input = input.data();
  tensors.kernel = kernel.data();
  tensors.output = output.data();
  ASSERT_EQ(convt_plan_execute(plan.get(), &tensors), CONVT_OK) << convt_last_error();
  CUDA_OK(cudaDeviceSynchronize());

  const auto check = [&](std::size_t first) {
    std::vector<f16> got(std::min<std::size_t>(5000, count - first));
    CUDA_OK(
        cudaMemcpy(got.data(), output.data() + first * sizeof(f16), got.size() * sizeof(f16), cudaMemcpyDeviceToHost));
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::size_t row = (first + i) / (width * stride), column = (first + i) % (width * stride);
      const double product =
          pattern(row / stride * width + column / stride) * pattern(row % stride * stride + column % stride);
      ASSERT_EQ(to_double(got[i]), to_double(from_double<f16>(finish(product)))) << "element " << first + i;
    }
  };
  for (const std::size_t first :
       {std::size_t{0}, (std::size_t{1} << 30) - 2500, (std::size_t{1} << 31) - 2500, count / 3, count - 5000})
    check(first);
}

TEST_F(GpuMemories, OutputPast31Bits) {
  run_huge({12000, 11600, 4}, "", [](double x) { return x; });
}

TEST_F(GpuMemories, OutputPast31BitsBehindAChain) {
  run_huge({12000, 11600, 4}, " | relu | mul(2)", [](double x) { return 2 * std::max(x, 0.0); });
}

TEST_F(GpuMemories, InputPast31Bits) {
  run_huge({46400, 46400, 1}, "", [](double x) { return x; });
}

// ---- several GPUs

TEST_F(GpuMemories, TheCurrentDeviceStays) {
  const NamedCall call(named_functions()[1], named_functions()[1].example());
  for (int device = 0; device < cli::gpu_count(); ++device) {
    CUDA_OK(cudaSetDevice(device));
    EXPECT_EQ(call.launch(), CONVT_OK) << convt_last_error();  // on device 0, where its tensors are
    int after = -1;
    CUDA_OK(cudaGetDevice(&after));
    EXPECT_EQ(after, device);
  }
  CUDA_OK(cudaSetDevice(0));
}

TEST_F(GpuMemories, EveryDevice) {
  if (cli::gpu_count() < 2) GTEST_SKIP() << "one GPU only";
  for (const std::string& text : chain_cases()) {
    const std::vector<double> expected = GpuRun(text, 1, {.place = place_of(nullptr)}).result();
    for (int device = 0; device < cli::gpu_count(); ++device) {
      Plan plan = Plan::from_text(text, {.device = Device::cuda, .device_index = device});
      const cli::Inputs inputs = cli::make_inputs(plan, 1, cli::Fill::unit);
      cli::Execution execution(plan, inputs, {.place = {Device::cuda, device}});
      execution.execute();
      EXPECT_EQ(execution.output(), expected) << text;
      EXPECT_EQ(execution.defect(), "");
    }
    CUDA_OK(cudaSetDevice(0));
  }
}

TEST_F(GpuMemories, DevicesDoNotMix) {
  if (cli::gpu_count() < 2) GTEST_SKIP() << "one GPU only";
  const std::string text = "conv_transpose2d channels=1->1 input=8 kernel=1";
  Plan plan = gpu_plan(text);
  const cli::Inputs inputs = cli::make_inputs(plan, 1, cli::Fill::unit);
  cli::Execution elsewhere(plan, inputs, {.place = {Device::cuda, 1}});
  EXPECT_EQ(status_of([&] { elsewhere.execute(); }), Status::invalid_argument);
  CUDA_OK(cudaSetDevice(0));
}

TEST_F(GpuMemories, NoSuchDevice) {
  EXPECT_NE(status_of([] {
              Plan::from_text("conv_transpose1d channels=1->1 input=3 kernel=2",
                              {.device = Device::cuda, .device_index = cli::gpu_count()});
            }),
            Status::ok);
}

}  // namespace
}  // namespace convt::testing
