// SPDX-License-Identifier: Apache-2.0
// A call of a named problem's C function with data, on the host and on the GPU.
#pragma once

#include <cstdint>
#include <vector>

#include "gpu/support.hpp"
#include "support/named_functions.hpp"

namespace convt::testing {

class NamedCall {
 public:
  NamedCall(const NamedFunction& function, std::vector<std::size_t> sizes, DType dtype = DType::f32,
            std::uint64_t seed = 1);

  // On the calling thread's stream; returns as the library does.
  convt_status launch() const;
  // Waits for the stream that launched it.
  std::vector<double> output(cudaStream_t stream) const;
  // What the same function computes on the host.
  std::vector<double> on_host() const;

  enum Tensor { input, kernel, bias, result };
  // On the GPU.
  std::byte* address(Tensor tensor) const { return gpu_[tensor].data(); }
  std::size_t bytes(Tensor tensor) const;

 private:
  const NamedFunction& function_;
  std::vector<std::size_t> sizes_;
  DType dtype_;
  std::vector<cli::Tensor> host_;
  std::vector<cli::GpuMemory> gpu_;
};

// The calling thread's stream, for as long as it lives.
class WithStream {
 public:
  explicit WithStream(cudaStream_t stream) : before_(convt_get_stream()) { convt_set_stream(stream); }
  WithStream(const WithStream&) = delete;
  WithStream& operator=(const WithStream&) = delete;
  ~WithStream() { convt_set_stream(before_); }

 private:
  void* before_;
};

}  // namespace convt::testing
