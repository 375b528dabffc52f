"""What a Llama-shaped decoder looks like: the numbers and switches in which Llama, Qwen2 and Qwen3 differ."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import UsageError

if TYPE_CHECKING:
    import torch

FAMILIES = ("llama", "qwen2", "qwen3")


@dataclass(frozen=True, slots=True)
class Architecture:
    """Shapes of one model. `heads` queries share `kv_heads` keys and values in equal groups (GQA)."""

    family: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_size: int
    inner: int
    """Width of the feed-forward block."""
    vocabulary: int
    window: int
    """Longest context in tokens."""
    epsilon: float
    tied: bool
    """The output matrix is the embedding matrix."""
    qkv_bias: bool
    output_bias: bool
    qk_norm: bool
    """Queries and keys are normalised per head before rotation (Qwen3)."""
    frequencies: tuple[float, ...]
    """Rotary angle a position for each pair of channels."""
    rotary_scale: float = 1.0

    @classmethod
    def from_config(cls, config: Any) -> Architecture:
        """From a transformers configuration; refuses what this engine would compute wrongly."""
        family = str(config.model_type)
        if family not in FAMILIES:
            raise UsageError(f"the torch engine knows {', '.join(FAMILIES)}, not {family!r}")
        if getattr(config, "quantization_config", None):
            raise UsageError(
                "the torch engine reads whole weights; this model's are quantised: take the original, or a GGUF"
            )
        if getattr(config, "use_sliding_window", False):
            raise UsageError("the torch engine has no sliding-window attention; this model asks for it")
        if getattr(config, "mlp_bias", False):
            raise UsageError("the torch engine has no biases in feed-forward blocks; this model asks for them")
        if getattr(config, "hidden_act", "silu") != "silu":
            raise UsageError(f"the torch engine knows the activation silu, not {config.hidden_act!r}")
        head_size = int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)
        if head_size % 2:
            raise UsageError(
                f"rotary positions need heads of an even number of channels, this model's have {head_size}"
            )
        heads = int(config.num_attention_heads)
        kv_heads = int(config.num_key_value_heads or heads)
        if heads % kv_heads:
            raise UsageError(f"{heads} query heads cannot share {kv_heads} key-value heads in equal groups")
        frequencies, scale = _rotary(config, head_size)
        bias = bool(getattr(config, "attention_bias", False))
        return cls(
            family=family,
            layers=int(config.num_hidden_layers),
            width=int(config.hidden_size),
            heads=heads,
            kv_heads=kv_heads,
            head_size=head_size,
            inner=int(config.intermediate_size),
            vocabulary=int(config.vocab_size),
            window=int(config.max_position_embeddings),
            epsilon=float(config.rms_norm_eps),
            tied=bool(config.tie_word_embeddings),
            qkv_bias=family == "qwen2" or bias,
            output_bias=bias and family != "qwen2",
            qk_norm=family == "qwen3",
            frequencies=frequencies,
            rotary_scale=scale,
        )

    @property
    def softmax_scale(self) -> float:
        return 1.0 / math.sqrt(self.head_size)

    @property
    def group(self) -> int:
        """Query heads that share one key-value head."""
        return self.heads // self.kv_heads

    def cache_values(self) -> int:
        """Cached numbers a token: a key and a value for each layer and key-value head."""
        return 2 * self.layers * self.kv_heads * self.head_size

    def rotary_table(self, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and sines, each [window, head_size / 2] in fp32."""
        import torch

        angles = torch.arange(self.window, dtype=torch.float32)[:, None] * torch.tensor(self.frequencies)[None, :]
        return (angles.cos() * self.rotary_scale).to(device), (angles.sin() * self.rotary_scale).to(device)


def _rotary(config: Any, head_size: int) -> tuple[tuple[float, ...], float]:
    parameters: dict[str, Any] = dict(
        getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    )
    kind = parameters.get("rope_type", "default")
    theta = float(parameters.get("rope_theta", getattr(config, "rope_theta", 10_000.0)))
    if kind == "default":
        import torch

        exponents = torch.arange(0, head_size, 2, dtype=torch.int64).float() / head_size
        return tuple((1.0 / (theta**exponents)).tolist()), 1.0
    if kind in ("dynamic", "longrope"):
        raise UsageError(
            f"the torch engine has no rotary scaling of type {kind!r}: it changes with the context's length"
        )
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    if kind not in ROPE_INIT_FUNCTIONS:
        raise UsageError(f"the torch engine does not know the rotary scaling {kind!r}")
    frequencies, scale = ROPE_INIT_FUNCTIONS[kind](config, None)
    return tuple(float(f) for f in frequencies), float(scale)
