"""The trainings of a study: each is `subquest train` in a process of its own.

What is kept of a training is its last adapter, whatever its dev score (a choice by score would hide a reward that
spoils the policy), and its curves. Trainings that are compared start from the same adapter, which a training before
them made.
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
from ..errors import DataError, UsageError
from .design import SHIPPED, Study, Training
from .results import Progress, Results, with_origins
from .stamps import Stamps, file_digest, known_as

if TYPE_CHECKING:
    from ..train.recipe import ModelPart

FIGURES = (
    "loss", "reward", "reward_std", "em", "f1", "tasks", "idle_executors", "format_errors", "forced", "cut_turns",
    "searches", "written_planner", "length_planner", "completion_tokens", "drawn", "entropy", "kl", "seconds",
)  # fmt: skip
"""Curves that are kept, besides the terms of rewards and what the dev questions got."""
CHECKPOINTS = "step-*[0-9]"
"""Those that are complete: a killed training may leave another one half written."""
THREADS = "4"
"""For the tensor library on the CPU: several trainings may share the cores."""


def train(
    study: Study,
    trainings: Sequence[Training],
    runs: Path,
    results: Results,
    *,
    adapters: Mapping[str, str],
    until: float | None = None,
    model: str = "",
    device: str = "",
    report: Callable[[str], None] = lambda text: None,
) -> list[str]:
    """Run trainings one after another, until a Unix time; returns those that did not reach their last step."""
    short = []
    for training in trainings:
        left = None if until is None else (until - time.time()) / 60
        if left is not None and left <= 0:
            short.append(training.name)
            continue
        report(f"{training.name}: training")
        began = time.monotonic()
        status = start_training(study, training, runs, adapters, minutes=left, model=model, device=device).wait()
        try:
            step, last = finish_training(study, training, runs, results)
        except DataError as error:
            report(str(error))
            short.append(training.name)
            continue
        seconds = time.monotonic() - began
        report(f"{training.name}: step {step} of {last}, {seconds:.0f} s, exit status {status}")
        short += [training.name] if step < last else []
    return short


def start_training(
    study: Study,
    training: Training,
    runs: Path,
    adapters: Mapping[str, str],
    *,
    minutes: float | None = None,
    model: str = "",
    device: str = "",
) -> subprocess.Popen[bytes]:
    """Start a training, or resume it where its folder has a checkpoint. `model` says where its model is."""
    folder = folder_of(study, training, runs)
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "subquest", "train", str(training.recipe), "--out", str(folder)]
    changes = {**training.set, "model.adapter": adapters.get(study.start_of(training), "")}
    changes |= {"model.path": model} if model else {}
    for key, value in changes.items():
        command += ["--set", f"{key}={to_toml(value)}"]
    command += [] if minutes is None else ["--minutes", f"{minutes:.2f}"]
    command += ["--device", device] if device else []
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, env={"OMP_NUM_THREADS": THREADS, **os.environ})


def finish_training(study: Study, training: Training, runs: Path, results: Results) -> tuple[int, int]:
    """Keep the curves, and the adapter where the last step was reached; returns the step reached and the last one."""
    from ..train.recipe import Recipe

    folder = folder_of(study, training, runs)
    steps = sorted((folder / "checkpoints").glob(CHECKPOINTS))
    if not steps:
        last = (folder / "log").read_text(encoding="utf-8", errors="replace")[-600:]
        raise DataError(f"the training {training.name} has no checkpoint; its log ends: {last}")
    recipe = from_dict(Recipe, json.loads((folder / "recipe.json").read_text(encoding="utf-8")))
    reached = last_step(folder)
    adapter = ""
    if reached >= recipe.optimiser.steps:  # variants that learned for fewer steps cannot be compared
        place = adapter_of(study, training, runs)
        export_adapter(steps[-1], place, recipe.model)
        adapter = file_digest(str(place))
    known = known_as(study, training)
    before = results.training(training.name, known).get("figures", {})  # steps that were made on another machine
    curves: dict[str, dict[int, float]] = {name: dict(found) for name, found in before.items()}
    for name, made in curves_of(folder).items():
        curves.setdefault(name, {}).update(made)
    figures = {name: sorted(found.items()) for name, found in curves.items()}
    results.keep_training(training.name, known, adapter, figures)
    return reached, recipe.optimiser.steps


def curves_of(folder: Path) -> dict[str, dict[int, float]]:
    """What a training has measured so far, by figure and step; empty before its first step."""
    from ..runs import RunStore

    curves: dict[str, dict[int, float]] = {}
    if (folder / "run.sqlite").is_file():
        with RunStore.open(folder) as store:
            for step, name, value in store.metrics():
                if name in FIGURES or name.startswith(("reward/", "dev_")):
                    curves.setdefault(name, {})[step] = round(value, 5)
    return curves


def folder_of(study: Study, training: Training, runs: Path) -> Path:
    """Where a training is kept; another recipe or start of the same name has another place."""
    name = training.name.replace("=", "-").replace(",", "-")
    return runs / f"{name}-{known_as(study, training)[:8]}"


def adapter_of(study: Study, training: Training, runs: Path) -> Path:
    """Where a training leaves its adapter."""
    return folder_of(study, training, runs) / "adapter"


def last_step(folder: Path) -> int:
    """The step of a training's last checkpoint."""
    names = (f.name for f in (folder / "checkpoints").glob(CHECKPOINTS))
    return max((int(name.removeprefix("step-")) for name in names), default=0)


def open_progress(
    study: Study, results: Results, runs: Path, *, use: Mapping[str, str] | None = None, model: str = ""
) -> Progress:
    """A study with its results and the adapters that are available: those of trainings in `runs`, those kept with the
    recipes because others start from them, the one that ships, and those of `use`. `model` says where its model is."""
    study = with_origins(study, results)
    adapters = find_adapters(study, runs, use or {})
    return Progress(study, results, Stamps(study, adapters, model=model or study.model or "smollm2"))


def find_adapters(study: Study, runs: Path, use: Mapping[str, str]) -> dict[str, str]:
    """Where adapters are, by name; refuses those that are not what the stored rows were measured with."""
    from ..models import default_adapter

    found = trained_adapters(study, runs)
    if (shipped := default_adapter(study.model or "smollm2")) is not None:
        found[SHIPPED] = str(shipped)
    found |= use
    if study.shipped and SHIPPED in found and file_digest(found[SHIPPED]) != study.shipped:
        raise UsageError(
            f"{found[SHIPPED]} is not the adapter that the study was run with; give that one with "
            f"--use {SHIPPED}=PLACE, or start again by changing `shipped` in the recipe of the study"
        )
    for name in (s for s in study.starts if s in found):
        recorded = study.origins.get(name, "") not in ("", known_as(study, study.trainings[name]))
        if recorded and file_digest(found[name]) != study.origins[name]:
            raise UsageError(f"{found[name]} is not the adapter {name} that trainings of the study started from")
    return found


def trained_adapters(study: Study, runs: Path) -> dict[str, str]:
    """The adapters of trainings that were finished on this machine, and of starts that are kept with the recipes."""
    places = {t.name: adapter_of(study, t, runs) for t in study.trainings.values()}
    found = {name: str(place) for name, place in places.items() if (place / "adapter_model.safetensors").is_file()}
    for name in study.starts:
        kept = study.folder / "adapters" / name
        if name not in found and kept.is_dir() and file_digest(str(kept)) == study.origins.get(name):
            found[name] = str(kept)
    return found


def missing_start(progress: Progress, trainings: Sequence[Training]) -> Training | None:
    """What must be trained before these, the first of it; raises UsageError where it was made and is gone."""
    study = progress.study
    for name in dict.fromkeys(study.start_of(t) or t.name for t in progress.untrained(trainings)):
        if name not in study.starts or name in progress.stamps.adapters:
            continue
        start = study.trainings[name]
        if progress.results.training(name, known_as(study, start)).get("adapter"):
            raise UsageError(
                f"the adapter {name}, which trainings start from, was made and is not available: give it with "
                f"--use {name}=PLACE"
            )
        return start
    return None


def to_toml(value: Any) -> str:
    """A value as TOML writes it; JSON does for texts, numbers and switches."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {to_toml(v)}" for key, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(to_toml, value)) + "]"
    return json.dumps(value)


def export_adapter(checkpoint: Path, out: Path, model: ModelPart) -> None:
    """The trained weights of a checkpoint as an adapter in PEFT's format, in bfloat16."""
    import torch
    from safetensors.torch import load_file, save_file

    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": model.path,
        "r": model.rank,
        "lora_alpha": model.alpha,
        "bias": "none",
        "target_modules": list(model.targets),
    }
    state = {}
    for shard in sorted(checkpoint.glob("shard-*.safetensors")):
        for name, tensor in load_file(shard).items():
            if name.startswith("weight/"):
                state[f"base_model.model.{name.removeprefix('weight/')}.weight"] = tensor.to(torch.bfloat16)
    out.mkdir(parents=True, exist_ok=True)
    (out / "adapter_config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    save_file(state, out / "building")
    os.replace(out / "building", out / "adapter_model.safetensors")  # where it exists, the adapter is complete
