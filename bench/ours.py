# SPDX-License-Identifier: Apache-2.0
"""convt as a contender: through a named problem's C function, and through a plan."""

import torch

from timing import Contender
from workload import convt_abi

LETTERS = "dhw"
SPACE = ("depth", "height", "width")


def threads(count):
    def use():
        convt_abi.check(convt_abi.lib.convt_set_num_threads(count))
    return use


def precision(name):
    def use():
        convt_abi.check(convt_abi.lib.convt_set_float32_precision(convt_abi.PRECISIONS.index(name)))
    return use


def arguments(case, description):
    """The sizes and scalars of a named problem's function, in its order. A scalar's value is in the case, at the place
    where the problem's chain names it."""
    values = {"batch_size": case.batch, "in_channels": case.channels[0], "out_channels": case.channels[1],
              "groups": case.groups}
    for axis, (letter, space) in enumerate(zip(LETTERS[-case.dims:], SPACE[-case.dims:])):
        values[space] = case.axes["input"][axis]
        values |= {f"{name}_{letter}": sizes[axis] for name, sizes in case.axes.items()}
    names, stages = description["parameters"].split(), description["chain"].split("|")
    for name in set(names) - set(values):
        position = next(i for i, stage in enumerate(stages) if f"({name})" in stage)
        values[name] = float(case.chain[position].parameters["other"])
    return [values[name] for name in names]


def named_problem(workload, description, before, name="convt", entry_point=convt_abi.entry_point):
    """The C function, with everything that it does in a call; on a GPU, on the thread's stream."""
    output = workload.empty_output()
    tensors = [workload.input, workload.kernel, *workload.operands, output]
    values = arguments(workload.case, description)
    scalars = sum(isinstance(value, float) for value in values)
    function = entry_point(description["slug"], workload.plan.input.dtype, len(tensors), len(values) - scalars, scalars)
    passed = [tensor.data_ptr() for tensor in tensors] + values

    def call():
        convt_abi.check(function(*passed))
        return output
    return Contender(name, call, before=before)


def in_memory(tensor, info):
    """A view in the order of memory: what is bound must be contiguous."""
    return tensor.movedim(1, -1) if info.layout == "channels_last" else tensor


def plan(workload, before, stream=None):
    """A plan made beforehand, without a packed kernel: weights are packed in each call. On a GPU, on that stream."""
    output, size = workload.empty_output(), workload.plan.workspace_size
    workspace = torch.empty(size, dtype=torch.uint8, device=workload.device) if size else None
    infos = workload.plan.operands
    execute = workload.plan.bind(in_memory(workload.input, workload.plan.input), workload.kernel,
                                 [in_memory(tensor, info) for tensor, info in zip(workload.operands, infos)],
                                 in_memory(output, workload.plan.output), workspace, stream)

    def call(kept=workspace):  # pylint: disable=unused-argument  # what is bound are addresses only
        execute()
        return output
    return Contender("convt", call, before=before)
