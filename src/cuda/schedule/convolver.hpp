// SPDX-License-Identifier: Apache-2.0
// The convolution of a schedule, with a chain behind it: what engines of CUDA devices differ in.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "cuda/chain/bind.hpp"
#include "cuda/common/device.hpp"

namespace convt::core::cuda {

// A slab of the convolution's result, through the chain, perhaps pooled and through another chain, to a view.
struct ConvJob {
  const void* input = nullptr;        // the tensor from which the slab's images are counted
  Strides input_step;                 // its own, dense unless the convolver reads ranges
  const std::byte* packed = nullptr;  // the kernel
  std::byte* scratch = nullptr;       // of this call, as much as the convolver asked for
  Slab slab;
  View to;
  Chain chain;
  const Step* pool = nullptr;
  Chain behind;
  cudaStream_t stream = nullptr;
  // Constants or packing of this call are what the stream did last: it may begin meanwhile. The input is complete even
  // then.
  bool early = false;
};

class Convolver {
 public:
  virtual ~Convolver() = default;

  std::string rejection;  // why it cannot run the program's convolution

  // Whether it reads an input that is a range of a wider tensor's channels; else it is given a dense copy.
  virtual bool reads_ranges() const { return false; }
  // A chain behind the convolution may mix channels where there are at most so many.
  virtual std::int64_t mixed_channels() const = 0;
  // Whether the chain of steps [begin, end) behind it, in one launch, may use the convolution's own result.
  virtual bool keeps_conv(std::size_t, std::size_t) const { return false; }
  // The same in one launch: steps [begin, pool) behind the convolution, the pool, and then how many of [pool + 1, end)
  // it takes; none where it cannot pool.
  virtual std::optional<std::size_t> pools(std::size_t begin, std::size_t pool, std::size_t end) const = 0;
  // Whether it is for a chain of steps [begin, end) behind it, in one launch; "", or why another convolver is.
  virtual std::string why_not(std::size_t, std::size_t) const { return ""; }
  // Blocks of a launch, at most: so many for any slab with this box of one image, and more for each pixel.
  struct Blocks {
    double least = 1, per_pixel = 1;
  };
  virtual Blocks blocks(const Axes& box) const = 0;
  // Predicted, of a launch for so many images with this box.
  virtual double seconds(std::int64_t images, const Axes& box, bool pools) const = 0;
  virtual std::string explain(bool pools) const = 0;  // a line

  // From a kernel as the program convolves with it: the asked one, or a changed one in `dtype`.
  virtual double packed_bytes() const = 0;
  // early: it may begin before the stream's last kernel has ended, which has nothing to do with `kernel`.
  virtual void pack(const void* kernel, convt_dtype dtype, void* packed, cudaStream_t stream, bool early) const = 0;
  // Of device memory that each call has for itself.
  virtual double scratch_bytes() const { return 0; }
  virtual void convolve(const ConvJob& job) const = 0;
};

// Bytes before packed weights: whether all are finite.
inline constexpr std::size_t packed_header = 256;

// Sizes of boxes, shifts and clamps that kernels are told stay under this, so that their sums fit an int with room to
// spare.
inline constexpr std::int64_t most_inside = std::int64_t{1} << 29;
inline int clamp_inside(std::int64_t value) { return static_cast<int>(std::clamp(value, -most_inside, most_inside)); }

// Where a box's first output is along an axis: its phase, and its position.
struct Lead {
  std::int64_t phase, position;
};
inline Lead lead_of(std::int64_t origin, std::int64_t padding, std::int64_t stride) {
  const std::int64_t first = origin + padding;
  const std::int64_t position = first / stride - (first % stride < 0);
  return {first - position * stride, position};
}

}  // namespace convt::core::cuda
