"""The tokenizer that a GGUF file describes.

Byte-level BPE (GPT-2's kind: SmolLM2, Qwen2, Qwen3, Llama 3) is built here from the file's tokens and merges. Anything
else is left to transformers, which reads the file once more in its own, slower way.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...errors import DataError
from ..gguf_file import CONTROL, USER_DEFINED, GgufFile
from .vocabulary import BYTE_LETTERS, SPLITS

_NAMED = {
    "bos_token": "bos_token_id", "eos_token": "eos_token_id", "unk_token": "unknown_token_id",
    "pad_token": "padding_token_id",
}  # fmt: skip


def tokenizer_of(file: GgufFile) -> Any:
    """A transformers tokenizer."""
    if file.fields.get("tokenizer.ggml.model") != "gpt2" or file.fields.get("tokenizer.ggml.pre") not in SPLITS:
        return by_transformers(file.path)
    return byte_level(file)


def by_transformers(path: Path) -> Any:
    """The tokenizer as transformers converts it."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)


def byte_level(file: GgufFile) -> Any:
    """Byte-level BPE from the file's vocabulary."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE
    from transformers import PreTrainedTokenizerFast

    fields = file.fields
    for part in ("tokens", "merges"):
        if not fields.get(f"tokenizer.ggml.{part}"):
            raise DataError(f"{file.path}: the GGUF metadata has no tokenizer.ggml.{part}")
    tokens: list[str] = fields["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    alphabet = set(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token if alphabet.issuperset(token) else _spelled(token): n for n, token in enumerate(tokens)}
    backend = Tokenizer(BPE(vocab=vocabulary, merges=merges, continuing_subword_prefix="", end_of_word_suffix=""))
    split = SPLITS[fields["tokenizer.ggml.pre"]]
    backend.pre_tokenizer = (
        pre_tokenizers.ByteLevel(add_prefix_space=False)
        if split is None
        else pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(split), behavior="isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
    )
    backend.decoder = decoders.ByteLevel()
    kinds = fields.get("tokenizer.ggml.token_type", ())
    whole = [(token, kind) for token, kind in zip(tokens, kinds, strict=False) if kind in (CONTROL, USER_DEFINED)]
    for kind, add in ((CONTROL, backend.add_special_tokens), (USER_DEFINED, backend.add_tokens)):
        add(
            [
                AddedToken(t, normalized=False, special=kind == CONTROL)
                for t, k in whole
                if k == kind and t in vocabulary
            ]
        )
    named = {name: fields.get(f"tokenizer.ggml.{key}") for name, key in _NAMED.items()}
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        name_or_path=str(file.path.parent),
        chat_template=fields.get("tokenizer.chat_template"),
        **{name: None if number is None else tokens[number] for name, number in named.items()},
    )


def _spelled(token: str) -> str:
    """A token in GPT-2's spelling of bytes: printable Latin-1 stands for itself, the rest starts at U+0100."""
    return "".join(BYTE_LETTERS[byte] for byte in token.encode())
