// SPDX-License-Identifier: Apache-2.0
// What tests on a GPU share. Where there is none they skip, saying so.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "execution.hpp"
#include "gpu.hpp"
#include "tensor.hpp"

namespace convt::testing {

#define CUDA_OK(call) ASSERT_EQ(call, cudaSuccess)

// Skips without a GPU, and leaves no error behind.
class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cli::gpu_count() == 0) GTEST_SKIP() << "no GPU on this machine";
  }
  void TearDown() override {
    if (IsSkipped()) return;
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  }
};

// Not ordered with the default stream.
class Stream {
 public:
  Stream() { EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { cudaStreamDestroy(stream_); }
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// Work that is put on the stream later does not begin before open(); or before a while has passed, so that whoever
// waits for the stream fails and does not hang.
class Gate {
 public:
  explicit Gate(cudaStream_t stream) { EXPECT_EQ(cudaLaunchHostFunc(stream, wait, this), cudaSuccess); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() {  // not before the stream has left it
    open();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return passed_; });
  }

  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  bool is_passed() {
    const std::lock_guard lock(mutex_);
    return passed_;
  }

 private:
  static void wait(void* self) {
    Gate& gate = *static_cast<Gate*>(self);
    std::unique_lock lock(gate.mutex_);
    gate.changed_.wait_for(lock, std::chrono::seconds(5), [&] { return gate.open_; });
    gate.passed_ = true;
    gate.changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false, passed_ = false;
};

inline const PlanOptions on_gpu{.device = Device::cuda};

inline Plan gpu_plan(const std::string& text) { return Plan::from_text(text, on_gpu); }

inline cli::Place place_of(cudaStream_t stream) { return {Device::cuda, 0, stream}; }

// A plan with data, and its memory. Inputs are in [0, 1), so that no result is NaN.
struct GpuRun {
  Plan plan;
  cli::Inputs inputs;
  cli::Execution execution;

  GpuRun(const std::string& text, std::uint64_t seed, const cli::ExecutionOptions& options)
      : plan(gpu_plan(text)), inputs(cli::make_inputs(plan, seed, cli::Fill::unit)), execution(plan, inputs, options) {}

  std::vector<double> result() {
    execution.execute();
    EXPECT_EQ(execution.defect(), "") << plan.text();
    return execution.output();
  }
};

// One case for each way that chains ask of an engine: alone, fused, staged over whole images, over pools.
inline const std::vector<std::string>& chain_cases() {
  static const std::vector<std::string> all{
      "conv_transpose2d batch=2 channels=5->7 input=33x37 kernel=3 stride=2 padding=1",
      "conv_transpose3d batch=2 channels=4->6 input=5x9x17 kernel=3 stride=2 | bias | max_pool(2) | max_pool(3) | sum",
      "conv_transpose3d dtype=bf16 channels=8->16 input=4x9x9 kernel=4 stride=2 padding=1 | layer_norm(channels) | "
      "gelu",
      "conv_transpose2d batch=3 channels=6->9 input=40x30 kernel=3 | instance_norm(affine) | silu | group_norm(3)",
      "conv_transpose2d dtype=f64 channels=3->4 input=20x21 kernel=5x3 stride=3 | avg_pool(3, stride=2) | add(0.5)",
      "conv_transpose1d dtype=f16 batch=2 channels=7->5 input=300 kernel=16 stride=8 padding=4 | relu | add(conv)",
      "conv_transpose2d layout=channels_last channels=4->6 input=25x31 kernel=2 stride=2 | tanh | global_avg_pool",
  };
  return all;
}

// Calls f(i, stream) for every i below `count`, from as many threads as there are CPUs, each with a stream of its own.
void in_parallel(std::size_t count, const std::function<void(std::size_t, cudaStream_t)>& f);

// A number from the environment.
std::size_t variable(const char* name, std::size_t otherwise);

}  // namespace convt::testing
