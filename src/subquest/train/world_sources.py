"""Worlds that a recipe names as `world:seed=1,articles=500,questions=1000`, generated in parallel.

A world takes a second or two of one core, a recipe names several, and a GPU waits. Each is generated in its own process
while this one loads the model. The processes import only what worlds need, without torch, so they start quickly.
"""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from ..record import Document, Question

if TYPE_CHECKING:
    from ..worlds import World

WORLD = "world:"
WORTHWHILE = 1000
"""Articles plus questions from which on generating takes longer than starting a process."""

_READ: Mapping[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "str": str,
    "tuple[int, ...]": lambda text: tuple(map(int, text.split("+"))),
    "tuple[str, ...]": lambda text: tuple(text.split("+")),
}
"""How the settings of a world are written, by their types; several values are joined by +, as in hops=2+3."""

Found = tuple[list[Question], list[Document]]


class WorldSources:
    """Worlds that are being generated."""

    def __init__(self, sources: Iterable[str] = (), *, workers: int | None = None) -> None:
        """`sources` as in recipes; those that are not worlds are ignored."""
        wanted = dict.fromkeys(s for s in sources if s.startswith(WORLD) and _size(s) >= WORTHWHILE)
        workers = min(workers or os.cpu_count() or 1, len(wanted))
        self._making: dict[str, Future[Found | None]] = {}
        if workers > 1:
            pool = ThreadPoolExecutor(workers)
            self._making = {source: pool.submit(_made_elsewhere, source) for source in wanted}
            pool.shutdown(wait=False)

    def get(self, source: str) -> Found:
        """The questions and passages of a world; generated here if no process does it, or if that failed."""
        making = self._making.get(source)
        return (making.result() if making else None) or make_source(source)


def _made_elsewhere(source: str) -> Found | None:
    """A world from another process, started as a command: multiprocessing would run the caller's script again."""
    command = [sys.executable, "-m", __name__, source]
    done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    found: Found | None = pickle.loads(done.stdout) if done.returncode == 0 else None
    return found


def make_source(source: str) -> Found:
    """The questions and passages of `world:seed=1,articles=500`."""
    world = world_of(source)
    name = f"world-{world.recipe.seed}"

    def named(id: str) -> str:  # ids of different worlds must differ within one index
        return f"{name}/{id}"

    documents = [replace(d, id=named(d.id)) for d in world.documents]
    return [
        replace(q, dataset=name, supporting_ids=tuple(map(named, q.supporting_ids))) for q in world.questions
    ], documents


def world_of(source: str) -> World:
    """The world itself."""
    from ..worlds import Recipe, make_world

    kinds = {field.name: str(field.type) for field in fields(Recipe)}
    spec = source.removeprefix(WORLD)
    options: dict[str, Any] = {}
    for pair in filter(None, spec.split(",")):
        key, equals, value = pair.partition("=")
        if not equals:
            raise ConfigError(f"world:{spec}: write it as in world:seed=1,articles=500,questions=1000,split=train")
        if key not in kinds:
            raise ConfigError(f"world:{spec}: a world has no {key!r}; it has {', '.join(kinds)}")
        try:
            options[key] = _READ[kinds[key]](value)
        except ValueError:
            raise ConfigError(f"world:{spec}: {key}={value} is not of the kind {kinds[key]}") from None
    return make_world(**options)


def _size(source: str) -> int:
    return sum(int(n) for n in re.findall(r"\b(?:articles|questions)=(\d+)", source))


if __name__ == "__main__":
    sys.stdout.buffer.write(pickle.dumps(make_source(sys.argv[1])))
