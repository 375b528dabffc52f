"""Sessions of the torch engine: contexts as segments, with the exact ids the model saw and sampled."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import chain
from typing import Protocol

from ...errors import UsageError
from ...record import Segment, Usage
from ..chat_format import ChatFormat, environment_segment
from ..interface import Generation, Mode, Sampling
from .scheduler import Context, Turn
from .vocabulary import Vocabulary


class TurnRunner(Protocol):
    """What a session needs of its engine (`TorchEngine`)."""

    chat: ChatFormat
    vocabulary: Vocabulary

    async def run(self, context: Context, sampling: Sampling) -> Turn:
        """Let a context grow by one turn."""
        ...

    def drop(self, context: Context) -> None:
        """Free what a closed session holds."""
        ...


def text_up_to(stop: str, vocabulary: Vocabulary, ids: Sequence[int]) -> str:
    """The text up to the end of the stop string that the last token completed."""
    raw, written = stop.encode(), vocabulary.bytes_of(ids)
    before = len(written) - len(vocabulary.pieces[ids[-1]])
    at = written.find(raw, max(0, before - len(raw) + 1))
    return written[: at + len(raw)].decode("utf-8", errors="replace")


class TorchSession:
    """One context of a `TorchEngine`."""

    def __init__(self, engine: TurnRunner, segments: Sequence[Segment], mode: Mode, *, bare: bool = False) -> None:
        """A `bare` context is computed without the engine's adapter."""
        self._engine = engine
        self._mode = mode
        self._segments = list(segments)
        self._context = Context(list(chain.from_iterable(s.token_ids for s in segments)), bare)
        self._ended = False
        self._writing = False
        self._closed = False

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(self._segments)

    @property
    def context_tokens(self) -> int:
        return len(self._context.ids)

    async def generate(self, sampling: Sampling) -> Generation:
        self._must_be_free()
        start = time.perf_counter()
        before = len(self._context.ids)
        self._writing = True
        try:
            turn = await self._engine.run(self._context, sampling)
        finally:
            self._writing = False
            if self._closed:  # closed meanwhile: a running turn cannot be freed before its end
                self._engine.drop(self._context)
        vocabulary = self._engine.vocabulary
        ids = tuple(turn.drawn)
        logprobs = tuple(turn.logprobs)
        self._ended = turn.finish == "end"
        text = vocabulary.decode(ids[:-1] if self._ended else ids)
        self._segments.append(Segment("agent", text, ids, logprobs, role="assistant", policy=turn.policy))
        usage = Usage(
            prompt_tokens=before,
            cached_tokens=turn.cached or 0,
            completion_tokens=len(ids),
            peak_context=before + len(ids),
            model_calls=1,
            seconds=time.perf_counter() - start,
        )
        if turn.stop:
            text = text_up_to(turn.stop, vocabulary, ids)
        shown = logprobs if sampling.logprobs else None
        return Generation(text, turn.finish or "length", ids, shown, turn.stop, usage)

    async def append(self, text: str) -> None:
        self._must_be_free()
        engine = self._engine
        segment = environment_segment(engine.chat, text, self._mode, engine.vocabulary.encode, ended=self._ended)
        self._ended = False
        self._segments.append(segment)
        self._context.ids.extend(segment.token_ids)

    def fork(self) -> TorchSession:
        """A second session with the same context; it finds the full cache blocks of this one by their content."""
        self._must_be_free()
        twin = TorchSession(self._engine, self._segments, self._mode, bare=self._context.bare)
        twin._ended = self._ended
        return twin

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            if not self._writing:
                self._engine.drop(self._context)

    def _must_be_free(self) -> None:
        if self._closed:
            raise UsageError("the session is closed")
        if self._writing:
            raise UsageError("the session is writing a turn; wait for its end")
