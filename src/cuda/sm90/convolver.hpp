// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/generic/convolver.hpp"
#include "cuda/sm90/tiles.hpp"

namespace convt::core::cuda::sm90 {

// One way of cutting: a tile for chains that run in registers; one for those of them whose results cannot be stored as
// wide ones, twins or rows are, for their dtype, layout or distances; one for pools that run in registers too; and one
// for all others.
struct Choice {
  Geometry geometry;
  Tile quick, narrow, folded, strip;
};

// How a kernel of f16 in place of tf32 and the one of tf32 behind it (halved.cuh) tell each other what is to be done.
struct Relay {
  unsigned char* seen = nullptr;  // where the first leaves flags
  Flags guards[3];                // as ConvParams has them
};
class HopperConvolver : public Convolver {
 public:
  // Whether it has all of a chain in registers: of steps [begin, end), of a job.
  virtual bool has_short_steps(std::size_t begin, std::size_t end) const = 0;
  virtual bool has_short_chain(const ConvJob& job) const = 0;
  // Returns its blocks, each of which leaves a flag.
  virtual int convolve(const ConvJob& job, const Relay& relay) const = 0;
  void convolve(const ConvJob& job) const override { convolve(job, {}); }
  // What packing told of weights; of the last tensor that it packed there.
  virtual Flags packed_flags(const ConvJob& job) const = 0;
};

// Whether kernels of short chains can store there: they count some steps of an output with so many phases of each axis
// in 32 bits.
bool has_near_results(const Strides& to, const Axes& phases);

std::shared_ptr<const HopperConvolver> make_convolver(std::shared_ptr<const Program> program,
                                                      const DeviceProperties& device, const Choice& choice);
// The first, of f16 in place of tf32, and the second, of tf32, where that does not do.
std::shared_ptr<const Convolver> make_halved_convolver(std::shared_ptr<const Program> program,
                                                       std::shared_ptr<const HopperConvolver> first,
                                                       std::shared_ptr<const HopperConvolver> second,
                                                       const DeviceProperties& device);

}  // namespace convt::core::cuda::sm90
