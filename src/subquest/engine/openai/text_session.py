"""A context as one text, or as exact token ids, with the chat format applied here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import UsageError
from ...record import Segment
from ..chat_format import ChatFormat, Piece, encode_pieces, text_of
from ..interface import Generation, Message, Mode, Sampling, estimate_tokens
from .reply import Reply
from .session import Completer, OpenAISession
from .tokenizer import Tokenizer


class TextSession(OpenAISession):
    """A text, or exact token ids, to `/completions`; we apply the chat format."""

    path = "/completions"

    def __init__(
        self,
        engine: Completer,
        messages: Sequence[Message],
        mode: Mode,
        form: ChatFormat,
        tokenizer: Tokenizer | None,
    ) -> None:
        super().__init__(engine, mode)
        self._form = form
        self._tokenizer = tokenizer
        self._end_id = tokenizer.encode(form.end, True)[-1] if tokenizer is not None else None
        if messages:
            self._add("prompt", form.opening(messages), role="")

    def body(self, sampling: Sampling) -> dict[str, Any]:
        if self._tokenizer is not None:
            return {"prompt": [i for s in self._segments for i in s.token_ids]}
        return {"prompt": "".join(s.text for s in self._segments)}

    async def append(self, text: str) -> None:
        self._must_be_open()
        ids = self._segments[-1].token_ids
        ended = self._end_id is not None and bool(ids) and ids[-1] == self._end_id
        role = "user" if self._mode == "chat" else "assistant"
        self._add("env", self._form.environment(text, self._mode, ended=ended), role=role)

    def fork(self) -> TextSession:
        self._must_be_open()
        twin = TextSession(self._engine, (), self._mode, self._form, self._tokenizer)
        self._copy_to(twin)
        return twin

    def _add(self, kind: Any, pieces: Sequence[Piece], role: str) -> None:
        text = text_of(pieces)
        ids = tuple(encode_pieces(pieces, self._tokenizer.encode)) if self._tokenizer is not None else ()
        self._segments.append(Segment(kind, text, ids, role=role))
        self._tokens += len(ids) or estimate_tokens(text)

    def _take(self, turn: Generation) -> None:
        """The context is the segments themselves, so the recorded turn is already part of it."""

    def _record(self, turn: Generation, reply: Reply) -> None:
        if self._tokenizer is None:
            self._segments.append(Segment("agent", turn.text, role="assistant"))
            return
        ids, logprobs = turn.token_ids, turn.logprobs
        if not ids:
            raise UsageError(
                f"{self._engine.name}: the server shows no token ids, so a tokenizer cannot keep the context exact; "
                "serve the model with vLLM or SGLang, or leave the tokenizer out"
            )
        self._segments.append(Segment("agent", turn.text, ids, logprobs, role="assistant", policy=turn.policy))
