// SPDX-License-Identifier: Apache-2.0
#include <cassert>
#include <cmath>
#include <utility>

#include "cuda/sm90/convolver.hpp"

namespace convt::core::cuda::sm90 {
namespace {

// Of a kernel that is not wanted, and of packing for it: so many bytes a second. What the first saves is more than what
// is predicted (docs/hopper-notes.md): of 48 cases over 60 us 44 were faster, by up to 66 %, four slower, by 1 to 5.
constexpr double stand_in_seconds = 4e-6, pack_rate = 4e12, saved = 0.9;

class HalvedConvolver : public Convolver {
 public:
  HalvedConvolver(std::shared_ptr<const Program> program, std::shared_ptr<const HopperConvolver> first,
                  std::shared_ptr<const HopperConvolver> second, const DeviceProperties& device)
      : program_(std::move(program)), first_(std::move(first)), second_(std::move(second)), device_(device) {}

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
  double scratch_bytes() const override { return static_cast<double>(sampled_at()) + sample_blocks; }
  void convolve(const ConvJob& job) const override;

 private:
  // Of what is packed: behind the first one's.
  // Of flags: of loaded inputs, then of sampled ones.
  std::size_t sampled_at() const {
    return std::size_t{16} * static_cast<std::size_t>(flag_loads(device_.multiprocessors));
  }
  double second_at() const { return std::ceil(first_->packed_bytes() / packed_header) * packed_header; }

  void sample(const ConvJob& job, unsigned char* flags) const;

  std::shared_ptr<const Program> program_;
  std::shared_ptr<const HopperConvolver> first_, second_;
  DeviceProperties device_;
};

void HalvedConvolver::sample(const ConvJob& job, unsigned char* flags) const {
  const Descriptor& asked = *program_->asked;
  const Strides step = strides_of(asked.input_layout, asked.input);
  const Axes& size = asked.input.space;
  SampleParams p;
  p.input = static_cast<const float*>(job.input) + job.slab.images.begin * step.n;
  p.flags = flags;
  const auto narrow = [](std::int64_t value) { return static_cast<unsigned>(std::min(value, std::int64_t{1} << 31)); };
  p.images = narrow(job.slab.images.size());
  p.channels = narrow(asked.input.channels);
  p.pixels = narrow(volume(size));
  std::ranges::transform(size, p.size, narrow);
  p.image_step = step.n;
  p.channel_step = step.c;
  std::ranges::copy(std::array{step.d, step.h, step.w}, p.step);
  launch_sample(p, job.stream, job.early);
}

void HalvedConvolver::convolve(const ConvJob& job) const {
  ConvJob again = job;
  again.packed += static_cast<std::size_t>(second_at());
  if (!first_->has_short_chain(job)) return second_->convolve(again);
  auto* const seen = reinterpret_cast<unsigned char*>(job.scratch);
  unsigned char* const sampled = seen + sampled_at();
  sample(job, sampled);
  ConvJob first = job;
  first.early = again.early = true;  // each waits for the one before it
  Relay relay{.seen = seen, .guards = {first_->packed_flags(job), {sampled, flag_loads(sample_blocks)}, {}}};
  const int flags = first_->convolve(first, relay);
  assert(flags <= device_.multiprocessors);
  relay.guards[2] = {seen, flag_loads(flags)};
  second_->convolve(again, relay);
}

}  // namespace

std::shared_ptr<const Convolver> make_halved_convolver(std::shared_ptr<const Program> program,
                                                       std::shared_ptr<const HopperConvolver> first,
                                                       std::shared_ptr<const HopperConvolver> second,
                                                       const DeviceProperties& device) {
  return std::make_shared<const HalvedConvolver>(std::move(program), std::move(first), std::move(second), device);
}

}  // namespace convt::core::cuda::sm90
