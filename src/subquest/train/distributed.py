"""The processes of one run: which of them this one is, and what they tell one another.

`torchrun --nproc-per-node 8 -m subquest train RECIPE --out RUN` starts one process a GPU. Each rolls out its share of
the questions on an engine of its own; the policy is sharded over all of them (`sharding`). Whatever has to be the same
everywhere (when to stop, how many micro-batches there are, the figures of a step) is agreed on here. A run of a single
process never touches torch.distributed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import torch
import torch.distributed as dist

T = TypeVar("T")

SUMMED = frozenset(
    {"completion_tokens", "packed", "tokens", "drawn", "learned_tokens"}
    | {"tokens_s_rollout", "tokens_s_update", "tokens_per_second"}
)
"""Figures that add up over processes."""
EQUAL = frozenset({"total", "policy", "kl", "entropy", "loss"})
"""Figures of the whole batch's loss: every process holds its part, scaled by the number of processes."""


class Ranks:
    """This process among the others. All methods but the properties are called by every process at the same point."""

    def __init__(self, rank: int = 0, size: int = 1, group: Any = None) -> None:
        self.rank, self.size, self._group = rank, size, group

    @classmethod
    def from_environment(cls, device: torch.device) -> Ranks:
        """As torchrun set it up; alone where it did not."""
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return cls()
        if not dist.is_initialized():
            dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
        # a group of its own for small talk, on CPUs: it must not wait for the device
        return cls(dist.get_rank(), dist.get_world_size(), dist.new_group(backend="gloo"))

    @staticmethod
    def local() -> int:
        """Number of this process on its machine: the GPU it takes."""
        return int(os.environ.get("LOCAL_RANK", "0"))

    @property
    def first(self) -> bool:
        """The process that writes files and talks to people."""
        return self.rank == 0

    def twin(self) -> Ranks:
        """The same processes on a channel of their own, for a thread that must not mix its messages with others'."""
        return Ranks(self.rank, self.size, dist.new_group(backend="gloo")) if self.size > 1 else self

    def share(self, items: Sequence[T]) -> list[T]:
        """This process's items: every `size`-th."""
        return list(items[self.rank :: self.size])

    def gather(self, value: T) -> list[T]:
        """What every process holds, by rank."""
        if self.size == 1:
            return [value]
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, value, group=self._group)
        return found

    def told(self, value: T) -> T:
        """What the first process holds."""
        return self.gather(value)[0]

    def wait(self) -> None:
        """Until every process is here."""
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
