// SPDX-License-Identifier: Apache-2.0
#include "place.hpp"

#include <charconv>

#include "gpu.hpp"
#include "print.hpp"

namespace convt::cli {
namespace {

bool runs_on_first_gpu(PlanOptions options) {
  if (gpu_count() == 0) return false;
  options.device = Device::cuda;
  try {
    Plan::from_text("conv_transpose1d channels=1->1 input=1 kernel=1", options);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void set_device(PlanOptions& options, const std::string& text) {
  if (text == "cpu" || (text == "auto" && !runs_on_first_gpu(options))) return;
  options.device = Device::cuda;
  if (text == "cuda" || text == "auto") return;
  const std::string prefix = "cuda:";
  const char* end = text.data() + text.size();
  if (text.starts_with(prefix) && text.size() > prefix.size()) {
    const auto [stop, error] = std::from_chars(text.data() + prefix.size(), end, options.device_index);
    if (error == std::errc() && stop == end && options.device_index >= 0) return;
  }
  throw Error(Status::invalid_argument, formatted("--device must be auto, cpu, cuda or cuda:N (got '{}')", text));
}

std::string place_text(const PlanOptions& options) {
  if (options.device == Device::cpu) return "";
  return formatted(", on CUDA device {} ({})", options.device_index, gpu_name(options.device_index));
}

}  // namespace convt::cli
