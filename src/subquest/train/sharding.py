"""A policy sharded over processes by FSDP2: each holds a part of every parameter, and of Adam's moments.

Layers are gathered one by one while they compute. What leaves the trainer (checkpoints, adapters, the rollout engine's
weights) is put together again by `whole`, which every process calls at the same point.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from .distributed import Ranks

if TYPE_CHECKING:
    from .policy import Policy


def shard(policy: Policy, ranks: Ranks) -> None:
    """Spread the policy's parameters over the processes, in place. Nothing to do for one process."""
    if ranks.size == 1:
        return
    mesh = init_device_mesh(next(policy.parameters()).device.type, (ranks.size,))
    for layer in policy.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(policy, mesh=mesh, reshard_after_forward=False)  # embeddings and output layer, used at both ends


def average_gradients(parameters: Sequence[Tensor], ranks: Ranks) -> None:
    """The mean over the processes, for a policy that is whole on each; FSDP has done it for a sharded one."""
    if ranks.size == 1 or any(isinstance(p, DTensor) for p in parameters):
        return
    gradients = [p.grad for p in parameters if p.grad is not None]
    flat = torch.cat([g.flatten() for g in gradients])
    dist.all_reduce(flat)
    flat /= ranks.size
    for gradient, mean in zip(gradients, torch.split(flat, [g.numel() for g in gradients]), strict=True):
        gradient.copy_(mean.view_as(gradient))


def whole(tensor: Tensor) -> Tensor:
    """The tensor put together from all processes' parts; itself where it is not sharded."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def is_sharded(policy: Policy) -> bool:
    """Whether this process holds only a part of the policy's parameters."""
    return isinstance(policy, FSDPModule)  # its parameters are whole for as long as they are gathered


def like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """A whole tensor as the parameter is: its part of it, on its device, in its precision."""
    moved = tensor.to(parameter.device, parameter.dtype)
    if not isinstance(parameter, DTensor):
        return moved
    return distribute_tensor(moved, parameter.device_mesh, parameter.placements)


def count_of(aggregation: str, trajectories: int, rollouts: int, tokens: int) -> int:
    """What an aggregation divides by: its weights were computed over one process's batch and must count all."""
    if aggregation == "token-mean":
        return tokens
    return trajectories if aggregation in ("sequence-mean", "constant") else rollouts
