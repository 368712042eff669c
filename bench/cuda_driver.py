# SPDX-License-Identifier: Apache-2.0
"""What the benchmark of calls asks of CUDA's driver: which launches a call consists of, and launches of nothing."""

import ctypes as c

KERNEL, MEMSET = 0, 2  # CUgraphNodeType
RELAXED = 2  # CUstreamCaptureMode: other threads may do as they like
PTX = """.version 8.1
.target sm_80
.address_size 64
.visible .entry nothing(.param .align 8 .b8 parameters[{size}]) {{ ret; }}
"""


class KernelNode(c.Structure):  # CUDA_KERNEL_NODE_PARAMS
    _fields_ = [("function", c.c_void_p), ("sizes", c.c_uint * 7), ("parameters", c.POINTER(c.c_void_p)),
                ("extra", c.c_void_p), ("kernel", c.c_void_p), ("context", c.c_void_p)]


class Driver:
    """The driver's functions; a failure is an exception."""

    def __init__(self):
        self.library = c.CDLL("libcuda.so.1")

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status != 0:
            raise RuntimeError(f"{name} answers CUDA error {status}")

    def nodes(self, graph):
        count = c.c_size_t()
        self.call("cuGraphGetNodes", graph, None, c.byref(count))
        nodes = (c.c_void_p * max(count.value, 1))()
        self.call("cuGraphGetNodes", graph, nodes, c.byref(count))
        return [c.c_void_p(node) for node in nodes[:count.value]]

    def parameter_bytes(self, node):
        """[bytes] of a kernel's node, [None] of a memset's, and [] of a node that launches nothing."""
        what, kernel = c.c_int(), KernelNode()
        self.call("cuGraphNodeGetType", node, c.byref(what))
        if what.value != KERNEL:
            return [None] if what.value == MEMSET else []
        self.call("cuGraphKernelNodeGetParams_v2", node, c.byref(kernel))
        name, handle = ("cuFuncGetParamInfo", kernel.function) if kernel.function else ("cuKernelGetParamInfo",
                                                                                       kernel.kernel)
        offset, size, end = c.c_size_t(), c.c_size_t(), 0
        ask = getattr(self.library, name)
        for index in range(1 << 10):
            if ask(c.c_void_p(handle), c.c_size_t(index), c.byref(offset), c.byref(size)) != 0:
                break
            end = offset.value + size.value
        return [end]

    def launches_of(self, call, stream):
        """The parameter bytes of each kernel that call() launches on that stream, and None for each memset."""
        handle, graph = c.c_void_p(stream), c.c_void_p()
        self.call("cuStreamBeginCapture_v2", handle, RELAXED)
        try:
            call()
        finally:
            self.call("cuStreamEndCapture", handle, c.byref(graph))
        try:
            return [size for node in self.nodes(graph) for size in self.parameter_bytes(node)]
        finally:
            self.call("cuGraphDestroy", graph)

    def empty_kernel(self, size):
        """A kernel that does nothing, with that many bytes of parameters."""
        module, function = c.c_void_p(), c.c_void_p()
        self.call("cuModuleLoadData", c.byref(module), PTX.format(size=size).encode())
        self.call("cuModuleGetFunction", c.byref(function), module, b"nothing")
        return function

    def empty_launch(self, size, stream):
        """A function that launches such a kernel, and one of the same arguments that the driver rejects at once: what
        the way through Python costs."""
        block, function = c.create_string_buffer(size), self.empty_kernel(size)
        parameters = (c.c_void_p * 1)(c.addressof(block))
        ones, launch = (c.c_uint(1),) * 6, self.library.cuLaunchKernel
        rest = (*ones, c.c_uint(0), c.c_void_p(stream), parameters, c.c_void_p(None))
        kept = (block, parameters)  # pylint: disable=unused-variable

        def run(what=function, kept=kept):  # pylint: disable=unused-argument
            return launch(what, *rest)
        return run, lambda: run(c.c_void_p(None))
