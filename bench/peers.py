# SPDX-License-Identifier: Apache-2.0
"""The peers on a CPU beside PyTorch's modes: ONNX Runtime, and the sgemm of PyTorch's BLAS."""

import torch

from timing import Contender

SGEMM_SIZE = 2048
SGEMM_FLOP = 2 * SGEMM_SIZE**3


def onnx_runtime(workload, threads):
    import onnx_graph  # pylint: disable=import-outside-toplevel  # without it, this peer alone does not take part
    import onnxruntime  # pylint: disable=import-outside-toplevel
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    # Its threads spin between the ops of a run, as by default, but not for tens of milliseconds after it.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = onnxruntime.InferenceSession(onnx_graph.build(workload), options, providers=["CPUExecutionProvider"])
    output = workload.empty_output()
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
