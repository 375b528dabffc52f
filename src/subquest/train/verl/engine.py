"""verl's rollout servers as an engine of ours: sessions over token ids.

A turn is one request with the whole context; the ids that come back are appended as they are. verl's server keeps the
prefix cached for a `request_id`, so a session keeps one for all its turns. This module does not import verl: it needs
an object with `generate(request_id, prompt_ids=..., sampling_params=...)`.
"""

from __future__ import annotations

import functools
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ...engine.chat_format import ChatFormat, chat_format_of, environment_segment
from ...engine.interface import Generation, Message, Mode, Sampling
from ...engine.torch.session import text_up_to
from ...engine.torch.stop_strings import Stops
from ...engine.torch.vocabulary import Vocabulary
from ...errors import ContextOverflow
from ...record import Segment, Usage


class Servers(Protocol):
    """verl's `LLMServerClient`."""

    async def generate(self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any]) -> Any: ...


@functools.lru_cache(maxsize=4)
def _vocabulary(tokenizer: Any) -> Vocabulary:
    """Made once for a worker's tokenizer: verl makes a new loop, and with it a new engine, for every episode.

    Models pad their vocabulary, and nothing keeps one from drawing such a token: those are empty texts.
    """
    return Vocabulary(tokenizer, 1 << len(tokenizer).bit_length())


class ServerEngine:
    """A model behind verl's rollout servers."""

    def __init__(self, servers: Servers, tokenizer: Any, *, window: int, sampling: Mapping[str, Any]) -> None:
        """`sampling` are verl's parameters of the step (temperature, top_p, top_k, logprobs); a turn adds its own."""
        self.name = "verl"
        self.context_window: int | None = window
        self.servers, self.sampling = servers, dict(sampling)
        self.vocabulary = _vocabulary(tokenizer)
        self.chat: ChatFormat = chat_format_of(tokenizer)
        self.ends = frozenset((tokenizer.eos_token_id, *self.vocabulary.encode(self.chat.end, True)[:1]))
        self.stops = Stops(self.vocabulary, ())

    async def open(self, messages: Sequence[Message], *, mode: Mode = "chat") -> ServerSession:
        return ServerSession(self, self.vocabulary.prompt_segments(self.chat, messages), mode)

    def count_tokens(self, text: str) -> int:
        return len(self.vocabulary.encode(text, False))

    async def close(self) -> None:
        """verl owns the servers."""


class ServerSession:
    """One context."""

    def __init__(self, engine: ServerEngine, segments: Sequence[Segment], mode: Mode) -> None:
        self._engine, self._mode = engine, mode
        self._segments = list(segments)
        self._request = uuid.uuid4().hex
        self._ended = False

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(self._segments)

    @property
    def context_tokens(self) -> int:
        return sum(len(s.token_ids) for s in self._segments)

    async def generate(self, sampling: Sampling) -> Generation:
        engine, start = self._engine, time.perf_counter()
        context = [i for s in self._segments for i in s.token_ids]
        room = (engine.context_window or 0) - len(context)
        if room < 1:
            raise ContextOverflow(f"a context of {len(context)} tokens fills the window of {engine.context_window}")
        wanted = {**engine.sampling, "max_tokens": min(sampling.max_tokens, room)}
        if sampling.stop:
            wanted |= {"stop": list(sampling.stop), "include_stop_str_in_output": True}
        out = await engine.servers.generate(self._request, prompt_ids=context, sampling_params=wanted)
        ids = tuple(int(i) for i in out.token_ids)
        self._ended = bool(ids) and ids[-1] in engine.ends
        text = engine.vocabulary.decode(ids[:-1] if self._ended else ids)
        completed = "" if self._ended or not ids else engine.stops.completed(sampling.stop, ids)
        stop = completed or next((s for s in sampling.stop if text.rstrip().endswith(s)), "")
        finish: Any = "end" if self._ended else "stop" if stop else "length"
        logprobs = None if not out.log_probs else tuple(float(p) for p in out.log_probs)
        version = out.extra_fields.get("max_global_steps") if out.extra_fields else None
        self._segments.append(Segment("agent", text, ids, logprobs, role="assistant", policy=version))
        if completed:
            text = text_up_to(completed, engine.vocabulary, ids)
        usage = Usage(
            prompt_tokens=len(context),
            completion_tokens=len(ids),
            peak_context=len(context) + len(ids),
            model_calls=1,
            seconds=time.perf_counter() - start,
        )
        return Generation(text, finish, ids, logprobs if sampling.logprobs else None, stop, usage)

    async def append(self, text: str) -> None:
        engine = self._engine
        encode = engine.vocabulary.encode
        self._segments.append(environment_segment(engine.chat, text, self._mode, encode, ended=self._ended))
        self._ended = False

    def fork(self) -> ServerSession:
        twin = ServerSession(self._engine, self._segments, self._mode)
        twin._ended = self._ended
        return twin

    async def close(self) -> None:
        """The server forgets by itself."""
