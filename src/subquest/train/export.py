"""Trained weights as files that other tools read: a LoRA adapter in PEFT's format, or a folder of safetensors."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from .lora import save_adapter
from .policy import Policy


def save_trained(policy: Policy, folder: Path, *, base: str = "") -> None:
    """The adapter where there is one, else all weights with the model's configuration, in bfloat16."""
    if policy.lora is not None:
        save_adapter(policy, policy.lora, folder, base=base)
        return
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    tied = policy.architecture.tied
    state = {
        name: p.detach().to(torch.bfloat16).cpu().contiguous()
        for name, p in policy.named_parameters()
        if not (tied and name == "lm_head.weight")
    }
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    config = policy.config.to_dict() | {"dtype": "bfloat16"}
    (folder / "config.json").write_text(json.dumps(config, indent=2, default=str), encoding="utf-8")
