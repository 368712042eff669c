// SPDX-License-Identifier: Apache-2.0
// Included first by every source of this folder, which CMake compiles once per line of src/cpu/isas.def, with
// CONVT_ISA (its name) and CONVT_HWY_TARGET (Highway's). All of a source's code stands between HWY_BEFORE_NAMESPACE()
// and HWY_AFTER_NAMESPACE(), in the namespace CONVT_ISA: nothing compiled for an instruction set can be taken for
// shared code.
#pragma once

#include <hwy/detect_targets.h>
#undef HWY_TARGET
#define HWY_TARGET CONVT_HWY_TARGET
#include <hwy/highway.h>
