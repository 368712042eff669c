// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "cuda/schedule/convolver.hpp"
#include "cuda/sm90/host/choice.hpp"
#include "cuda/sm90/host/outputs.hpp"

namespace convt::core::cuda::sm90 {

// What the first kernel (with a range guard) leaves for the fallback kernel (scheduler/fallback.cuh).
struct FallbackLink {
  Flags weight_guard;                         // ConvParams::weight_guard
  unsigned char* range_flags = nullptr;       // written by the first kernel
  int* list = nullptr;                        // written by the fallback kernel
  TileAssignment assignment{};                // of the first kernel
  std::array<std::size_t, 3> order{0, 1, 2};  // of its axes
};
class HopperConvolver : public Convolver {
 public:
  // Whether all of a chain runs in registers: of steps [begin, end), or of a job.
  virtual bool steps_run_in_registers(std::size_t begin, std::size_t end) const = 0;
  virtual bool runs_in_registers(const ConvJob& job) const = 0;
  virtual bool runs_in_registers(const PlannedJob& job) const = 0;
  // The launches of a job, and one of them. Each has a window of phases (host/phase_window.hpp).
  virtual int launches() const = 0;
  virtual void convolve(const ConvJob& job, int launch, FallbackLink& link) const = 0;
  void convolve(const ConvJob& job) const override {
    for (int launch = 0; launch < launches(); ++launch) {
      FallbackLink none;
      convolve(job, launch, none);
    }
  }
  // An upper bound of the work tiles of a launch.
  virtual std::int64_t most_work_tiles() const = 0;
  // What packing found about the weights that the job uses.
  virtual Flags packed_flags(const ConvJob& job) const = 0;
};

std::shared_ptr<const HopperConvolver> make_convolver(std::shared_ptr<const Program> program,
                                                      const DeviceProperties& device, const Choice& choice);
// A convolver that launches a kernel with a range guard, then its fallback kernel.
std::shared_ptr<const Convolver> make_guarded_convolver(std::shared_ptr<const Program> program,
                                                        std::shared_ptr<const HopperConvolver> first,
                                                        std::shared_ptr<const HopperConvolver> second,
                                                        const DeviceProperties& device);

}  // namespace convt::core::cuda::sm90
