# SPDX-License-Identifier: Apache-2.0
"""The peers: PyTorch in several modes (oneDNN, which it carries, computes its float32 convolutions), ONNX Runtime, and
the sgemm of PyTorch's BLAS. Each gets its weights in the form it likes best before the clock runs, and allocates its
result as it always does."""

import onnxruntime
import torch

import onnx_graph
from timing import Contender
from workload import CHANNELS_LAST

SGEMM_SIZE = 2048
SGEMM_FLOP = 2 * SGEMM_SIZE**3


def eager(workload):
    model = workload.model()
    return Contender("PyTorch", lambda: model(workload.input), peer=True)


def channels_last(workload):
    """Input and weights in channels_last; the result in whatever layout PyTorch gives it."""
    memory_format = CHANNELS_LAST[workload.case.dims]
    model, x = workload.model(memory_format=memory_format), workload.input.contiguous(memory_format=memory_format)
    return Contender("PyTorch channels_last", lambda: model(x), peer=True, layout="channels_last")


def compiled(workload):
    torch.compiler.reset()
    model = torch.compile(workload.model(), dynamic=False)
    return Contender("torch.compile", lambda: model(workload.input), peer=True)


def onnx_runtime(workload, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    # Its threads spin between the ops of a run, as by default, but not for tens of milliseconds after it.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = onnxruntime.InferenceSession(onnx_graph.build(workload), options, providers=["CPUExecutionProvider"])
    output = torch.full(workload.plan.output.shape, torch.nan)
    # Bound memory: a plain run() copies the result once more.
    binding = session.io_binding()
    for bind, node, tensor in ((binding.bind_input, session.get_inputs()[0], workload.input),
                               (binding.bind_output, session.get_outputs()[0], output)):
        bind(node.name, "cpu", 0, "float32", tuple(tensor.shape), tensor.data_ptr())

    def call():
        session.run_with_iobinding(binding)
        return output
    return Contender("ONNX Runtime", call, peer=True)


def sgemm():
    a, b = torch.rand(SGEMM_SIZE, SGEMM_SIZE), torch.rand(SGEMM_SIZE, SGEMM_SIZE)
    c = torch.empty(SGEMM_SIZE, SGEMM_SIZE)
    return Contender("sgemm", lambda: torch.mm(a, b, out=c))
