# SPDX-License-Identifier: Apache-2.0
"""The named problems' cases as ONNX models. The weights are constants of the model, which lets a runtime prepare them
once."""

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper

OPSET = 20  # the first with Gelu
IR_VERSION = 9  # the one of that opset, so that no runtime is too old for the file


class Graph:
    def __init__(self):
        self.nodes, self.constants = [], []

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def node(self, kind, *inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name


def scalar(value):
    return np.asarray(value, np.float32)


def layer_norm(graph, x, dims, parameters, channels):
    assert parameters["channels"] and not parameters["affine"]
    axes = range(2, dims + 2)
    x = graph.node("Transpose", x, perm=[0, *axes, 1])
    x = graph.node("LayerNormalization", x, graph.constant(np.ones(channels, np.float32)), axis=-1,
                   epsilon=parameters["eps"])
    return graph.node("Transpose", x, perm=[0, dims + 1, *range(1, dims + 1)])


def pool(kind):
    def append(graph, x, dims, parameters, _):
        size = [parameters["size"]] * dims
        return graph.node(kind, x, kernel_shape=size, strides=size)
    return append


OPS = {
    "add": lambda graph, x, dims, parameters, _: graph.node("Add", x, graph.constant(scalar(parameters["other"]))),
    "mul": lambda graph, x, dims, parameters, _: graph.node("Mul", x, graph.constant(scalar(parameters["other"]))),
    "sum": lambda graph, x, dims, parameters, _: graph.node("ReduceSum", x, graph.constant(np.array([1])), keepdims=1),
    "gelu": lambda graph, x, dims, parameters, _: graph.node("Gelu", x),
    "layer_norm": layer_norm,
    "max_pool": pool("MaxPool"),
    "avg_pool": pool("AveragePool"),
}


def build(workload):
    case, graph = workload.case, Graph()
    chain = list(case.chain)
    weights = [graph.constant(workload.kernel.numpy())]
    if chain and chain[0].name == "bias":
        weights.append(graph.constant(workload.operands[0].numpy()))
        chain.pop(0)
    axes = case.axes
    x = graph.node("ConvTranspose", "x", *weights, kernel_shape=axes["kernel"], strides=axes["stride"],
                   pads=axes["padding"] * 2, output_padding=axes["output_padding"], dilations=axes["dilation"],
                   group=case.groups)
    for op in chain:
        x = OPS[op.name](graph, x, case.dims, op.parameters, case.channels[1])
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, info.shape)
            for name, info in (("x", workload.plan.input), (x, workload.plan.output))]
    model = helper.make_model(helper.make_graph(graph.nodes, "case", ends[:1], ends[1:], graph.constants),
                              opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    checker.check_model(model, full_check=True)
    return model.SerializeToString()
