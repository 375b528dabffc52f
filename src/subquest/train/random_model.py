"""A tiny random model with its own tokenizer, for `smoke` recipes and tests.

It knows nothing and learns little, but it is a real Llama, Qwen2 or Qwen3: every line of the trainer runs on it within
seconds on a CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..engine.torch.loader import Source
from ..errors import ConfigError

SPECIAL = ("<|im_start|>", "<|im_end|>")
SHAPE = {
    "hidden_size": 48,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": True,
    "initializer_range": 0.2,
}


def tiny_source(family: str = "llama", texts: Sequence[str] = (), *, vocabulary: int = 800) -> Source:
    """A random model of a family; its tokenizer is trained on `texts`, or has only bytes if there are none."""
    import transformers

    kinds: dict[str, tuple[Any, Any]] = {
        "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
        "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
        "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
    }
    if family not in kinds:
        raise ConfigError(f"random:{family}: there are random:{', random:'.join(kinds)}")
    tokenizer = _tokenizer(texts, vocabulary)
    config_class, model_class = kinds[family]
    end = tokenizer.convert_tokens_to_ids(SPECIAL[1])
    state = torch.random.get_rng_state()
    torch.manual_seed(0)
    model = model_class(config_class(vocab_size=len(tokenizer), eos_token_id=end, bos_token_id=None, **SHAPE))
    torch.random.set_rng_state(state)
    return Source(f"random-{family}", model.config, model.state_dict(), tokenizer, (end,))


def _tokenizer(texts: Sequence[str], vocabulary: int) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=SPECIAL[1])
