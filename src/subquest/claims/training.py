"""Training the arms: short runs of reinforcement learning side by side on one GPU, each from the same adapter as those
it is compared with, which a training before them made.

Every training is `subquest train` in a process of its own. What is kept of it is its last adapter, whatever its dev
score (a choice by score would hide a reward that spoils the policy), and its curves. A training whose missing steps do
not fit into the time that is left is not begun: its optimiser state is too large to travel, so half a training is lost
unless it goes on where it was begun.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..codec import from_dict
from ..errors import DataError
from .book import Book, Training
from .measure import file_digest, known_as
from .results import Results
from .timing import training_kind, training_seconds

if TYPE_CHECKING:
    from ..train.recipe import ModelPart

FIGURES = (
    "loss", "reward", "reward_std", "em", "f1", "tasks", "idle_executors", "format_errors", "forced", "cut_turns",
    "searches", "written_planner", "length_planner", "completion_tokens", "drawn", "entropy", "kl", "seconds",
)  # fmt: skip
"""Curves that are kept, beside the terms of rewards and what the dev questions got."""
GRACE = 30.0
"""Seconds after its time at which a training that has not ended by itself is ended."""
THREADS = "4"
"""Of each training's tensor library on the CPU: several trainings share the cores."""


@dataclass(slots=True)
class _Running:
    training: Training
    process: subprocess.Popen[bytes]
    began: float
    done: int
    """Steps that were made before."""


class Trainings:
    """Trainings side by side, `at_once` at most, from the adapters at hand. One that failed is tried once more, after
    the others: what it shares a GPU with may have taken all its memory."""

    def __init__(
        self,
        book: Book,
        trainings: Sequence[Training],
        runs: Path,
        results: Results,
        *,
        adapters: Mapping[str, str],
        minutes: float | None,
        at_once: int,
        device: str = "",
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.book, self.runs, self.results = book, runs, results
        self.short: list[str] = []
        """Those that did not reach their last step."""
        self._adapters, self._at_once, self._device, self._say = adapters, at_once, device, say
        self._until = None if minutes is None else time.monotonic() + 60 * minutes
        self._waiting = list(trainings)
        self._running: dict[str, _Running] = {}
        self._failed: set[str] = set()

    @property
    def places(self) -> dict[str, str]:
        """Where the adapters of those that wait or run will be."""
        found = [*self._waiting, *(run.training for run in self._running.values())]
        return {t.id: str(adapter_of(self.book, t, self.runs)) for t in found}

    @property
    def taken(self) -> int:
        """Processes that run, or will."""
        return min(self._at_once, len(self._running) + len(self._waiting))

    def step(self) -> dict[str, str]:
        """Start and end what is to be; returns the adapters that came out of it, with their places."""
        while self._waiting and len(self._running) < self._at_once:
            self._start(self._waiting.pop(0))
        ended = [run for run in self._running.values() if self._ended(run)]
        return {run.training.id: place for run in ended if (place := self._finish(run))}

    def _start(self, training: Training) -> None:
        left = None if self._until is None else self._until - time.monotonic()
        folder = folder_of(self.book, training, self.runs)
        done = steps_of(folder)
        if left is not None and left < training_seconds(training, self.results.speeds(), done=done).seconds:
            self.short.append(training.id)
            return
        changes = {**training.set, "model.adapter": self._adapters.get(self.book.start_of(training), "")}
        process = _started(training, folder, changes, None if left is None else left / 60, self._device)
        self._running[training.id] = _Running(training, process, time.monotonic(), done)
        self._say(f"{training.id}: training")

    def _ended(self, run: _Running) -> bool:
        if run.process.poll() is not None:
            return True
        if self._until is not None and time.monotonic() > self._until + GRACE:
            run.process.terminate()
        return False

    def _finish(self, run: _Running) -> str:
        """The place of the adapter that was made; empty where the last step was not reached."""
        name = run.training.id
        del self._running[name]
        again = run.process.returncode != 0 and name not in self._failed
        if again:
            self._failed.add(name)
            self._waiting.append(run.training)
        try:
            step, wanted = finish(self.book, run.training, self.runs, self.results)
        except DataError as error:
            self._say(str(error))
            self.short += [] if again else [name]
            return ""
        took = time.monotonic() - run.began
        self._say(f"{name}: step {step} of {wanted}, {took:.0f} s, exit status {run.process.returncode}")
        if step > run.done:
            self.results.keep_speed(training_kind(run.training), step - run.done, took)
        if step < wanted and not again:
            self.short.append(name)
        return str(adapter_of(self.book, run.training, self.runs)) if step >= wanted else ""


def train_all(trainings: Trainings) -> list[str]:
    """Carry them through, with nothing beside them; returns those that did not reach their last step."""
    while trainings.taken:
        trainings.step()
        time.sleep(0.5)
    return trainings.short


def folder_of(book: Book, training: Training, runs: Path) -> Path:
    """Where a training is at home; another recipe or start of the same name has another place."""
    name = training.id.replace("=", "-").replace(",", "-")
    return runs / f"{name}-{known_as(book, training)[:8]}"


def steps_of(folder: Path) -> int:
    """The step that a training has a checkpoint of."""
    names = (f.name for f in (folder / "checkpoints").glob("step-*"))
    return max((int(name.removeprefix("step-")) for name in names), default=0)


def adapter_of(book: Book, training: Training, runs: Path) -> Path:
    """Where a training leaves its adapter."""
    return folder_of(book, training, runs) / "adapter"


def adapters_at_hand(book: Book, runs: Path) -> dict[str, str]:
    """The adapters of trainings that were carried through on this machine, came with a parcel, or are kept beside the
    recipes because others start from them."""
    places = {t.id: adapter_of(book, t, runs) for t in book.trainings.values()}
    found = {name: str(place) for name, place in places.items() if (place / "adapter_model.safetensors").is_file()}
    for name in book.starts:
        kept = book.results.parent / "adapters" / name
        if name not in found and kept.is_dir() and file_digest(str(kept)) == book.origins.get(name):
            found[name] = str(kept)
    return found


def _started(
    training: Training, out: Path, changes: Mapping[str, Any], minutes: float | None, device: str
) -> subprocess.Popen[bytes]:
    out.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "subquest", "train", str(training.recipe), "--out", str(out)]
    for key, value in changes.items():
        command += ["--set", f"{key}={_toml(value)}"]
    command += [] if minutes is None else ["--minutes", f"{minutes:.2f}"]
    command += ["--device", device] if device else []
    environment = {"OMP_NUM_THREADS": THREADS, **os.environ}
    with (out / "log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, env=environment)


def _toml(value: Any) -> str:
    """A value as TOML writes it; JSON does for texts, numbers and switches."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_toml(v)}" for key, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)


def finish(book: Book, training: Training, runs: Path, results: Results) -> tuple[int, int]:
    """Keep the curves, and the adapter where the last step was reached; returns the step reached and the last one."""
    from ..runs import RunStore
    from ..train.recipe import Recipe

    folder = folder_of(book, training, runs)
    steps = sorted((folder / "checkpoints").glob("step-*"))
    if not steps:
        last = (folder / "log").read_text(encoding="utf-8", errors="replace")[-600:]
        raise DataError(f"the training {training.id} has no checkpoint; its log ends: {last}")
    recipe = from_dict(Recipe, json.loads((folder / "recipe.json").read_text(encoding="utf-8")))
    reached = steps_of(folder)
    adapter = ""
    if reached >= recipe.optimiser.steps:  # arms that learnt for fewer steps cannot be compared
        place = adapter_of(book, training, runs)
        export_adapter(steps[-1], place, recipe.model)
        adapter = file_digest(str(place))
    curves: dict[str, list[tuple[int, float]]] = {}
    with RunStore.open(folder / "run.sqlite") as store:
        for step, name, value in store.metrics():
            if name in FIGURES or name.startswith(("reward/", "dev_")):
                curves.setdefault(name, []).append((step, round(value, 5)))
    results.keep_training(training.id, known_as(book, training), adapter, curves)
    return reached, recipe.optimiser.steps


def export_adapter(checkpoint: Path, out: Path, model: ModelPart) -> None:
    """The trained weights of a checkpoint as an adapter in PEFT's format, in bfloat16."""
    import torch
    from safetensors.torch import load_file, save_file

    state = {}
    for shard in sorted(checkpoint.glob("shard-*.safetensors")):
        for name, tensor in load_file(shard).items():
            if name.startswith("weight/"):
                state[f"base_model.model.{name.removeprefix('weight/')}.weight"] = tensor.to(torch.bfloat16)
    out.mkdir(parents=True, exist_ok=True)
    (out / "adapter_config.json").write_text(json.dumps(peft_config(model), indent=2), encoding="utf-8")
    save_file(state, out / "adapter_model.safetensors")  # last: where it is, the adapter is at hand


def peft_config(model: ModelPart) -> dict[str, Any]:
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": model.path,
        "r": model.rank,
        "lora_alpha": model.alpha,
        "bias": "none",
        "target_modules": list(model.targets),
    }
