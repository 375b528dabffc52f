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


def train_all(
    book: Book,
    trainings: Sequence[Training],
    runs: Path,
    results: Results,
    *,
    adapters: Mapping[str, str],
    minutes: float | None,
    workers: int,
    device: str = "",
    say: Callable[[str], None] = lambda text: None,
) -> list[str]:
    """Run them, `workers` at a time, from the adapters at hand; returns those that did not reach their last step. One
    that failed is tried once more, after the others: what they share a GPU with may have taken all its memory."""
    waiting = list(trainings)
    running: dict[str, tuple[Training, subprocess.Popen[bytes], float, int]] = {}
    until = None if minutes is None else time.monotonic() + 60 * minutes
    short: list[str] = []
    failed: set[str] = set()
    while waiting or running:
        while waiting and len(running) < workers:
            training = waiting.pop(0)
            left = None if until is None else until - time.monotonic()
            folder = folder_of(book, training, runs)
            done = steps_of(folder)
            if left is not None and left < training_seconds(training, results.speeds(), done=done).seconds:
                short.append(training.id)
                continue
            changes = {**training.set, "model.adapter": adapters.get(book.start_of(training), "")}
            process = _started(training, folder, changes, None if left is None else left / 60, device)
            running[training.id] = (training, process, time.monotonic(), done)
            say(f"{training.id}: training")
        time.sleep(0.5)
        for name, (training, process, began, done) in list(running.items()):
            if process.poll() is None:
                if until is not None and time.monotonic() > until + GRACE:
                    process.terminate()
                continue
            del running[name]
            again = process.returncode != 0 and name not in failed
            if again:
                failed.add(name)
                waiting.append(training)
            try:
                step, wanted = finish(book, training, runs, results)
            except DataError as error:
                say(str(error))
                short += [] if again else [name]
                continue
            took = time.monotonic() - began
            say(f"{name}: step {step} of {wanted}, {took:.0f} s, exit status {process.returncode}")
            if step > done:
                results.keep_speed(training_kind(training), step - done, took)
            if step < wanted and not again:
                short.append(name)
    return short


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
    """A value as TOML writes it; JSON does for texts, numbers, switches and lists of them."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_toml(v)}" for key, v in value.items()) + "}"
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
