"""The run store: everything that happened in a run, in one file that survives a kill at any moment.

    with RunStore.resume("hotpot.sqlite", settings={"system": "coda"}) as run:
        finished = {s.question for s in run.summaries()}
        ...
        run.add_event(episode_id, event)            # live, batched, never blocks
        await run.add_episode(episode, attempt=0)   # returns when it is on disk

One process or several may read and write at the same time.
"""

from __future__ import annotations

import json
import os
import time
import weakref
from collections.abc import Iterable, Mapping
from operator import methodcaller
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..codec import to_dict
from ..errors import UsageError
from ..events import Event
from ..masking import public_values
from ..record import Episode, Question
from .file import create_file, new_run_path, run_path
from .reader import Reader
from .writer import Receipt, Writer


class RunStore(Reader):
    """A run, open for reading and, on request, for writing."""

    def __init__(self, path: Path, *, write: bool, own_process: bool = False) -> None:
        """`own_process` writes in another process, which pays off with hundreds of episodes a second."""
        super().__init__(path)
        self._writer = Writer(path, own_process=own_process) if write else None
        if self._writer is not None:  # a process that ends without `close` still writes everything
            self._at_exit = weakref.finalize(self, self._writer.close)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, write: bool = False) -> Self:
        """Open an existing run; a folder stands for the `run.sqlite` in it."""
        return cls(run_path(path), write=write)

    @classmethod
    def create(
        cls, path: str | os.PathLike[str], *, settings: Mapping[str, Any] | None = None, own_process: bool = False
    ) -> Self:
        """Create a run and open it for writing; `settings` are JSON values that say how it is run."""
        file = new_run_path(path)
        try:
            meta = {"settings": json.dumps(public_values(dict(settings or {}))), "created": json.dumps(time.time())}
        except TypeError as error:
            raise UsageError(f"the settings of a run must be JSON values: {error}") from None
        create_file(file, meta)
        return cls(file, write=True, own_process=own_process)

    @classmethod
    def resume(
        cls, path: str | os.PathLike[str], *, settings: Mapping[str, Any] | None = None, own_process: bool = False
    ) -> Self:
        """Open the run at the path for writing, or create it if there is none.

        Raises a UsageError if the run was started with other settings: its episodes would not belong together.
        """
        file = new_run_path(path)
        if not file.exists():
            try:
                return cls.create(file, settings=settings, own_process=own_process)
            except UsageError:
                if not file.exists():  # otherwise another process created it first
                    raise
        run = cls(file, write=True, own_process=own_process)
        wanted = json.loads(json.dumps(public_values(dict(settings or {}))))
        found = run.settings
        for key in sorted(wanted.keys() | found.keys()):
            if wanted.get(key) != found.get(key):
                run.close()
                raise UsageError(
                    f"the run {file} was begun with {key} = {json.dumps(found.get(key))}, "
                    f"not {json.dumps(wanted.get(key))}; use the same settings to resume it, or start another run"
                )
        return run

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self.meta().get("settings", {}))

    @property
    def created(self) -> float:
        """Seconds since 1970; 0 if a salvaged run no longer says."""
        return float(self.meta().get("created", 0.0))

    def add_questions(self, questions: Iterable[Question]) -> Receipt:
        """Add questions that are going to be asked; those of episodes are added with the episode."""
        return self._writing.put(methodcaller("questions", [to_dict(q) for q in questions]))

    def add_episode(self, episode: Episode, *, attempt: int = 0, scores: Mapping[str, float] | None = None) -> Receipt:
        """Add a finished episode, with those of its events that were not added live, and its scores.

        Raises `EpisodeExists` (when awaited) if the run has an episode with that id, which then stays as it is.
        """
        return self._writing.put(methodcaller("episode", to_dict(episode), attempt, None, scores))

    def add_event(self, episode_id: str, event: Event) -> None:
        """Add a live event. Returns at once; a failure is raised by `flush` and `close`."""
        self._writing.put_event(episode_id, event)

    def add_scores(self, episode_id: str, scores: Mapping[str, float | None]) -> Receipt:
        """Add the scores of an episode; a new value replaces the old one, and None removes it."""
        return self._writing.put(methodcaller("scores", episode_id, dict(scores)))

    def add_metrics(self, step: int, metrics: Mapping[str, float]) -> Receipt:
        """Add numbers of the run as a whole; a step that is repeated after a kill replaces the old values."""
        return self._writing.put(methodcaller("metrics", step, dict(metrics)))

    def flush(self) -> None:
        """Wait until everything added so far is on disk; raises the first failure that nobody awaited."""
        self._writing.flush()

    def close(self) -> None:
        """Write what is left and close the file. Closing twice is harmless."""
        super().close()
        if self._writer is not None:
            self._at_exit()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _writing(self) -> Writer:
        if self._writer is None:
            raise UsageError(f"the run {self.path} is open for reading only")
        return self._writer
