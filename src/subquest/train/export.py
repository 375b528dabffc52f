"""Trained weights as files that other tools read: a LoRA adapter in PEFT's format, or a folder of safetensors."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from ..engine.adapter import UNSAID
from .lora import save_adapter
from .policy import Policy
from .sharding import whole


def save_trained(policy: Policy, folder: Path, *, base: str = "", prompts: str = UNSAID, write: bool = True) -> None:
    """The adapter where there is one, else a whole model: weights in bfloat16, configuration, tokenizer and end tokens.

    Where the policy is sharded every process takes part, and the one that is to `write` does.
    """
    if policy.lora is not None:
        save_adapter(policy, policy.lora, folder, base=base, prompts=prompts, write=write)
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
    config = policy.config.to_dict() | {"dtype": "bfloat16"}
    (folder / "config.json").write_text(json.dumps(config, indent=2, default=str), encoding="utf-8")
    ends = {"eos_token_id": list(policy.end_ids)}
    (folder / "generation_config.json").write_text(json.dumps(ends, indent=2), encoding="utf-8")
    policy.tokenizer.save_pretrained(folder)
