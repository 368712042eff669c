# SPDX-License-Identifier: Apache-2.0
"""The GPU that the measurements were made on, and what it gives to the best known loops."""

import statistics
from dataclasses import dataclass

import torch

import machine
from modes import MODES
from workload import TORCH

COPY_BYTES = 2**32
MATRIX = 8192
REPEATS = 10


def median_seconds(call):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    samples = []
    for repeat in range(REPEATS + 3):
        begin.record()
        call()
        end.record()
        end.synchronize()
        if repeat >= 3:
            samples.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(samples)


def copy_rate():
    """Bytes per second, read and written ones."""
    size = min(COPY_BYTES, torch.cuda.mem_get_info()[0] // 4)
    source = torch.empty(size, dtype=torch.uint8, device="cuda").fill_(1)
    target = torch.empty_like(source)
    return 2 * size / median_seconds(lambda: target.copy_(source))


def matrix_rate(mode):
    """Operations per second of a product of two square matrices of random numbers."""
    torch.backends.cuda.matmul.allow_tf32 = mode == "tf32"
    a, b = (torch.rand(MATRIX, MATRIX, device="cuda").to(TORCH[MODES[mode][0]]) for _ in range(2))
    c = torch.empty_like(a)
    return 2 * MATRIX**3 / median_seconds(lambda: torch.mm(a, b, out=c))


def measure_ceilings():
    """Bytes per second under "copy", operations per second under each mode."""
    ceilings = {"copy": copy_rate(), **{mode: matrix_rate(mode) for mode in MODES}}
    torch.cuda.empty_cache()
    return ceilings


@dataclass
class Floor:
    seconds: float
    binds: str  # "products" or "memory"


def floor(flop, moved_bytes, mode, ceilings):
    """What no one gets below: the products that some output needs at the matrix rate, or every tensor read or written
    once at the copy rate. Three f16 products make one of float32's accuracy: where a third of their rate is above that
    of the float32 units, it is the ceiling of ieee."""
    rate = max(ceilings["ieee"], ceilings["f16"] / 3) if mode == "ieee" else ceilings[mode]
    products, memory = flop / rate, moved_bytes / ceilings["copy"]
    return Floor(products, "products") if products >= memory else Floor(memory, "memory")


def describe(ceilings):
    """Lines of the report, name to value; what this system does not tell is left out."""
    card = torch.cuda.get_device_properties(0)
    driver = machine.output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0")
    facts = {
        "GPU": f"{card.name}, {card.multi_processor_count} multiprocessors, {card.total_memory / 2**30:.0f} GiB, "
               f"L2 {card.L2_cache_size / 2**20:.0f} MiB",
        "driver": driver,
        "copy": f"{ceilings['copy'] / 1e12:.2f} TB/s, read and written",
        "matrix product": ", ".join(f"{mode} {ceilings[mode] / 1e12:.0f}" for mode in MODES) + " TFLOP/s",
        "CPU": machine.cpu(),
        **machine.software(),
        "PyTorch": f"{torch.__version__}, CUDA {torch.version.cuda}, cuDNN {cudnn_version()}",
    }
    return {name: value for name, value in facts.items() if value}


def cudnn_version():
    number = torch.backends.cudnn.version() or 0
    return f"{number // 10000}.{number % 10000 // 100}.{number % 100}"
