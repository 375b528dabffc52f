"""The torch engine of a model that is named by a file or folder, for evaluation in batches on a GPU or a CPU."""

from __future__ import annotations

from pathlib import Path

import torch

from ...errors import UsageError
from ...models import default_adapter, embedded_model
from ..adapter import prompt_set_of
from .engine import TorchEngine
from .loader import load, load_adapter
from .weights import Adapter

EMBEDDED = "smollm2"


def named_engine(
    name: str, *, adapter: str | None = None, window: int | None = None, device: str | None = None
) -> TorchEngine:
    """`name` is a folder with safetensors, a GGUF file, or `smollm2` for the model that Subquest embeds.

    `adapter` is a LoRA as PEFT's folder or as a GGUF file; `default` is the one that ships, for `smollm2` alone.
    """
    path = embedded_model() if name == EMBEDDED else Path(name).expanduser()
    if not path.exists():
        raise UsageError(f"no such model: {path} (a folder with safetensors, a GGUF file, or {EMBEDDED})")
    engine = TorchEngine(load(path), window=window, device=device)
    engine.prompt_set = "compact" if name == EMBEDDED else "full"
    if adapter is not None:
        file = default_adapter() if adapter == "default" else Path(adapter).expanduser()
        if file is not None:
            engine.refresh(adapter=read_adapter(file, path))
            engine.prompt_set = prompt_set_of(file)
    return engine


def read_adapter(file: Path, base: Path) -> Adapter:
    """A LoRA as PEFT's folder or as a GGUF file, for the model in `base`."""
    if file.is_dir():
        return load_adapter(file)
    if not file.exists():
        raise UsageError(f"no such adapter: {file}")
    from ..adapter import read_gguf, shape_of

    lora = read_gguf(file, shape_of(base))
    # alpha is over each pair's own rank, as llama.cpp has it; ours is one scale for all
    pairs = {
        name: (torch.from_numpy(a), torch.from_numpy(b) * (lora.rank / len(a))) for name, (a, b) in lora.pairs.items()
    }
    return Adapter(pairs, lora.alpha / lora.rank)
