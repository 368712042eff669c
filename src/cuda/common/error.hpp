// SPDX-License-Identifier: Apache-2.0
// CUDA's errors as the library's.
#pragma once

#include <cuda_runtime_api.h>

namespace convt::core::cuda {

// Throws unless `error` is cudaSuccess: Error of status out_of_memory or device_error with
// "<what>: <name of the error>: <its text>". The runtime forgets the error; one that the device cannot recover from
// comes back at the next call by itself.
void check(cudaError_t error, const char* what);

// Ignores an error whose call changes nothing by failing: in destructors, or for memory that the driver has reclaimed.
void ignore(cudaError_t error) noexcept;

}  // namespace convt::core::cuda
