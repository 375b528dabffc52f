"""Which base model an adapter is for: by the digest that it names, and by the shapes of its matrices."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping
from pathlib import Path

from ..errors import UsageError
from ..models import MODELS, KnownModel, file_digest
from .adapter import Lora, base_of, gguf_name, read_peft
from .gguf_file import read_gguf_file

Shapes = Mapping[str, tuple[int, ...]]
"""[out, in] of weights, by GGUF's names."""


def base_digest(base: Path) -> str:
    """What an adapter calls its base: the SHA-256 of the file, or of all safetensors of a folder."""
    if not base.is_dir():
        return file_digest(base)
    weights = sorted(base.glob("*.safetensors"))
    if len(weights) == 1:
        return file_digest(weights[0])
    return hashlib.sha256("".join(f"{file.name} {file_digest(file)}\n" for file in weights).encode()).hexdigest()


def known_base(adapter: Path) -> KnownModel | None:
    """The known model that an adapter was trained on; None if it names none of them."""
    named = base_of(adapter)
    return next((model for model in MODELS.values() if model.files[0].sha256 == named), None)


def check_base(adapter: Path, base: Path) -> None:
    """Refuse an adapter that was trained on another base model, or on another quantisation of this one."""
    named = base_of(adapter)
    if not named or base_digest(base) == named:
        return
    known = known_base(adapter)
    right = f"run it with --model {known.name}" if known else "run it with its own base (gguf:PATH)"
    trained = known.name if known else f"the base with SHA-256 {named[:12]}…"
    if _misfit(_shapes(adapter), base):
        raise UsageError(f"the adapter {adapter} was trained on {trained}, and {base.name} is another model: {right}")
    raise UsageError(
        f"the adapter {adapter} was trained on {trained}, and {base.name} is another model of this shape or another "
        f"quantisation of it: {right}. To use it with this file all the same: "
        f"subquest model adapter convert {shlex.quote(str(adapter))} NEW.gguf --base {shlex.quote(str(base))}"
    )


def check_fits(lora: Lora, base: Path) -> None:
    """Refuse an adapter whose matrices have other shapes than a base model's weights."""
    if found := _misfit(_shapes_of(lora), base):
        raise UsageError(f"the adapter is not of {base.name}: {found}; name its own base with --base")


def _misfit(shapes: Shapes, base: Path) -> str:
    """How the weights that an adapter changes differ from those of a GGUF file; empty where they do not."""
    own = {} if base.is_dir() else _tensors(base)
    for name, shape in shapes.items() if own else ():
        if own.get(name) != shape:
            there = f"the model's is {_shown(own[name])}" if name in own else "the model has none"
            return f"its {name} is {_shown(shape)}, and {there}"
    return ""


def _shown(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape))


def _shapes(adapter: Path) -> Shapes:
    if adapter.is_dir():
        return _shapes_of(read_peft(adapter))
    own = _tensors(adapter)
    halves = [(name.removesuffix(".lora_a"), a) for name, a in own.items() if name.endswith(".lora_a")]
    return {weight: (own[b][0], a[1]) for weight, a in halves if (b := f"{weight}.lora_b") in own}


def _shapes_of(lora: Lora) -> Shapes:
    return {f"{gguf_name(module)}.weight": (len(b), a.shape[1]) for module, (a, b) in lora.pairs.items()}


def _tensors(file: Path) -> Shapes:
    return {tensor.name: tensor.shape for tensor in read_gguf_file(file).tensors}
