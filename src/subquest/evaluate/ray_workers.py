"""Evaluation on a Ray cluster: episodes run on its nodes, results stream into the one store of the driver.

A *worker* is a Ray actor that holds its own engines and search and solves questions. The driver sees each system as a
`Remote`, which hands a question to the worker with the least to do; so the runner, the store and resuming are the same
as on one machine. When a worker's node dies, its questions go to the others: nothing is lost but the time.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

from ..errors import EngineUnavailable, MissingDependency
from ..record import Episode, Question
from ..retrieval.ray_encoders import join
from ..runtime.system import System

Opened = Callable[[AsyncExitStack], Any]
"""Opens engines and search on a worker (they close with the stack); returns the systems by name, or a coroutine."""


class Worker:
    """What runs on a node."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._stack = AsyncExitStack()
        self._ready: asyncio.Task[dict[str, System[Any]]] | None = None

    async def solve(self, system: str, question: Question, seed: int | None, id: str) -> str:
        if self._ready is None:
            self._ready = asyncio.ensure_future(self._open())
        systems = await asyncio.shield(self._ready)
        return (await systems[system].solve(question, seed=seed, id=id)).to_json()

    async def model_names(self) -> dict[str, str]:
        if self._ready is None:
            self._ready = asyncio.ensure_future(self._open())
        return {name: system.model_name for name, system in (await asyncio.shield(self._ready)).items()}

    async def close(self) -> None:
        await self._stack.aclose()

    async def _open(self) -> dict[str, System[Any]]:
        found = self._opened(self._stack)
        return dict(await found if asyncio.iscoroutine(found) else found)


class Cluster:
    """Workers on a Ray cluster, one for each node (or as many as asked for)."""

    def __init__(self, address: str, opened: Opened, *, workers: int | None = None, at_once: int = 64) -> None:
        try:
            ray: Any = importlib.import_module("ray")
        except ImportError:
            raise MissingDependency("ray, which runs evaluations on many machines,", "ray") from None
        self._ray = ray
        self._joined = join(ray, address)
        nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
        strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        actor = ray.remote(Worker)
        self._load: dict[Any, int] = {}
        for at in range(workers or len(nodes)):
            place = strategy(nodes[at % len(nodes)], soft=False)
            options = {"num_cpus": 0, "max_concurrency": at_once, "scheduling_strategy": place, "max_restarts": 0}
            self._load[actor.options(**options).remote(opened)] = 0

    @property
    def workers(self) -> int:
        """How many are alive, as far as is known."""
        return len(self._load)

    async def systems(self) -> dict[str, Remote]:
        """The systems as the runner needs them."""
        names: Mapping[str, str] = await self._call("model_names")
        return {name: Remote(self, name, model) for name, model in names.items()}

    async def solve(self, system: str, question: Question, seed: int | None, id: str) -> Episode:
        return Episode.from_json(await self._call("solve", system, question, seed, id))

    async def close(self) -> None:
        closing = [worker.close.remote() for worker in self._load]
        await asyncio.gather(*(asyncio.wrap_future(ref.future()) for ref in closing), return_exceptions=True)
        for worker in self._load:
            self._ray.kill(worker)
        self._load.clear()
        if self._joined:
            self._ray.shutdown()

    async def _call(self, method: str, *arguments: Any) -> Any:
        """A call to the least busy worker; if that one dies under it, to the next."""
        lost = (self._ray.exceptions.RayActorError, self._ray.exceptions.NodeDiedError)
        while self._load:
            worker = min(self._load, key=self._load.__getitem__)
            self._load[worker] += 1
            try:
                return await getattr(worker, method).remote(*arguments)
            except self._ray.exceptions.RayTaskError as error:
                raise error.as_instanceof_cause() from None
            except lost:
                if self._load.pop(worker, None) is not None:
                    print(f"a worker was lost; {len(self._load)} are left", file=sys.stderr)
            finally:
                if worker in self._load:
                    self._load[worker] -= 1
        raise EngineUnavailable("every worker of the cluster is lost; run again to resume")


class Remote:
    """A system that runs elsewhere."""

    def __init__(self, cluster: Cluster, name: str, model_name: str) -> None:
        self._cluster = cluster
        self.name = name
        self.model_name = model_name

    async def solve(self, question: Question, *, seed: int | None = None, id: str = "") -> Episode:
        return await self._cluster.solve(self.name, question, seed, id)
