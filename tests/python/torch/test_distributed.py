# SPDX-License-Identifier: Apache-2.0
"""Several gloo processes against one: DDP and FSDP2 steps, and inference on shards of a batch."""

from __future__ import annotations

import os
import tempfile

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

import convt
import convt.torch

WORLD = 2
WAYS = ("ddp", "fsdp2", "inference")


def net() -> nn.Module:
    torch.manual_seed(0)
    gain, shift = nn.Parameter(torch.rand(8)), nn.Parameter(torch.rand(8))
    first = convt.torch.nn.ConvTranspose2d(
        4, 8, 3, stride=2, epilogue=[convt.ops.layer_norm(channels=True, weight=gain, bias=shift), convt.ops.gelu()])
    return nn.Sequential(first, convt.torch.nn.ConvTranspose2d(8, 2, 3, epilogue="tanh"))


def batch() -> torch.Tensor:
    return torch.randn(2 * WORLD, 4, 5, 5, generator=torch.Generator().manual_seed(1))


def step(model: nn.Module, x: torch.Tensor) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()


def run(rank: int, how: str) -> object:
    """What every process has in the end: the results of the whole batch, or the weights."""
    model, x = net(), batch()
    part = x.chunk(WORLD)[rank]
    if how == "inference":
        with torch.no_grad():
            own = model(part).contiguous()
            parts = [torch.empty_like(own) for _ in range(WORLD)]
            dist.all_gather(parts, own)
            return torch.cat(parts)
    if how == "ddp":
        model = nn.parallel.DistributedDataParallel(model)
        step(model, part)
        return model.module.state_dict()
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (WORLD,))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    step(model, part)
    return {name: value.full_tensor() for name, value in model.state_dict().items()}


def worker(rank: int, folder: str) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=WORLD)
    try:
        for how in WAYS:
            result = run(rank, how)
            if rank == 0:
                torch.save(result, f"{folder}/{how}")
        dist.barrier()
    finally:
        dist.destroy_process_group()


@pytest.fixture(scope="module")
def results() -> dict[str, object]:
    """Of all ways, by processes that are started once: most of their time goes into starting."""
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(worker, (folder,), nprocs=WORLD)
        return {how: torch.load(f"{folder}/{how}") for how in WAYS}


@pytest.mark.parametrize("how", WAYS)
def test_against_one_process(how, results):
    got = results[how]
    model = net()
    if how == "inference":
        torch.testing.assert_close(got, model(batch()).detach(), atol=1e-6, rtol=1e-6)
        return
    step(model, batch())
    torch.testing.assert_close(got, dict(model.state_dict()), atol=1e-5, rtol=1e-5)
