// SPDX-License-Identifier: Apache-2.0
#include "convt/convt.hpp"
#include "gpu.hpp"

namespace convt::cli {
namespace {

[[noreturn]] void refuse() { throw Error(Status::unsupported, "this build has no CUDA"); }

}  // namespace

int gpu_count() { return 0; }
std::string gpu_name(int) { refuse(); }
void wait_for_gpu(void*) { refuse(); }

GpuMemory::GpuMemory(int, std::size_t) { refuse(); }
void GpuMemory::Free::operator()(std::byte*) const {}
void GpuMemory::write(std::span<const std::byte>, void*) const { refuse(); }
void GpuMemory::read(std::span<std::byte>, void*) const { refuse(); }

}  // namespace convt::cli
