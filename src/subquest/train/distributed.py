"""The processes of one run: which one this is, what they exchange, and how the policy is sharded over them.

`torchrun --nproc-per-node 8 -m subquest train RECIPE --out RUN` starts one process per GPU. Each rolls out its share of
the questions on its own engine; the policy's parameters and Adam's moments are sharded over all of them with FSDP2.
Layers are gathered one by one while they compute. What leaves the trainer (checkpoints, adapters, the rollout engine's
weights) is put together by `whole`, which every process calls at the same point. Whatever must be the same everywhere
(when to stop, the number of micro-batches, the figures of a step) is agreed on through `Ranks`. A run with a single
process never touches torch.distributed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

T = TypeVar("T")

SUMMED = frozenset(
    {"completion_tokens", "prefilled", "packed", "tokens", "drawn", "learned_tokens", "computed", "computed_before"}
    | {"tflop", "tokens_s_rollout", "tokens_s_update", "tokens_per_second"}
)
"""Figures that add up over processes."""
EQUAL = frozenset({"total", "policy", "kl", "entropy", "loss"})
"""Figures of the whole batch's loss: every process holds its part, scaled by the number of processes."""


class Ranks:
    """This process among the others. Every process must call the methods at the same point."""

    def __init__(self, rank: int = 0, size: int = 1, group: Any = None) -> None:
        self.rank, self.size, self._group = rank, size, group

    @classmethod
    def from_environment(cls, device: torch.device) -> Ranks:
        """As torchrun set it up; a single process otherwise."""
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return cls()
        if not dist.is_initialized():
            dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
        # a group of its own, on CPUs: exchanging small values must not wait for the device
        return cls(dist.get_rank(), dist.get_world_size(), dist.new_group(backend="gloo"))

    @staticmethod
    def local() -> int:
        """The number of this process on its machine: the GPU it takes."""
        return int(os.environ.get("LOCAL_RANK", "0"))

    @property
    def first(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def on_another_channel(self) -> Ranks:
        """The same processes on a separate channel, for a thread whose messages must not mix with the others'."""
        return Ranks(self.rank, self.size, dist.new_group(backend="gloo")) if self.size > 1 else self

    def share(self, items: Sequence[T]) -> list[T]:
        """This process's items: every `size`-th."""
        return list(items[self.rank :: self.size])

    def gather(self, value: T) -> list[T]:
        """The value of every process, by rank."""
        if self.size == 1:
            return [value]
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, value, group=self._group)
        return found

    def broadcast(self, value: T) -> T:
        """The value of the first process."""
        return self.gather(value)[0]

    def wait(self) -> None:
        """Wait until every process is here."""
        if self.size > 1:
            dist.barrier(group=self._group)

    def merge(self, figures: Mapping[str, float], weight: float) -> dict[str, float]:
        """One table of a step's figures: means weighted by the processes' episodes, sums and largest values."""
        tables = self.gather((dict(figures), weight))
        if self.size == 1:
            return tables[0][0]
        out: dict[str, float] = {}
        for name in dict.fromkeys(name for table, _ in tables for name in table):
            held = [(table[name], share) for table, share in tables if name in table]
            if name in SUMMED:
                out[name] = sum(value for value, _ in held)
            elif name == "ratio_max" or name.startswith("seconds"):
                out[name] = max(value for value, _ in held)
            elif name in EQUAL:
                out[name] = sum(value for value, _ in held) / self.size
            else:
                out[name] = sum(v * w for v, w in held) / max(sum(w for _, w in held), 1e-9)
        return out

    def close(self) -> None:
        if self.size > 1 and dist.is_initialized():
            dist.destroy_process_group()


ALONE = Ranks()


def shard(policy: nn.Module, layers: Iterable[nn.Module], ranks: Ranks) -> None:
    """Spread the policy's parameters over the processes, in place, layer by layer. Does nothing for one process."""
    if ranks.size == 1:
        return
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(next(policy.parameters()).device.type, (ranks.size,))
    for layer in layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(policy, mesh=mesh, reshard_after_forward=False)  # embeddings and output layer, used at both ends


def is_sharded(policy: nn.Module) -> bool:
    """Whether this process holds only a part of the policy's parameters."""
    if not _grouped():
        return False
    from torch.distributed.fsdp import FSDPModule

    return isinstance(policy, FSDPModule)  # its parameters are whole for as long as they are gathered


def average_gradients(parameters: Sequence[Tensor], ranks: Ranks) -> None:
    """The mean over the processes, for a policy that is whole on each; FSDP has done it for a sharded one."""
    if ranks.size == 1 or any(map(_is_part, parameters)):
        return
    gradients = [p.grad for p in parameters if p.grad is not None]
    flat = torch.cat([g.flatten() for g in gradients])
    dist.all_reduce(flat)
    flat /= ranks.size
    for gradient, mean in zip(gradients, torch.split(flat, [g.numel() for g in gradients]), strict=True):
        gradient.copy_(mean.view_as(gradient))


def whole(tensor: Tensor) -> Tensor:
    """The tensor put together from the parts of all processes; itself where it is not sharded."""
    return tensor.full_tensor() if _is_part(tensor) else tensor


def like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """A whole tensor in the form of the parameter: its shard, on its device, in its precision."""
    converted = tensor.to(parameter.device, parameter.dtype)
    if not _is_part(parameter):
        return converted
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(converted, parameter.device_mesh, parameter.placements)


def _is_part(tensor: Tensor) -> TypeGuard[DTensor]:
    """Whether it is this process's shard of a tensor."""
    if not _grouped():
        return False
    from torch.distributed.tensor import DTensor

    return isinstance(tensor, DTensor)


def _grouped() -> bool:
    """Whether there are several processes. One alone has no use for the imports that sharding needs, about 1 s."""
    return dist.is_available() and dist.is_initialized()


def count_of(aggregation: str, trajectories: int, rollouts: int, tokens: int) -> int:
    """What an aggregation divides by: its weights were computed over one process's batch and must count all."""
    if aggregation == "token-mean":
        return tokens
    return trajectories if aggregation in ("sequence-mean", "constant") else rollouts
