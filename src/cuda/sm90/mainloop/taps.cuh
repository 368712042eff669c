// SPDX-License-Identifier: Apache-2.0
// The offsets of taps in the halo tile.
#pragma once

#include "cuda/sm90/config/params.hpp"

namespace convt::core::cuda::sm90 {

// Walks the taps of a phase, by additions; in units of 16 bytes.
struct Walk {
  int offset, h, w;  // h, w: taps that are left
  int along_h, along_w, step, line, plane;

  __device__ Walk(const ConvParams& p, const Phase& c, int first)
      : offset(first),
        h(c.along_h),
        w(c.along_w),
        along_h(h),
        along_w(w),
        step(p.tap_step),
        line(c.line),
        plane(c.plane) {}
  template <int count>
  __device__ void take(int (&offsets)[count]) {
#pragma unroll
    for (int& at : offsets) {
      at = offset;
      next();
    }
  }
  __device__ void next() {
    offset += step;
    if (--w > 0) return;
    w = along_w;
    offset += line;
    if (--h > 0) return;
    h = along_h;
    offset += plane;
  }
};

// Reads them from the list ConvParams::tap_offsets.
struct Listed {
  const ConvParams& p;
  int first, tap;

  template <int count>
  __device__ void take(int (&offsets)[count]) {
#pragma unroll
    for (int i = 0; i < count; ++i) offsets[i] = first + p.tap_offsets[tap + i];
    tap += count;
  }
};

}  // namespace convt::core::cuda::sm90
