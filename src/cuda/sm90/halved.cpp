// SPDX-License-Identifier: Apache-2.0
#include <cassert>
#include <cmath>
#include <utility>

#include "cuda/sm90/convolver.hpp"

namespace convt::core::cuda::sm90 {
namespace {

constexpr int most_warps = 8;  // that fill halo tiles
constexpr bool has_few(Way way) { return team_of(way).producers * group_warps <= most_warps; }
static_assert(has_few(Way::single) && has_few(Way::paired) && has_few(Way::twin) && has_few(Way::rows) &&
              has_few(Way::deep) && has_few(Way::folded) && has_few(Way::pooled) && has_few(Way::march) &&
              has_few(Way::wide) && team_of(Way::deep, most_columns).producers * group_warps <= most_warps);
// Of a kernel that is not wanted, and of packing for it: so many bytes a second. What the first saves is more than what
// is predicted (docs/hopper-notes.md): of 48 cases over 60 us 44 were faster, by up to 66 %, four slower, by 1 to 5.
constexpr double stand_in_seconds = 4e-6, pack_rate = 4e12, saved = 0.9;

class HalvedConvolver : public Convolver {
 public:
  HalvedConvolver(std::shared_ptr<const HopperConvolver> first, std::shared_ptr<const HopperConvolver> second,
                  const DeviceProperties& device)
      : first_(std::move(first)), second_(std::move(second)), device_(device) {}

  std::int64_t mixed_channels() const override { return second_->mixed_channels(); }
  std::optional<std::size_t> pools(std::size_t begin, std::size_t pool, std::size_t end) const override {
    const auto taken = first_->pools(begin, pool, end);
    return taken == second_->pools(begin, pool, end) ? taken : std::nullopt;
  }
  Blocks blocks(const Axes& box) const override { return first_->blocks(box); }
  double seconds(std::int64_t images, const Axes& box, bool pools) const override {
    return saved * first_->seconds(images, box, pools) + stand_in_seconds + second_->packed_bytes() / pack_rate;
  }
  std::string why_not(std::size_t begin, std::size_t end) const override {
    return first_->has_short_steps(begin, end) ? "" : "its chain runs in strips, behind tf32";
  }
  std::string explain(bool pools) const override { return first_->explain(pools); }

  double packed_bytes() const override { return second_at() + second_->packed_bytes(); }
  void pack(const void* kernel, convt_dtype dtype, void* packed, cudaStream_t stream, bool early) const override {
    first_->pack(kernel, dtype, packed, stream, early);
    second_->pack(kernel, dtype, static_cast<std::byte*>(packed) + static_cast<std::size_t>(second_at()), stream, true);
  }
  double scratch_bytes() const override { return 16.0 * flag_loads(most_warps * device_.multiprocessors); }
  void convolve(const ConvJob& job) const override;

 private:
  // Of what is packed: behind the first one's.
  double second_at() const { return std::ceil(first_->packed_bytes() / packed_header) * packed_header; }

  std::shared_ptr<const HopperConvolver> first_, second_;
  DeviceProperties device_;
};

void HalvedConvolver::convolve(const ConvJob& job) const {
  ConvJob again = job;
  again.packed += static_cast<std::size_t>(second_at());
  if (!first_->has_short_chain(job)) return second_->convolve(again);
  auto* const seen = reinterpret_cast<unsigned char*>(job.scratch);
  const int flags = first_->convolve(job, {.seen = seen, .wanted = {}});
  assert(flags <= most_warps * device_.multiprocessors);
  again.early = true;  // it waits for the first
  second_->convolve(again, {.seen = nullptr, .wanted = {{seen, flag_loads(flags)}, first_->packed_flags(job)}});
}

}  // namespace

std::shared_ptr<const Convolver> make_halved_convolver(std::shared_ptr<const HopperConvolver> first,
                                                       std::shared_ptr<const HopperConvolver> second,
                                                       const DeviceProperties& device) {
  return std::make_shared<const HalvedConvolver>(std::move(first), std::move(second), device);
}

}  // namespace convt::core::cuda::sm90
