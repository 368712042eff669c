// SPDX-License-Identifier: Apache-2.0
// How a CUDA build tells memories apart. Skips, saying so, where there is no GPU.
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "convt/convt.h"
#include "gpu.hpp"

namespace convt::testing {
namespace {

constexpr std::size_t elements = 64;
enum class Memory { pageable, pinned, managed, device };

// y of one channel, 8 x 8, kernel 1: output and input have `elements` elements, the kernel one.
convt_status run(const float* input, const float* kernel, float* output) {
  return convt_conv_transpose_2d_square_input_asym_kernel_f32(input, kernel, output, 1, 1, 1, 8, 8, 1, 1, 1, 1, 0, 0, 0,
                                                              0, 1, 1, 1);
}

class Block {
 public:
  explicit Block(Memory memory) : memory_(memory) {
    void* data = nullptr;
    cudaError_t error = cudaSuccess;
    const std::size_t bytes = elements * sizeof(float);
    if (memory == Memory::pageable) data = ::operator new(bytes);
    if (memory == Memory::pinned) error = cudaMallocHost(&data, bytes);
    if (memory == Memory::managed) error = cudaMallocManaged(&data, bytes);
    if (memory == Memory::device) error = cudaMalloc(&data, bytes);
    EXPECT_EQ(error, cudaSuccess) << cudaGetErrorString(error);
    data_ = static_cast<float*>(data);
    const std::vector<float> values(elements, 1.5F);
    EXPECT_EQ(cudaMemcpy(data_, values.data(), bytes, cudaMemcpyDefault), cudaSuccess);
  }
  ~Block() {
    if (memory_ == Memory::pageable) ::operator delete(data_);
    if (memory_ == Memory::pinned) cudaFreeHost(data_);
    if (memory_ == Memory::managed || memory_ == Memory::device) cudaFree(data_);
  }
  Block(const Block&) = delete;
  float* data() const { return data_; }

 private:
  Memory memory_;
  float* data_;
};

#define SKIP_WITHOUT_GPU() \
  if (cli::gpu_count() == 0) GTEST_SKIP() << "no GPU on this machine"

// First, while nothing in this process has touched CUDA: a host call must not load the driver, let alone create a
// context.
TEST(Cuda, AHostCallsLeaveCudaAlone) {
  if (dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD) != nullptr) GTEST_SKIP() << "the driver is loaded already";
  std::vector<float> input(elements, 1.5F), kernel(1, 2.0F), output(elements);
  EXPECT_EQ(run(input.data(), kernel.data(), output.data()), CONVT_OK) << convt_last_error();
  EXPECT_EQ(output[elements - 1], 3.0F);
  EXPECT_EQ(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), nullptr);
}

// With the driver loaded and initialised but no context made, a host call makes none.
TEST(Cuda, BHostCallsCreateNoContext) {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY);
  if (driver == nullptr) GTEST_SKIP() << "no CUDA driver on this machine";
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto state = reinterpret_cast<int (*)(int, unsigned*, int*)>(dlsym(driver, "cuDevicePrimaryCtxGetState"));
  ASSERT_TRUE(init != nullptr && state != nullptr);
  if (init(0) != 0) GTEST_SKIP() << "no GPU on this machine";
  unsigned flags = 0;
  int active = -1;
  ASSERT_EQ(state(0, &flags, &active), 0);
  if (active != 0) GTEST_SKIP() << "there is a context already";
  std::vector<float> input(elements, 1.5F), kernel(1, 2.0F), output(elements);
  EXPECT_EQ(run(input.data(), kernel.data(), output.data()), CONVT_OK) << convt_last_error();
  ASSERT_EQ(state(0, &flags, &active), 0);
  EXPECT_EQ(active, 0);
}

TEST(Cuda, PinnedMemoryIsTheHosts) {
  SKIP_WITHOUT_GPU();
  const Block input(Memory::pinned), kernel(Memory::pinned), output(Memory::pinned);
  EXPECT_EQ(run(input.data(), kernel.data(), output.data()), CONVT_OK) << convt_last_error();
  EXPECT_EQ(output.data()[0], 2.25F);
  const Block pageable(Memory::pageable);
  EXPECT_EQ(run(pageable.data(), kernel.data(), output.data()), CONVT_OK) << convt_last_error();
}

TEST(Cuda, DeviceAndManagedMemoryAreTheDevices) {
  SKIP_WITHOUT_GPU();
  for (const Memory memory : {Memory::device, Memory::managed}) {
    const Block input(memory), kernel(memory), output(memory);
    EXPECT_EQ(run(input.data(), kernel.data(), output.data()), CONVT_OK) << convt_last_error();
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    float after = 0;
    ASSERT_EQ(cudaMemcpy(&after, output.data(), sizeof after, cudaMemcpyDefault), cudaSuccess);
    EXPECT_EQ(after, 2.25F);
  }
}

TEST(Cuda, DeviceAndManagedMemoryMeet) {
  SKIP_WITHOUT_GPU();
  const Block input(Memory::managed), kernel(Memory::device), output(Memory::managed);
  EXPECT_EQ(run(input.data(), kernel.data(), output.data()), CONVT_OK) << convt_last_error();
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(output.data()[elements - 1], 2.25F);
}

TEST(Cuda, MixedMemoryIsRefused) {
  SKIP_WITHOUT_GPU();
  const Block host(Memory::pageable), pinned(Memory::pinned), device(Memory::device), other(Memory::device);
  for (const Block* guest : {&host, &pinned}) {
    EXPECT_EQ(run(guest->data(), other.data(), device.data()), CONVT_INVALID_ARGUMENT);
    EXPECT_EQ(
        std::string(convt_last_error()),
        "input: must be where the other tensors are (it is in memory of the host, output in memory of CUDA device 0)");
    EXPECT_EQ(run(other.data(), device.data(), guest->data()), CONVT_INVALID_ARGUMENT);
  }
  EXPECT_EQ(host.data()[0], 1.5F);
}

TEST(Cuda, PlansKnowTheirDevice) {
  SKIP_WITHOUT_GPU();
  convt_plan* plan = nullptr;
  ASSERT_EQ(convt_plan_create_from_text(&plan, "conv_transpose2d channels=1->1 input=8 kernel=1", nullptr), CONVT_OK);
  const Block input(Memory::device), kernel(Memory::device), output(Memory::device);
  convt_tensors tensors = CONVT_TENSORS_INIT;
  tensors.input = input.data();
  tensors.kernel = kernel.data();
  tensors.output = output.data();
  EXPECT_EQ(convt_plan_execute(plan, &tensors), CONVT_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(convt_last_error()), "output: is in memory of CUDA device 0, but the plan is for the host");
  EXPECT_EQ(convt_plan_pack_kernel(plan, kernel.data(), nullptr), CONVT_INVALID_ARGUMENT);
  convt_plan_destroy(plan);
}

}  // namespace
}  // namespace convt::testing
