"""Checkpoints, which hold all that a run needs to go on elsewhere, and trained weights for other tools.

A checkpoint is a folder: the trained weights and Adam's two moments in float32, in shards of at most 15 MB, and
`state.json` with everything else. There is no random state to keep: orders and seeds follow from the recipe's seed and
the step. A folder is written under another name, flushed and renamed, so a kill leaves the last good one in place.

Weights for other tools are a LoRA adapter in PEFT's format, or a folder of safetensors where all weights are trained.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..engine.adapter import PROMPTS, UNSAID
from ..engine.adapter_base import base_digest
from ..errors import DataError
from ..input_file import read_json
from ..models import is_language_model, resolve
from .distributed import ALONE, Ranks, like, whole
from .lora import save_adapter
from .optimiser import Optimiser
from .policy import Policy

SHARD_BYTES = 15_000_000


class Checkpoints:
    """The checkpoints of one run. Every process gathers its tensors, and the first one writes."""

    def __init__(self, folder: Path, *, keep: int = 3, ranks: Ranks = ALONE) -> None:
        self.folder = folder
        self.keep = keep
        self._ranks = ranks
        if ranks.first:
            folder.mkdir(parents=True, exist_ok=True)
            for leftover in folder.glob("*.tmp"):
                shutil.rmtree(leftover)
        ranks.wait()

    def steps(self) -> list[int]:
        names = (p.name.removeprefix("step-") for p in self.folder.glob("step-*") if p.is_dir())
        return sorted(int(name) for name in names if name.isdecimal())

    def path(self, step: int) -> Path:
        return self.folder / f"step-{step:06d}"

    def save(self, step: int, policy: Policy, optimiser: Optimiser, state: Mapping[str, Any]) -> Path:
        """Write a checkpoint and drop old ones beyond `keep`.

        A checkpoint that exists is what the run went on from and stays: while it was replaced there would be none.
        """
        final = self.path(step)
        tensors = _tensors(policy, optimiser)
        if self._ranks.first and not final.exists():
            self._write(final, step, tensors, {**state, "optimiser_steps": optimiser.step_count})
        self._ranks.wait()
        return final

    def _write(self, final: Path, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        building = final.with_suffix(".tmp")
        building.mkdir(parents=True)
        _write_shards(building, tensors)
        (building / "state.json").write_text(json.dumps({**state, "step": step}), encoding="utf-8")
        _flush(building)
        os.replace(building, final)
        _flush(self.folder)
        for old in self.steps()[: -self.keep]:
            gone = self.path(old).with_suffix(".tmp")
            os.replace(self.path(old), gone)  # a kill in the middle leaves nothing that looks like a checkpoint
            shutil.rmtree(gone)

    def state(self) -> dict[str, Any]:
        """The state of the newest checkpoint; empty if there is none, or none that can be read."""
        try:
            found = read_json(self.path(self.steps()[-1]) / "state.json")
        except (IndexError, DataError):
            return {}
        return found if isinstance(found, dict) else {}

    def load_latest(self, policy: Policy, optimiser: Optimiser) -> dict[str, Any] | None:
        """Restore the newest checkpoint; returns its state, or None if there is none."""
        steps = self.steps()
        return restore(self.path(steps[-1]), policy, optimiser) if steps else None


def restore(folder: Path, policy: Policy, optimiser: Optimiser) -> dict[str, Any]:
    """Put a checkpoint's weights and moments in place."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        state: dict[str, Any] = read_json(folder / "state.json")
        taken = int(state["optimiser_steps"])
        tensors: dict[str, Tensor] = {}
        for shard in sorted(folder.glob("shard-*.safetensors")):
            tensors.update(load_file(shard))
    except (DataError, OSError, ValueError, TypeError, KeyError, SafetensorError) as error:
        why = f"state.json has no {error}" if isinstance(error, KeyError) else error
        raise DataError(
            f"the checkpoint {folder} cannot be read ({why}); remove it to go on from the one before"
        ) from None
    for name, parameter in policy.trained().items():
        found = tensors.get(f"weight/{name}")
        if found is None or found.shape != parameter.shape:
            what = f"no {name}" if found is None else f"{name} with the shape {tuple(found.shape)}"
            raise DataError(f"the checkpoint {folder} is of another model or adapter: it has {what}")
    optimiser.step_count = taken
    with torch.no_grad():
        for name, parameter in policy.trained().items():
            parameter.copy_(like(tensors[f"weight/{name}"], parameter))
            if f"exp_avg/{name}" in tensors:
                entry = optimiser.adam.state[parameter]
                entry["step"] = torch.tensor(float(taken), device=_step_device(parameter))
                for moment in ("exp_avg", "exp_avg_sq"):
                    entry[moment] = like(tensors[f"{moment}/{name}"], parameter)
    return state


def _step_device(parameter: Tensor) -> torch.device:
    """Fused AdamW keeps its step counter beside the parameter, the plain one on the CPU."""
    return parameter.device if parameter.is_cuda else torch.device("cpu")


def _tensors(policy: Policy, optimiser: Optimiser) -> dict[str, Tensor]:
    out: dict[str, Tensor] = {}
    for name, parameter in policy.trained().items():
        out[f"weight/{name}"] = whole(parameter.detach()).cpu().contiguous()
        entry = optimiser.adam.state.get(parameter, {})
        for moment in ("exp_avg", "exp_avg_sq"):
            if moment in entry:
                out[f"{moment}/{name}"] = whole(entry[moment].detach()).cpu().contiguous()
    return out


def _write_shards(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    from safetensors.torch import save_file

    shard: dict[str, Tensor] = {}
    size = number = 0
    for name, tensor in tensors.items():
        bytes_ = tensor.numel() * tensor.element_size()
        if shard and size + bytes_ > SHARD_BYTES:
            save_file(shard, folder / f"shard-{number:03d}.safetensors")
            shard, size, number = {}, 0, number + 1
        shard[name] = tensor
        size += bytes_
    save_file(shard, folder / f"shard-{number:03d}.safetensors")


def _flush(folder: Path) -> None:
    """Push a folder and its files to the disk."""
    for path in (*(p for p in folder.iterdir() if p.is_file()), folder):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def save_trained(policy: Policy, folder: Path, *, base: str = "", prompts: str = UNSAID, write: bool = True) -> None:
    """Write the adapter, or else the whole model: weights in bfloat16, configuration, tokenizer and end tokens.

    Every process of a sharded policy must call this; only one should `write`.
    """
    if policy.lora is not None:
        known = write and (is_language_model(base) or (base != "" and Path(base).expanduser().exists()))
        digest = base_digest(resolve(base)) if known else ""
        save_adapter(policy, policy.lora, folder, base=base, prompts=prompts, write=write, base_digest=digest)
        return
    from safetensors.torch import save_file

    tied = policy.architecture.tied
    state = {
        name: whole(p.detach()).to(torch.bfloat16).cpu().contiguous()
        for name, p in policy.named_parameters()
        if not (tied and name == "lm_head.weight")
    }
    if not write:
        return
    folder.mkdir(parents=True, exist_ok=True)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    config = policy.config.to_dict() | {"dtype": "bfloat16", PROMPTS: prompts}
    (folder / "config.json").write_text(json.dumps(config, indent=2, default=str), encoding="utf-8")
    ends = {"eos_token_id": list(policy.end_ids)}
    (folder / "generation_config.json").write_text(json.dumps(ends, indent=2), encoding="utf-8")
    policy.tokenizer.save_pretrained(folder)
