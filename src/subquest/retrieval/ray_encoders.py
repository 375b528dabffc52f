"""Embedding on a Ray cluster: each node encodes runs of passages, this process alone writes the index.

    with RayEncoders("10.0.0.5:6379", "minilm") as through:
        index.embed("minilm", through=through)

A *worker* is a Ray actor that holds the encoder; there is one for each node. Each worker has two runs at any time, so
that none waits for the writer. A worker that dies is restarted and its run repeated; if this process dies, the next job
continues with the passages that have no vector yet.
"""

from __future__ import annotations

import importlib
import socket
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..errors import MissingDependency, SearchError, UsageError
from .embedding import Run
from .encoder import open_named

if TYPE_CHECKING:
    from .encoder import Vectors

AHEAD = 2
"""Runs that each worker has at a time."""
_RESTARTS = 3


class Worker:
    """The actor that runs on a node."""

    def __init__(self, encoder: str) -> None:
        self._encoder = open_named(encoder)

    def encode(self, texts: list[str]) -> Vectors:
        return self._encoder.encode(texts, query=False)


class RayEncoders:
    """Workers on a Ray cluster, one for each node or as many as asked for; an `Encode` for `Index.embed`."""

    def __init__(self, address: str, encoder: str, *, workers: int | None = None) -> None:
        try:
            self._ray: Any = importlib.import_module("ray")
        except ImportError:
            raise MissingDependency("ray, which embeds on many machines,", "ray") from None
        self._joined = join(self._ray, address)
        nodes = [node["NodeID"] for node in self._ray.nodes() if node["Alive"]]
        strategy = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        actor = self._ray.remote(Worker)
        self._workers = [
            actor.options(
                num_cpus=0,
                max_restarts=_RESTARTS,
                max_task_retries=_RESTARTS,
                scheduling_strategy=strategy(nodes[at % len(nodes)], soft=True),
            ).remote(encoder)
            for at in range(workers or len(nodes))
        ]

    def __call__(self, runs: Iterable[Run]) -> Iterator[tuple[Run, Vectors]]:
        """Each run with its vectors, as they are done."""
        ray, source = self._ray, iter(runs)
        under_way: dict[Any, tuple[Run, Any]] = {}
        free = [worker for worker in self._workers for _ in range(AHEAD)]
        more = True
        while more or under_way:
            while more and free:
                run = next(source, None)
                if run is None:
                    more = False
                    break
                worker = free.pop(0)
                under_way[worker.encode.remote(run.texts)] = (run, worker)
            if not under_way:
                return
            done, _ = ray.wait(list(under_way), num_returns=1)
            for reference in done:
                run, worker = under_way.pop(reference)
                try:
                    vectors = ray.get(reference)
                except ray.exceptions.RayTaskError as error:
                    raise error.as_instanceof_cause() from None
                except ray.exceptions.RayError as error:
                    raise SearchError(f"an embedding worker was lost: {error}; run again to resume") from error
                free.append(worker)
                yield run, vectors

    def close(self) -> None:
        """Stop the workers; the cluster stays up."""
        for worker in self._workers:
            self._ray.kill(worker)
        self._workers = []
        if self._joined:
            self._ray.shutdown()

    def __enter__(self) -> RayEncoders:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def join(ray: Any, address: str) -> bool:
    """Connect to a cluster (`local` starts one on this machine); False where the process was already connected."""
    if ray.is_initialized():
        return False
    host, _, port = address.rpartition(":")
    if host and "://" not in address and port.isdigit():
        try:  # Ray itself waits for minutes for a missing cluster
            socket.create_connection((host, int(port)), timeout=5).close()
        except OSError as error:
            raise UsageError(f"there is no Ray cluster at {address}: {error.strerror or error}") from None
    try:
        ray.init(address=address, log_to_driver=False, configure_logging=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise UsageError(f"there is no Ray cluster at {address}: {error}") from None
    return True
