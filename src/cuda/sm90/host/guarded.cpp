// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <utility>

#include "cuda/sm90/host/convolver.hpp"

namespace convt::core::cuda::sm90 {
namespace {

// fallback_seconds: a fallback kernel that finds nothing to do. saved: f16 takes this part of the predicted time. With
// these, f16 was faster in 44 of 48 cases over 60 us, by up to 66 %, and slower in four, by 1 to 5 %
// (docs/hopper-notes.md).
constexpr double fallback_seconds = 4e-6, saved = 0.9;

class GuardedConvolver : public Convolver {
 public:
  GuardedConvolver(std::shared_ptr<const Program> program, std::shared_ptr<const HopperConvolver> first,
                   std::shared_ptr<const HopperConvolver> second, const DeviceProperties& device)
      : program_(std::move(program)), first_(std::move(first)), second_(std::move(second)), device_(device) {}

  std::int64_t mixed_channels() const override { return second_->mixed_channels(); }
  std::optional<std::size_t> pools(std::size_t begin, std::size_t pool, std::size_t end) const override {
    const auto taken = first_->pools(begin, pool, end);
    return taken == second_->pools(begin, pool, end) ? taken : std::nullopt;
  }
  bool keeps_values(std::size_t begin, std::size_t end) const override {
    return first_->keeps_values(begin, end) && second_->keeps_values(begin, end);
  }
  Blocks blocks(const Axes& box) const override { return first_->blocks(box); }
  Prediction predict(const PlannedJob& job) const override {
    if (!first_->runs_in_registers(job)) return second_->predict(job);
    Prediction p = saved * first_->predict(job);
    p.add(Prediction::launches, fallback_seconds);
    return p;
  }
  std::string why_not(std::size_t begin, std::size_t end) const override {
    if (!first_->steps_run_in_registers(begin, end)) return "its chain runs in strips, which multiply without f16";
    return second_->why_not(begin, end);
  }
  std::string explain(const PlannedJob& job) const override {
    return (first_->runs_in_registers(job) ? first_ : second_)->explain(job);
  }

  double packed_bytes() const override { return second_at() + second_->packed_bytes(); }
  void pack(const void* kernel, convt_dtype dtype, void* packed, cudaStream_t stream, bool early) const override {
    first_->pack(kernel, dtype, packed, stream, early);
    second_->pack(kernel, dtype, static_cast<std::byte*>(packed) + static_cast<std::size_t>(second_at()), stream, true);
  }
  // Scratch memory: flags of the first kernel's blocks, then lists of the fallback kernel's work tiles.
  double scratch_bytes() const override {
    return static_cast<double>(lists_at()) + sizeof(int) * (static_cast<double>(second_->most_work_tiles()) +
                                                            device_.multiprocessors * (list_header + 4.0));
  }
  void convolve(const ConvJob& job) const override;

 private:
  std::size_t lists_at() const {
    return std::size_t{16} * static_cast<std::size_t>(flag_loads(device_.multiprocessors));
  }
  // The offset of the fallback kernel's packed weights.
  double second_at() const { return std::ceil(first_->packed_bytes() / packed_header) * packed_header; }

  std::shared_ptr<const Program> program_;
  std::shared_ptr<const HopperConvolver> first_, second_;
  DeviceProperties device_;
};

void GuardedConvolver::convolve(const ConvJob& job) const {
  ConvJob again = job;
  again.packed += static_cast<std::size_t>(second_at());
  if (!first_->runs_in_registers(job)) return second_->convolve(again);
  again.early = true;  // it waits for the first kernel
  for (int launch = 0; launch < first_->launches(); ++launch) {
    FallbackLink link{.weight_guard = first_->packed_flags(job),
                      .range_flags = reinterpret_cast<unsigned char*>(job.scratch),
                      .list = reinterpret_cast<int*>(job.scratch + lists_at())};
    first_->convolve(job, launch, link);
    second_->convolve(again, launch, link);
  }
}

}  // namespace

std::shared_ptr<const Convolver> make_guarded_convolver(std::shared_ptr<const Program> program,
                                                        std::shared_ptr<const HopperConvolver> first,
                                                        std::shared_ptr<const HopperConvolver> second,
                                                        const DeviceProperties& device) {
  return std::make_shared<const GuardedConvolver>(std::move(program), std::move(first), std::move(second), device);
}

}  // namespace convt::core::cuda::sm90
