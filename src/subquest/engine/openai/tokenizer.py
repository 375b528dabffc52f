"""Tokenizers for exact contexts: the ids that were sampled are sent, never text that is encoded again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from ...errors import MissingDependency, UsageError
from ...protocol import fence_tokens
from ..chat_format import ChatFormat, chat_format_of


class Tokenizer(Protocol):
    """A tokenizer with the chat format of its model."""

    @property
    def form(self) -> ChatFormat: ...

    def encode(self, text: str, control: bool, /) -> Sequence[int]:
        """Token ids; special tokens in the text are recognised only in control text."""
        ...


class HuggingFaceTokenizer:
    """A tokenizer of the transformers library, from a folder or a model name."""

    def __init__(self, source: str | Path) -> None:
        try:
            import transformers
        except ImportError:
            raise MissingDependency("transformers, which reads tokenizers,", "train") from None
        try:
            self._inner: Any = transformers.AutoTokenizer.from_pretrained(str(source))
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot load a tokenizer from {str(source)!r}: {str(error).splitlines()[0]}") from None
        self.form = chat_format_of(self._inner)
        whole = self._inner.added_tokens_decoder.values()
        fence_tokens(*([t.content for t in whole if t.special is special] for special in (True, False)))

    def encode(self, text: str, control: bool, /) -> Sequence[int]:
        ids = self._inner(text, add_special_tokens=False, split_special_tokens=not control)["input_ids"]
        return [int(i) for i in ids]
