# SPDX-License-Identifier: Apache-2.0
"""Calls through libconvt_torch run on PyTorch's own threads, of which there are as many as torch.set_num_threads() says."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

import convt.torch

pytestmark = pytest.mark.skipif(not convt.torch.has_extension, reason="without libconvt_torch")

_BEGIN = """
import os, threading
import torch
import convt.torch

def threads():
    return [open(f"/proc/self/task/{task}/comm").read().strip() for task in os.listdir("/proc/self/task")]

torch.manual_seed(0)
x, w = torch.randn(2, 32, 40, 40), torch.randn(32, 48, 4, 4)
# One pass over tiles, and passes that join their statistics.
chains = ["relu", "instance_norm | gelu", "mean(axes=hw)"]

def run(chain):
    return convt.torch.conv_transpose2d(x, w, stride=2, padding=1, epilogue=chain)

torch.set_num_threads(1)
alone = {chain: run(chain) for chain in chains}

def check():
    return all(torch.equal(run(chain), alone[chain]) for chain in chains)
"""


def passes(program: str) -> None:
    """In a process of its own, which no other test gave threads."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_BEGIN) + textwrap.dedent(program)], capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)})
    assert done.returncode == 0, done.stderr


def test_same_bits_and_no_pool_beside_pytorchs() -> None:
    """Also from threads with numbers of their own; and subnormals are flushed as the caller's thread does."""
    passes("""
        before = len(threads())
        for count in (2, 3, 8, 1, 4):
            torch.set_num_threads(count)
            assert check(), count
        assert len(threads()) > before, "nothing ran in parallel"
        right = []

        def caller(count):
            torch.set_num_threads(count)
            right.append(all(check() for _ in range(10)))

        callers = [threading.Thread(target=caller, args=(count,)) for count in (1, 2, 3, 4)]
        [one.start() for one in callers]
        [one.join() for one in callers]
        assert right == [True] * 4, right

        torch.set_num_threads(4)
        tiny = torch.full((1, 1, 400, 400), 1e-39)
        one = torch.ones(1, 1, 1, 1)
        for flush in (True, False, True):
            if not torch.set_flush_denormal(flush):
                break
            y = convt.torch.conv_transpose2d(tiny, one, epilogue="mul(1)")
            assert bool((y == 0).all() if flush else (y != 0).all()), flush
        torch.set_flush_denormal(False)
        assert bool((tiny * torch.ones(400, 400) != 0).all())
        assert "convt" not in threads(), threads()
    """)


def test_child_of_a_fork() -> None:
    """OpenMP's threads are not there, and PyTorch's own loops wait for them for ever; convt's do not."""
    passes("""
        import signal
        torch.set_num_threads(4)
        assert check()
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            results = {chain: run(chain).numpy() for chain in chains}
            right = all((results[chain] == alone[chain].numpy()).all() for chain in chains)
            os._exit(0 if right and "convt" in threads() else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert check() and "convt" not in threads()
    """)
