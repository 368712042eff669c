# SPDX-License-Identifier: Apache-2.0
"""What the measurements were made on and with."""

import importlib.metadata
import os
import platform
import re
import subprocess
from pathlib import Path

import torch

from workload import ROOT, convt_abi


def first_match(pattern, path):
    try:
        found = re.search(pattern, Path(path).read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return None
    return found[1].strip() if found else None


def output_of(*command):
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def caches():
    """Sizes of the first CPU's data caches; a level's size is one instance of it."""
    parts = []
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = ((index / name).read_text().strip() for name in ("level", "type", "size"))
        if kind != "Instruction":
            parts.append(f"L{level} {size}")
    return ", ".join(parts) or None


def isa():
    flags = (first_match(r"^flags\s*:(.*)$", "/proc/cpuinfo") or "").split()
    return " ".join(flag for flag in ("avx2", "fma", "avx512f", "avx512_bf16", "avx512_fp16", "amx_tile")
                    if flag in flags) or None


def compiler():
    """That of the build the library lies in."""
    cache = convt_abi.LIBRARY.parent / "CMakeCache.txt"
    command = first_match(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache)
    version = output_of(command, "--version") if command else None
    flags = first_match(r"^CMAKE_CXX_FLAGS_RELEASE:\w+=(.*)$", cache)
    return f"{version.splitlines()[0]}, {flags}" if version else None


def cpu():
    return first_match(r"^model name\s*:(.*)$", "/proc/cpuinfo") or platform.processor()


def software():
    """Lines of the report that do not depend on what is measured."""
    return {
        "system": f"{first_match(r'^PRETTY_NAME=.(.*).$', '/etc/os-release') or platform.system()}, "
                  f"Linux {platform.release()}",
        "convt": f"{convt_abi.lib.convt_version().decode()}, "
                 f"{output_of('git', 'describe', '--always', '--dirty') or 'no git'}",
        "built with": compiler(),
    }


def describe(threads):
    """Lines of the report, name to value; what this system does not tell is left out."""
    onednn = re.search(r"MKL-DNN v(\S+)", torch.__config__.show())
    facts = {
        "CPU": cpu(),
        "instruction sets": isa(),
        "caches": caches(),
        "CPUs there, threads used": f"{len(os.sched_getaffinity(0))}, {threads}",
        **software(),
        "PyTorch": f"{torch.__version__}, oneDNN {onednn[1] if onednn else '?'}, "
                   f"{torch.backends.cpu.get_cpu_capability()}",
        "ONNX Runtime": importlib.metadata.version("onnxruntime"),
    }
    return {name: value for name, value in facts.items() if value}


def busy():
    """Programs waiting for a CPU during the last minute, on average."""
    return os.getloadavg()[0]
