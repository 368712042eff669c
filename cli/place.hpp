// SPDX-License-Identifier: Apache-2.0
// Where a command's tensors are: on the host, or on a GPU.
#pragma once

#include <string>

#include "convt/convt.hpp"

namespace convt::cli {

// What the option --device takes.
inline constexpr const char* device_help =
    "Where the tensors are: cpu, cuda, cuda:N, or auto, the first GPU that there is and the engine runs on, else cpu";

// Sets the options' device to what the text names. Asks for a GPU's presence where the text is "auto", and only there;
// the options' engine must be set by then.
void set_device(PlanOptions& options, const std::string& text);

// "" on the host, else e.g. ", on CUDA device 0 (NVIDIA H200)".
std::string place_text(const PlanOptions& options);

}  // namespace convt::cli
