"""Text to token ids and back, by bytes.

Every token is a fixed string of bytes, so the text of a growing turn is the joined bytes of its tokens: no need to
decode the whole turn at every token, and a stop string is found when its last byte arrives. Contents are tokenised with
special tokens off and control text with them on, by two separate tokenizers, so threads do not interfere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ...errors import EngineRefused
from ...protocol import fence_tokens
from ...record import Segment
from ..chat_format import ChatFormat, Piece, encode_pieces, text_of
from ..interface import Message

_QWEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_LLAMA3 = _QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
SPLITS = {"smollm": None, "gpt-2": None, "qwen2": _QWEN, "llama-bpe": _LLAMA3}
"""How a text is cut before merging, by the name in `tokenizer.ggml.pre`; None is GPT-2's own way."""

_MARKS = "!-/:-@[-`{-~"
_SEAM = re.compile(
    rf"(?<=[!-~])(?= [!-~])|(?<=[A-Za-z0-9])(?=[{_MARKS}])|(?<=[{_MARKS}])(?=[0-9])|(?<=[!-~]\n)(?=[!-~])"
)
"""Where the tokenizers that `_has_seams` recognises always cut a text, whatever is on either side: before a single
space, between a word or number and a punctuation mark (but not between a mark and a word), and after a single line
break."""
_BROAD = re.compile(r"(?<=[!-~]\n)(?=[!-~])|(?<=\))(?= [A-Za-z])")
"""The cuts between documents of an observation, and between the head of a document and its text."""
_LONG = 200
"""Texts of at least this many characters may be observations."""
_WORDS = 200_000
"""Pieces between cuts that are cached."""


class Vocabulary:
    """A tokenizer as the engine needs it."""

    def __init__(self, tokenizer: Any, size: int) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", None) or getattr(tokenizer, "_tokenizer", None)
        if backend is None:
            raise EngineRefused("the torch engine needs a fast tokenizer (one of the `tokenizers` library)")
        description = backend.to_str()
        self._control = type(backend).from_str(description)
        self._content = type(backend).from_str(description)
        self._content.encode_special_tokens = True
        for part in (self._control, self._content):
            part.no_truncation()
            part.no_padding()
        self.size = size
        described = json.loads(description)
        whole = described.get("added_tokens", ())
        fence_tokens(*([t["content"] for t in whole if t["special"] is special] for special in (True, False)))
        self.pieces: tuple[bytes, ...] = _pieces(described, backend, size)
        """The bytes of each token."""

        self.encode = lru_cache(maxsize=8192)(self._encode)
        """Ids of control text or content, cached because prompts of roles are repeated."""
        self._prompt_segment = lru_cache(maxsize=1024)(self._new_prompt_segment)
        self._known: dict[str, tuple[int, ...]] = {}
        self._stretch = lru_cache(maxsize=32_768)(self._spelled)
        self._seams = _has_seams(described)

    def _encode(self, text: str, control: bool) -> tuple[int, ...]:
        """Observations are new combinations of the same documents, other texts of the same words. So ids are composed
        from those of the parts, if the tokenizer is known to give the same ids either way."""
        if control or not self._seams:
            return self._tokenised(text, control)
        if len(text) < _LONG:
            return tuple(self._spelled(text))
        return tuple([i for stretch in _BROAD.split(text) for i in self._stretch(stretch)])

    def prompt_segments(self, chat: ChatFormat, messages: Sequence[Message]) -> list[Segment]:
        """A prompt as segments, one per message; a message that is repeated is the same object."""
        parts = zip(messages, chat.opening_by_message(messages), strict=True)
        return [self._prompt_segment(message.role, tuple(pieces)) for message, pieces in parts]

    def _new_prompt_segment(self, role: str, pieces: tuple[Piece, ...]) -> Segment:
        return Segment("prompt", text_of(pieces), tuple(encode_pieces(pieces, self.encode)), role=role)

    def _spelled(self, text: str) -> list[int]:
        """The ids of a text, word by word; takes a tenth of the tokenizer's time."""
        ids: list[int] = []
        known = self._known
        for piece in _SEAM.split(text):
            found = known.get(piece)
            if found is None:
                if len(known) >= _WORDS:
                    known.clear()
                found = known[piece] = self._tokenised(piece, False)
            ids += found
        return ids

    def _tokenised(self, text: str, control: bool) -> tuple[int, ...]:
        tokenizer = self._control if control else self._content
        try:
            return tuple(tokenizer.encode(text, add_special_tokens=False).ids)
        except TypeError:  # lone surrogates, which tokenizers refuse
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            return tuple(tokenizer.encode(text, add_special_tokens=False).ids)

    def bytes_of(self, ids: Sequence[int]) -> bytes:
        pieces = self.pieces
        return b"".join([pieces[i] for i in ids])

    def decode(self, ids: Sequence[int]) -> str:
        return self.bytes_of(ids).decode("utf-8", errors="replace")

    def containing(self, byte: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which tokens contain this byte."""
        return np.fromiter((byte in piece for piece in self.pieces), np.bool_, self.size)


def _has_seams(description: dict[str, Any]) -> bool:
    """Whether the tokenizer is one of the byte-level family that cuts every text at `_SEAM`, with no token that reaches
    over white space."""
    if (description.get("normalizer") or {"type": "NFC"})["type"] != "NFC":
        return False
    if any(t["lstrip"] or t["rstrip"] or t["single_word"] or re.search(r"\s", t["content"])
           for t in description.get("added_tokens", ())):  # fmt: skip
        return False
    pre = description.get("pre_tokenizer") or {"type": ""}
    parts: list[dict[str, Any]] = pre["pretokenizers"] if pre["type"] == "Sequence" else [pre]
    cuts = False
    for part in parts:
        if part["type"] == "ByteLevel" and not part["add_prefix_space"]:
            cuts |= part["use_regex"]
        elif part["type"] == "Split" and part["behavior"] == "Isolated" and not part["invert"]:
            cuts |= part["pattern"].get("Regex", "") in SPLITS.values()
        elif part["type"] != "Digits":
            return False
    return cuts


def _pieces(description: dict[str, Any], backend: Any, size: int) -> tuple[bytes, ...]:
    decoder = json.dumps(description.get("decoder") or {}, ensure_ascii=False)
    convert: Callable[[str], bytes]
    if '"ByteLevel"' in decoder:
        convert = _byte_level
    elif any(mark in decoder for mark in ('"ByteFallback"', '"Metaspace"', "\u2581")):
        convert = _sentence_piece
    else:
        convert = str.encode
    pieces = [b""] * size
    for token, number in backend.get_vocab(with_added_tokens=False).items():
        if number < size:
            pieces[number] = convert(token)
    for number, added in backend.get_added_tokens_decoder().items():
        if number < size:
            pieces[number] = added.content.encode()
    return tuple(pieces)


def _byte_table() -> dict[str, int]:
    """GPT-2's printable stand-ins for bytes: visible Latin-1 characters as they are, the rest from U+0100 on."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {chr(b): b for b in visible}
    hidden = (b for b in range(256) if b not in visible)
    table.update({chr(256 + i): b for i, b in enumerate(hidden)})
    return table


_BYTES = _byte_table()
BYTE_LETTERS = {byte: letter for letter, byte in _BYTES.items()}
"""GPT-2's spelling of each byte."""


def _byte_level(token: str) -> bytes:
    return bytes(_BYTES[c] for c in token) if all(c in _BYTES for c in token) else token.encode()


def _sentence_piece(token: str) -> bytes:
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        return bytes([int(token[3:5], 16)])
    return token.replace("\u2581", " ").encode()
