"""A training run: its folder (recipe, checkpoints, curves, sample episodes) and its deadline."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from pathlib import Path
from time import monotonic
from typing import Any, Literal

from ..errors import DataError, UsageError
from ..input_file import read_json
from ..masking import public_values
from ..metrics import score_answer
from ..record import Episode
from ..runs import RunStore
from ..systems.registry import get
from .checkpoints import Checkpoints, save_trained
from .distributed import ALONE, Ranks
from .policy import Policy
from .recipe import TUNING, OptimiserPart, Recipe

Phase = Literal["step", "evaluation", "checkpoint", "export"]
"""A part of a run that takes time; `export` writes the weights in a form that other tools read."""
MARGIN = 1.2
"""How much longer than the longest so far the next of a phase may take."""


class Deadline:
    """When a run has to end, and how long its phases take, so that it ends in time with a checkpoint.

    Only times measured in this process count: the next one may run on another machine. A phase that has not been seen
    yet counts as nothing, so there is at least one step while time is left, and repeated runs too short for an
    evaluation still make progress.
    """

    def __init__(self, minutes: float | None = None, stop: Callable[[], bool] = lambda: False) -> None:
        self._end = math.inf if minutes is None else monotonic() + 60 * minutes
        self._stop = stop
        self._longest: dict[Phase, float] = {}

    def record(self, phase: Phase, seconds: float) -> None:
        self._longest[phase] = max(seconds, self._longest.get(phase, 0.0))

    @contextmanager
    def timed(self, phase: Phase) -> Iterator[None]:
        start = monotonic()
        yield
        self.record(phase, monotonic() - start)

    def is_near(self, *, evaluates: bool) -> bool:
        """Whether another step would end too late, or a stop was requested.

        A step comes with its evaluation where it `evaluates`, and with the checkpoint and the weights that are written
        at the end.
        """
        if self._stop():
            return True
        phases: list[Phase] = ["step", "checkpoint", "export", *(("evaluation",) if evaluates else ())]
        return monotonic() + MARGIN * sum(self._longest.get(phase, 0.0) for phase in phases) > self._end


class TrainRun:
    """The folder of one run.

    recipe.json   what is trained; resuming with another recipe is refused, but for more steps and `recipe.TUNING`
    steps.json    how many steps the whole run takes
    run.sqlite    curves and sample episodes
    checkpoints/  the last few
    best/         the adapter (or weights) that did best on the dev questions
    last/         the adapter (or weights) at the end of the last session
    """

    def __init__(
        self,
        folder: str | Path,
        recipe: Recipe,
        *,
        minutes: float | None = None,
        stop: Callable[[], bool] = lambda: False,
        ranks: Ranks = ALONE,
    ) -> None:
        """Several processes share the folder; only the first one writes to it."""
        self.folder = Path(folder)
        self.recipe = recipe
        self.ranks = ranks
        self._make_folder()
        self._lock = ExitStack()
        """Holds the lock on the folder."""
        self._keep_recipe()
        self._store: RunStore | None = None
        self._kept: set[str] = set()
        if ranks.first:
            settings = {"recipe": recipe.name, "kind": recipe.kind}
            self._store = RunStore.resume(self.folder / "run.sqlite", settings=settings)
            self._kept = {summary.id for summary in self._store.summaries()}
        self.checkpoints = Checkpoints(self.folder / "checkpoints", keep=recipe.keep, ranks=ranks)
        self.sources: Mapping[str, str] = {}
        """Digests of what is learnt from, kept with every checkpoint."""
        self.deadline = Deadline(minutes, stop)
        self.steps = 0
        """Steps of the whole run; known once there is a trainer."""

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise UsageError(f"{self.folder} is a file; name a folder for the run") from None

    def _keep_recipe(self) -> None:
        """Write the recipe. It may still be changed while nothing has been trained with it."""
        path = self.folder / "recipe.json"
        if refusal := self.ranks.broadcast(self._refusal(path) if self.ranks.first else ""):
            self._lock.close()
            raise UsageError(refusal)
        if self.ranks.first:
            half = path.with_suffix(".tmp")
            half.write_text(
                json.dumps(public_values(self.recipe.as_dict()), indent=2, sort_keys=True), encoding="utf-8"
            )
            os.replace(half, path)

    def _refusal(self, path: Path) -> str:
        """Why the run cannot go on here; empty if it can."""
        try:
            self._lock.enter_context(locked(self.folder / "lock"))
        except BlockingIOError:
            return f"another process is training the run {self.folder}; wait for it, or give this one another folder"
        changed = _difference(path, self.recipe) if path.exists() and self._has_begun() else ""
        return changed and (
            f"the run {self.folder} was started with another recipe ({changed}; see {path}); resume it with that one, "
            "or give this one another folder"
        )

    def _has_begun(self) -> bool:
        """Whether there is a checkpoint or a figure of a step."""
        if any((self.folder / "checkpoints").glob("step-*")):
            return True
        if not (self.folder / "run.sqlite").exists():
            return False
        store = RunStore.open(self.folder / "run.sqlite")
        try:
            return any(True for _ in store.metrics())
        finally:
            store.close()

    def plan(self, steps: int) -> None:
        """Note how many steps the whole run takes: fewer than the recipe says if what is learnt from ends earlier."""
        self.steps = steps
        if self.ranks.first:
            half = self.folder / "steps.tmp"
            half.write_text(json.dumps({"steps": steps}), encoding="utf-8")
            os.replace(half, self.folder / "steps.json")

    def keep_sources(self, digests: Mapping[str, str]) -> None:
        """Note the digests of the training data. Raises a UsageError if the run was trained on other data so far: its
        position in the order of the questions would then mean other questions. Old checkpoints have no digests."""
        known = self.checkpoints.state().get("sources", {})
        if changed := [what for what, digest in digests.items() if known.get(what, digest) != digest]:
            raise UsageError(
                f"the run {self.folder} was trained on other data: {' and '.join(changed)} have changed since its last "
                "checkpoint; resume it with what they were, or give this training another folder"
            )
        self.sources = dict(digests)

    @property
    def store(self) -> RunStore:
        """Curves and sample episodes; the first process has it."""
        assert self._store is not None
        return self._store

    def record(self, step: int, figures: Mapping[str, float], episodes: Sequence[Episode] = ()) -> None:
        """Keep a step's figures and a few of its episodes. A step that is repeated after a kill keeps its episodes."""
        self.deadline.record("step", figures.get("seconds", 0.0))
        if self._store is None:
            return
        self._store.add_metrics(step, {k: v for k, v in figures.items() if math.isfinite(v)})
        self.keep(step, episodes)

    def keep(self, step: int, episodes: Sequence[Episode]) -> None:
        """Store episodes for people to read: a curve says that something is wrong, episodes say what."""
        if self._store is None:
            return
        for episode in episodes:
            if episode.id not in self._kept:
                self._kept.add(episode.id)
                answer = score_answer(episode.stated_answer, episode.question.answers)
                self._store.add_episode(episode, attempt=step, scores={"em": answer.em, "f1": answer.f1})

    def save_best(self, policy: Policy, figures: Mapping[str, Any]) -> None:
        """Export the weights that did best on the dev questions so far."""
        self._export(policy, "best", "dev.json", figures)

    def save_last(self, policy: Policy, step: int) -> None:
        """Export the weights at the end of a session, evaluated or not."""
        self._export(policy, "last", "step.json", {"step": step})

    def _export(self, policy: Policy, name: str, note: str, content: Mapping[str, Any]) -> None:
        folder, building = self.folder / name, self.folder / f"{name}.tmp"
        with self.deadline.timed("export"):
            base = self.recipe.model.path
            save_trained(policy, building, base=base, prompts=prompts_of(self.recipe), write=self.ranks.first)
        if self.ranks.first:
            (building / note).write_text(json.dumps(dict(content)), encoding="utf-8")
            folder.mkdir(exist_ok=True)
            for file in building.iterdir():  # replace file by file: a kill never leaves half a file
                if file.is_dir():
                    shutil.rmtree(folder / file.name, ignore_errors=True)
                os.replace(file, folder / file.name)
            building.rmdir()

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
        self._lock.close()


def prompts_of(recipe: Recipe) -> str:
    """The set of prompts that a recipe trains with, and how else the model has to be run."""
    own = get(recipe.system).trained_ways
    ways = [way for way, values in own.items() if all(recipe.settings.get(k) == v for k, v in values.items())]
    return "+".join([recipe.prompt_set, *(["abstain"] if recipe.abstain else []), *ways])


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock on a file; it ends with the process. Raises BlockingIOError if another process holds it."""
    try:
        import fcntl
    except ImportError:  # the system has no such locks
        yield
        return
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if isinstance(error, BlockingIOError):
                raise
            # otherwise the file system has no locks, and other processes cannot be noticed
        yield


def _difference(path: Path, recipe: Recipe) -> str:
    """How a stored recipe differs from this one; empty if it does not."""
    stored = read_json(path, "the run's recipe")
    if not isinstance(stored, dict):
        raise DataError(f"{path} is not a recipe: it must be an object")
    kept = _settings(stored)
    new = _settings(json.loads(json.dumps(public_values(recipe.as_dict()))))
    changed = [name for name in sorted(kept.keys() | new.keys()) if kept.get(name) != new.get(name)]
    if all(name in TUNING or _extends(name, kept.get(name), new.get(name)) for name in changed):
        return ""
    return ", ".join(
        f"{name} was {kept.get(name, 'the default')}, is {new.get(name, 'the default')}" for name in changed
    )


def _extends(name: str, before: Any, now: Any) -> bool:
    """Whether a change only makes a run longer. What it has done so far stays as it was."""
    part = {field.name: field.default for field in fields(OptimiserPart)}
    default = part.get(name.removeprefix("optimiser."))
    before, now = (default if value is None else value for value in (before, now))
    return name in ("optimiser.steps", "optimiser.epochs") and now > before


def _settings(table: Mapping[str, Any], place: str = "") -> dict[str, Any]:
    """The settings of a recipe by their full names, as `optimiser.steps`."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        found |= _settings(value, f"{place}{name}.") if isinstance(value, dict) else {f"{place}{name}": value}
    return found
