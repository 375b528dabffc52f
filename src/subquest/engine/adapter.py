"""LoRA adapters between PEFT's form (safetensors and adapter_config.json) and llama.cpp's (one GGUF file).

A LoRA adapter is a pair of thin matrices for each adapted weight: W + (alpha / rank) B A. The two forms contain the
same matrices under different names, with one trap: llama.cpp stores the rows of the query and key weights of the llama
architecture in another order (its rotary embedding rotates neighbouring rows of a head, Hugging Face's rotates row i
with row i + half). An adapter's B has the weight's rows, so its rows must be reordered in the same way.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError, UsageError
from ..input_file import read_json
from .gguf_file import read_gguf_file
from .gguf_package import gguf_package, gguf_writer, open_gguf
from .safetensors_file import read_safetensors, write_safetensors

Array = np.ndarray[Any, Any]

_MODULES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
PEFT_PREFIX = "base_model.model."
"""What PEFT writes before the names of the base model's modules."""
_REORDERED = {"llama": True, "qwen2": False, "qwen3": False}
"""Architectures (GGUF's names) that we convert, and whether query and key rows are reordered."""


PROMPTS = "subquest.prompts"
"""The key under which an adapter names the set of prompts it was trained on: `compact` or `full`, with `+abstain` if it
learnt to say `unknown` where they allow it, and other ways in which a system trained it (`+no-refine`)."""
UNSAID = "compact"
"""The set of prompts of adapters that do not name one: they are older than the full prompts."""


BASE = "subquest.base"
"""The key under which an adapter names its base model, by the SHA-256 of its file."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What the conversion needs to know about the base model."""

    architecture: str
    heads: int
    kv_heads: int

    def __post_init__(self) -> None:
        if self.architecture not in _REORDERED:
            known = ", ".join(_REORDERED)
            raise UsageError(
                f"adapters for the architecture {self.architecture!r} are not supported; known are {known}"
            )


@dataclass(frozen=True, slots=True)
class Lora:
    """An adapter in Hugging Face's names and row order: module name (`model.layers.0.mlp.up_proj`) to (A, B)."""

    pairs: dict[str, tuple[Array, Array]]
    """A is [rank, in], B is [out, rank]."""
    alpha: float
    prompts: str = UNSAID
    """The set of prompts it was trained on."""
    base: str = ""
    """SHA-256 of the base model; empty for adapters that do not name one."""

    @property
    def rank(self) -> int:
        return max(len(a) for a, _ in self.pairs.values())

    def delta(self, module: str) -> Array:
        """What the adapter adds to a weight, float32 [out, in]."""
        a, b = self.pairs[module]
        return (self.alpha / len(a)) * (b.astype(np.float32) @ a.astype(np.float32))


def mixed(one: Lora, two: Lora, share: float) -> Lora:
    """The weighted average of two adapters: `share` of the way from the first to the second."""
    if one.pairs.keys() != two.pairs.keys() or one.alpha != two.alpha:
        raise UsageError("only adapters of the same modules and alpha can be mixed")
    pairs: dict[str, tuple[Array, Array]] = {}
    for module, pair in one.pairs.items():
        if any(x.shape != y.shape for x, y in zip(pair, two.pairs[module], strict=True)):
            raise UsageError(f"only adapters of one rank and base model can be mixed: they differ in {module}")
        a, b = (
            ((1 - share) * x.astype(np.float32) + share * y.astype(np.float32)).astype(x.dtype)
            for x, y in zip(pair, two.pairs[module], strict=True)
        )
        pairs[module] = (a, b)
    return Lora(pairs, one.alpha, one.prompts, one.base)


def reorder(rows: Array, heads: int) -> Array:
    """Rows of a query or key matrix from Hugging Face's order into llama.cpp's."""
    _check_heads(rows, heads)
    return rows.reshape(heads, 2, len(rows) // heads // 2, -1).swapaxes(1, 2).reshape(rows.shape)


def restore(rows: Array, heads: int) -> Array:
    """The inverse of `reorder`."""
    _check_heads(rows, heads)
    return rows.reshape(heads, len(rows) // heads // 2, 2, -1).swapaxes(1, 2).reshape(rows.shape)


def _check_heads(rows: Array, heads: int) -> None:
    if len(rows) % (2 * heads):
        raise UsageError(
            f"the adapter is not of this base model: {len(rows)} rows cannot be {heads} heads; name its own with --base"
        )


def shape_of(base: Path) -> Shape:
    """The shape of a base model, from its GGUF file or from a folder with Hugging Face's config.json."""
    try:
        return _read_shape(base)
    except DataError:
        raise
    except UsageError as error:
        raise UsageError(f"{base}: {error}") from None


def _read_shape(base: Path) -> Shape:
    if base.is_dir():
        try:
            config = read_json(base / "config.json", "the model's shape from")
            heads = int(config["num_attention_heads"])
            kind = str(config["model_type"])
            return _shape("llama" if kind == "mistral" else kind, heads, config.get("num_key_value_heads", heads))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise DataError(f"cannot read the model's shape from {base / 'config.json'}: {error!r:.200}") from None
    fields = read_gguf_file(base).fields
    architecture = str(fields.get("general.architecture"))
    try:
        heads = int(fields[f"{architecture}.attention.head_count"])
        return _shape(architecture, heads, fields.get(f"{architecture}.attention.head_count_kv", heads))
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{base} does not say how many attention heads the model has: {error}") from None


def _shape(architecture: str, heads: int, kv_heads: Any) -> Shape:
    if heads < 1 or not 1 <= int(kv_heads) <= heads:
        raise ValueError(f"a model has at least one attention head, not {heads} and {kv_heads}")
    return Shape(architecture, heads, int(kv_heads))


def read_peft(folder: Path) -> Lora:
    """An adapter from a folder as PEFT and our trainer write it."""
    try:
        config = read_json(folder / "adapter_config.json", "the adapter")
        alpha, rank = float(config["lora_alpha"]), int(config["r"])
        if rank < 1 or not math.isfinite(alpha):
            raise ValueError(f"its rank is {rank} and its alpha {alpha:g}")
    except (DataError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{folder} is not a LoRA adapter in PEFT's format: {error!s:.300}") from None
    for option in ("use_dora", "rank_pattern", "alpha_pattern", "modules_to_save", "trainable_token_indices"):
        if config.get(option):
            raise DataError(f"{folder}: adapters with {option} cannot be converted")
    if config.get("bias", "none") != "none":
        raise DataError(f"{folder}: adapters that train biases cannot be converted")
    tensors = read_safetensors(folder / "adapter_model.safetensors")
    halves: dict[str, dict[str, Array]] = {}
    for name, tensor in tensors.items():
        module, _, part = name.removeprefix(PEFT_PREFIX).removesuffix(".weight").rpartition(".")
        if part not in ("lora_A", "lora_B"):
            raise DataError(f"{folder}: {name} is not part of a plain LoRA adapter")
        halves.setdefault(module, {})[part] = tensor
    pairs: dict[str, tuple[Array, Array]] = {}
    for module, half in halves.items():
        if len(half) != 2 or half["lora_A"].shape[0] != half["lora_B"].shape[1]:
            raise DataError(f"{folder}: {module} lacks one of its two matrices, or their ranks differ")
        pairs[module] = (half["lora_A"], half["lora_B"])
    if not pairs:
        raise DataError(f"{folder}: the adapter is empty")
    alpha = alpha * math.sqrt(rank) if config.get("use_rslora") else alpha
    return Lora(pairs, alpha, str(config.get(PROMPTS, UNSAID)), str(config.get(BASE, "")))


def write_peft(lora: Lora, folder: Path, *, base: str = "") -> None:
    """Write an adapter as PEFT does."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {}
    for module, pair in lora.pairs.items():
        for part, tensor in zip(("lora_A", "lora_B"), pair, strict=True):
            tensors[f"{PEFT_PREFIX}{module}.{part}.weight"] = tensor
    write_safetensors(folder / "adapter_model.safetensors", tensors)
    targets = sorted({module.rpartition(".")[2] for module in lora.pairs})
    write_peft_config(
        folder,
        rank=lora.rank,
        alpha=lora.alpha,
        targets=targets,
        base=base,
        prompts=lora.prompts,
        base_digest=lora.base,
    )


def write_peft_config(
    folder: Path,
    *,
    rank: int,
    alpha: float,
    targets: Sequence[str],
    base: str,
    prompts: str,
    base_digest: str = "",
) -> None:
    """Write `adapter_config.json` as PEFT does, with the prompts and the base that the adapter was trained on."""
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": rank,
        "lora_alpha": alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": list(targets),
        "inference_mode": True,
        PROMPTS: prompts,
    } | ({BASE: base_digest} if base_digest else {})
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")


def write_gguf(
    lora: Lora, path: Path, shape: Shape, *, name: str = "", eight_bit: bool = False, reordered: bool = True
) -> None:
    """Write an adapter for llama.cpp, as it is or in eight bits (Q8_0; half precision where rows are no multiple of its
    blocks, as B's with a rank below 32). `reordered=False` leaves the rows alone, for tests that show why it matters.
    """
    with gguf_writer(path, shape.architecture) as writer:
        writer.add_type("adapter")
        writer.add_string("adapter.type", "lora")
        writer.add_float32("adapter.lora.alpha", float(lora.alpha))
        writer.add_string(PROMPTS, lora.prompts)
        if lora.base:
            writer.add_string(BASE, lora.base)
        if name:
            writer.add_name(name)
        for module, (a, b) in sorted(lora.pairs.items()):
            target = gguf_name(module)
            heads = _row_heads(target, shape) if reordered else None
            for part, matrix in (("lora_a", a), ("lora_b", reorder(b, heads) if heads else b)):
                stored, kind = _in_eight_bits(matrix) if eight_bit else (np.ascontiguousarray(matrix), None)
                writer.add_tensor(f"{target}.weight.{part}", stored, raw_dtype=kind)


def _in_eight_bits(matrix: Array) -> tuple[Array, Any]:
    gguf = gguf_package()
    kind = gguf.GGMLQuantizationType.Q8_0
    if matrix.shape[-1] % gguf.GGML_QUANT_SIZES[kind][0]:
        return np.ascontiguousarray(matrix, np.float16), None
    return gguf.quants.quantize(np.ascontiguousarray(matrix, np.float32), kind), kind


def read_gguf(path: Path, shape: Shape) -> Lora:
    """An adapter from llama.cpp's form."""
    found, alpha = read_gguf_pairs(path)
    pairs: dict[str, tuple[Array, Array]] = {}
    for weight, (a, b) in found.items():
        target = weight.removesuffix(".weight")
        heads = _row_heads(target, shape)
        pairs[module_name(target)] = (a.copy(), (restore(b, heads) if heads else b).copy())
    return Lora(pairs, alpha, prompt_set_of(path), base_of(path))


def read_gguf_pairs(path: Path) -> tuple[dict[str, tuple[Array, Array]], float]:
    """A and B of each adapted weight, by llama.cpp's names and in its row order, and alpha."""
    reader = open_gguf(path)
    alpha = reader.fields.get("adapter.lora.alpha")
    halves: dict[str, dict[str, Array]] = {}
    for tensor in reader.tensors:
        weight, _, part = str(tensor.name).rpartition(".")
        halves.setdefault(weight, {})[part] = _plain(tensor)
    if alpha is None or any(half.keys() != {"lora_a", "lora_b"} for half in halves.values()):
        raise DataError(f"{path} is not a LoRA adapter in GGUF form; make one with `subquest model adapter convert`")
    return {weight: (half["lora_a"], half["lora_b"]) for weight, half in halves.items()}, float(alpha.contents())


def _plain(tensor: Any) -> Array:
    """The numbers of a tensor, unpacked where they are quantised."""
    data = np.asarray(tensor.data)
    return (
        data if data.dtype in (np.float16, np.float32) else gguf_package().quants.dequantize(data, tensor.tensor_type)
    )


def prompt_set_of(place: Path) -> str:
    """The set of prompts that the adapter in a file or folder was trained on."""
    return str(_facts(place).get(PROMPTS, UNSAID))


def trained_prompt_set(model: Path) -> str:
    """The set of prompts that a whole model in a folder was trained on by us; empty for every other model."""
    config = model / "config.json"
    facts = read_json(config, "the model's configuration") if config.is_file() else {}
    return str(facts.get(PROMPTS, "")) if isinstance(facts, dict) else ""


def base_of(place: Path) -> str:
    """The SHA-256 of the base model that the adapter in a file or folder was trained on; empty if it names none."""
    return str(_facts(place).get(BASE, ""))


def _facts(place: Path) -> Mapping[str, Any]:
    if not place.is_dir():
        return read_gguf_file(place).fields
    try:
        facts = read_json(place / "adapter_config.json", "the adapter")
        if not isinstance(facts, dict):
            raise DataError("adapter_config.json is not an object")
    except DataError as error:
        raise DataError(f"{place} is not a LoRA adapter in PEFT's format: {error}") from None
    return facts


def gguf_name(module: str) -> str:
    """`model.layers.3.self_attn.q_proj` is `blk.3.attn_q` in GGUF."""
    parts = module.split(".", 3)
    if len(parts) == 4 and parts[:2] == ["model", "layers"] and parts[3] in _MODULES:
        return f"blk.{parts[2]}.{_MODULES[parts[3]]}"
    raise DataError(f"an adapter on {module} cannot be converted; known are {', '.join(_MODULES)} of a layer")


def module_name(target: str) -> str:
    """The inverse of `gguf_name`."""
    parts = target.split(".")
    for module, name in _MODULES.items():
        if len(parts) == 3 and parts[0] == "blk" and parts[2] == name:
            return f"model.layers.{parts[1]}.{module}"
    raise DataError(f"an adapter on {target} cannot be converted")


def _row_heads(target: str, shape: Shape) -> int | None:
    """The number of heads by which the rows of a weight are reordered, None if they are not."""
    if not _REORDERED[shape.architecture]:
        return None
    return {"attn_q": shape.heads, "attn_k": shape.kv_heads}.get(target.rpartition(".")[2])
