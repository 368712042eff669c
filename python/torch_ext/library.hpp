// SPDX-License-Identifier: Apache-2.0
// libconvt's functions, found in the library that the Python package has loaded.
#pragma once

#include "convt/convt.h"

namespace convt_torch {

struct Library {
  decltype(&convt_last_error) last_error;
  decltype(&convt_set_num_threads) set_num_threads;
  decltype(&convt_plan_create_from_text) plan_create_from_text;
  decltype(&convt_plan_destroy) plan_destroy;
  decltype(&convt_plan_output_info) plan_output_info;
  decltype(&convt_plan_operand_count) plan_operand_count;
  decltype(&convt_plan_operand_info) plan_operand_info;
  decltype(&convt_plan_workspace_size) plan_workspace_size;
  decltype(&convt_plan_pack_kernel) plan_pack_kernel;
  decltype(&convt_plan_execute) plan_execute;
};

// Throws where convt_torch_bind() was not called.
const Library& library();

// The stream on which PyTorch enqueues work for a CUDA device, and whether it is being captured into a graph.
void* current_stream(int device_index);
bool is_capturing(void* stream);

// Whether PyTorch's switches now allow TF32 in convolutions on a device; -1 is the CPU.
bool allows_tf32(int device_index);

}  // namespace convt_torch
