"""Tiny random models with a byte tokenizer: every architecture in milliseconds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from subquest.engine.torch import TorchEngine

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seed() -> None:
    """Random numbers depend on nothing but the test."""
    torch.manual_seed(0)


FAMILIES = ("llama", "qwen2", "qwen3")
_CLASSES: dict[str, tuple[Any, Any]] = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
}


def byte_tokenizer() -> PreTrainedTokenizerFast:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|im_start|>", special=True), AddedToken("<|im_end|>", special=True)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>")


def tiny_model(family: str = "llama", *, seed: int = 0, **changes: Any) -> Any:
    config_class, model_class = _CLASSES[family]
    settings: dict[str, Any] = {
        "vocab_size": 264, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3,
        "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 512,
        "initializer_range": 0.25, "tie_word_embeddings": family != "qwen2", "eos_token_id": 257,
    }  # fmt: skip
    torch.manual_seed(seed)
    model = model_class(config_class(**{**settings, **changes})).eval()
    for name, parameter in model.named_parameters():  # norms and biases start as constants, which would hide mistakes
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, 1.0 if "norm" in name else 0.0, 0.2)
    return model


def greedy(model: Any, ids: list[int], count: int) -> list[int]:
    """What `model.generate` writes."""
    prompt = torch.tensor([ids])
    out = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=count,
        do_sample=False,
        pad_token_id=0,
        eos_token_id=257,
    )
    return [int(i) for i in out[0, len(ids) :]]


def full_logprobs(model: Any, ids: list[int], start: int, temperature: float = 1.0) -> torch.Tensor:
    """Log-probabilities of the tokens from `start` on, by one pass over the whole context."""
    with torch.no_grad():
        logits = model(torch.tensor([ids]), use_cache=False).logits[0, start - 1 : -1].float() / temperature
    found: torch.Tensor = logits.log_softmax(-1).gather(1, torch.tensor(ids[start:])[:, None])[:, 0]
    return found


MakeEngine = Callable[..., Awaitable[TorchEngine]]


@pytest.fixture
async def make_engine() -> AsyncIterator[Callable[..., TorchEngine]]:
    """Engines over a model in memory, closed at the end of the test."""
    made: list[TorchEngine] = []

    def make(model: Any, **settings: Any) -> TorchEngine:
        engine = TorchEngine.from_model(model, byte_tokenizer(), **{"cache_tokens": 4096, "max_batch": 32, **settings})
        made.append(engine)
        return engine

    yield make
    for engine in made:
        await engine.close()
