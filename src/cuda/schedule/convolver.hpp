// SPDX-License-Identifier: Apache-2.0
// The interface of a schedule's convolution, with the chain that follows it. CUDA engines differ in this part only.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "cuda/chain/bind.hpp"
#include "cuda/common/device.hpp"
#include "cuda/schedule/prediction.hpp"

namespace convt::core::cuda {

// One slab of the convolution's result. It goes through a chain, perhaps a pool and another chain, to a view.
struct ConvJob {
  const void* input = nullptr;        // the tensor whose images the slab counts
  Strides input_step;                 // of `input`: dense, unless the convolver reads ranges
  const std::byte* packed = nullptr;  // the kernel
  std::byte* scratch = nullptr;       // memory for this call, of scratch_bytes()
  Slab slab;
  View to;
  Chain chain;
  const Step* pool = nullptr;
  Chain behind;
  cudaStream_t stream = nullptr;
  // The stream's last kernels compute constants or pack weights for this call. The convolution may begin before they
  // end; the input is complete even then.
  bool early = false;
};

// A job as planning knows it: without addresses.
struct PlannedJob {
  static constexpr std::size_t no_pool = static_cast<std::size_t>(-1);

  std::int64_t images = 1;
  Axes box{1, 1, 1};               // of the convolution's result
  std::size_t begin = 0, end = 0;  // the program's steps that follow it, the pool included
  std::size_t pool = no_pool;      // the pool among them
  View to;                         // without data: aligned

  // The steps before the pool, and after it.
  std::size_t chain_end() const { return pool == no_pool ? end : pool; }
  std::size_t behind() const { return pool == no_pool ? end : pool + 1; }
};

class Convolver {
 public:
  virtual ~Convolver() = default;

  std::string rejection;  // why it cannot run the program's convolution

  // Whether it reads an input that is a range of a wider tensor's channels. If not, it gets a dense copy.
  virtual bool reads_ranges() const { return false; }
  // The most channels that a chain after the convolution, in its launch, may mix.
  virtual std::int64_t mixed_channels() const = 0;
  // Whether steps [begin, end), in the convolution's launch, may use the convolution's own result and values that they
  // keep by name.
  virtual bool keeps_values(std::size_t, std::size_t) const { return false; }
  // Whether one launch can run the convolution, steps [begin, pool) and the pool. If so, the number of steps of
  // [pool + 1, end) that it takes, too.
  virtual std::optional<std::size_t> pools(std::size_t begin, std::size_t pool, std::size_t end) const = 0;
  // "" if it can run steps [begin, end) after the convolution in one launch; else the reason why not.
  virtual std::string why_not(std::size_t, std::size_t) const { return ""; }
  // An upper bound of the blocks of a launch for a slab with this box: `least`, and `per_pixel` for each pixel.
  struct Blocks {
    double least = 1, per_pixel = 1;
  };
  virtual Blocks blocks(const Axes& box) const = 0;
  // The predicted time of a job, without the bytes of the call's tensors.
  virtual Prediction predict(const PlannedJob& job) const = 0;
  virtual std::string explain(const PlannedJob& job) const = 0;  // one line: how the job runs

  // Packing starts from the kernel that the program convolves with: the asked one, or a changed one in `dtype`.
  virtual double packed_bytes() const = 0;
  // early: packing may begin before the stream's last kernel, which does not touch `kernel`, has ended.
  virtual void pack(const void* kernel, convt_dtype dtype, void* packed, cudaStream_t stream, bool early) const = 0;
  // Bytes of device memory that each call needs for itself.
  virtual double scratch_bytes() const { return 0; }
  virtual void convolve(const ConvJob& job) const = 0;
};

// Bytes before packed weights, for the flag of weights that are not finite; also the alignment of packed kernels.
inline constexpr std::size_t packed_header = 256;

// The limit of box sizes, shifts and clamps in kernels' parameters: sums of a few fit an int.
inline constexpr std::int64_t most_inside = std::int64_t{1} << 29;
inline int clamp_inside(std::int64_t value) { return static_cast<int>(std::clamp(value, -most_inside, most_inside)); }

// The phase and the position of a box's first output along an axis.
struct Lead {
  std::int64_t phase, position;
};
inline Lead lead_of(std::int64_t origin, std::int64_t padding, std::int64_t stride) {
  const std::int64_t first = origin + padding;
  const std::int64_t position = first / stride - (first % stride < 0);
  return {first - position * stride, position};
}

}  // namespace convt::core::cuda
