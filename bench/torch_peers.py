# SPDX-License-Identifier: Apache-2.0
"""PyTorch in several modes, on the device where the workload's tensors are: oneDNN, which it carries, computes its
convolutions on a CPU, cuDNN on a GPU. Each mode gets its weights in the form it likes best before the clock runs, and
allocates its result as it always does."""

import torch

from timing import Contender
from workload import CHANNELS_LAST


def eager(workload):
    model = workload.model()
    return Contender("PyTorch", lambda: model(workload.input), peer=True)


def channels_last(workload):
    """Input and weights in channels_last; the result in whatever layout PyTorch gives it."""
    memory_format = CHANNELS_LAST[workload.case.dims]
    model, x = workload.model(memory_format=memory_format), workload.input.contiguous(memory_format=memory_format)
    return Contender("PyTorch channels_last", lambda: model(x), peer=True, layout="channels_last")


def compiled(workload, mode=None):
    torch.compiler.reset()
    model = torch.compile(workload.model(), dynamic=False, mode=mode)
    return Contender("torch.compile", lambda: model(workload.input), peer=True)
