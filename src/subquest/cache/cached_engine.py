"""Model calls through the cache, exact to the token."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, Protocol, runtime_checkable

from ..codec import from_dict, to_dict
from ..engine.actions import Actions, CallsTools
from ..engine.interface import (
    Engine,
    Generation,
    HasAdapter,
    HasPromptSet,
    HidesReasoning,
    Message,
    Mode,
    OnRetry,
    OnText,
    ReportsRetries,
    RoleAware,
    Sampling,
    Session,
    StreamsText,
    TakesTurns,
)
from ..record import Segment
from .cache_file import Cache, Identified, digest


@runtime_checkable
class Resumable(Session, Protocol):
    """A session that can continue from a recorded turn."""

    def resume(self, turn: Generation, segments: Sequence[Segment]) -> None:
        """Continue as if the model had just written `turn`; `segments` is the context including it."""
        ...


class CachedEngine:
    """An engine that asks its model only what it was not asked before.

    A turn's key is the engine's identity, the whole context and how the turn is sampled. Turns sampled at random
    (temperature above 0, no seed) are not cached unless `sampled` is set: different results are their purpose.
    Engines that do not declare what decides their answers (`Identified`), and sessions that cannot continue from a
    recorded turn (`Resumable`), run uncached. A hit reports the tokens of the original call, so that token limits apply
    as they did the first time, with `cache_hits=1` and no cost.
    """

    def __init__(self, engine: Engine, cache: Cache, *, sampled: bool = False) -> None:
        self.engine = engine
        self.cache = cache
        self.sampled = sampled

    @property
    def name(self) -> str:
        return self.engine.name

    @property
    def prompt_set(self) -> str:
        return self.engine.prompt_set if isinstance(self.engine, HasPromptSet) else ""

    @property
    def context_window(self) -> int | None:
        return self.engine.context_window

    def for_role(self, role: str) -> CachedEngine:
        if not isinstance(self.engine, RoleAware):
            return self
        return CachedEngine(self.engine.for_role(role), self.cache, sampled=self.sampled)

    @property
    def has_adapter(self) -> bool:
        return isinstance(self.engine, HasAdapter) and self.engine.has_adapter

    def without_adapter(self) -> CachedEngine:
        if not isinstance(self.engine, HasAdapter):
            return self
        return CachedEngine(self.engine.without_adapter(), self.cache, sampled=self.sampled)

    @property
    def calls_tools(self) -> bool:
        return isinstance(self.engine, CallsTools) and self.engine.calls_tools

    def with_actions(self, actions: Actions) -> CachedEngine:
        """The same engine, told what the roles of a system can do; see `engine.actions`."""
        if not isinstance(self.engine, CallsTools):
            return self
        return CachedEngine(self.engine.with_actions(actions), self.cache, sampled=self.sampled)

    async def open(self, messages: Sequence[Message], *, mode: Mode = "chat") -> Session:
        session = await self.engine.open(messages, mode=mode)
        if not isinstance(session, Resumable) or not isinstance(self.engine, Identified):
            return session
        opening = _chained("", "open", mode, [[m.role, m.content] for m in messages])
        return CachedSession(self, self.engine, session, opening)

    def count_tokens(self, text: str) -> int:
        return self.engine.count_tokens(text)

    async def close(self) -> None:
        await self.engine.close()


class CachedSession:
    """A context whose turns come from the cache where they can; its segments are those of the turns recorded."""

    def __init__(self, engine: CachedEngine, identified: Identified, inner: Resumable, context: str) -> None:
        self._engine = engine
        self._identified = identified
        self._inner = inner
        self._context = context
        """Digest of everything said so far."""
        self._settled = 0
        """Segments up to the end of the last turn."""

    @property
    def segments(self) -> tuple[Segment, ...]:
        return self._inner.segments

    @property
    def context_tokens(self) -> int:
        return self._inner.context_tokens

    @property
    def in_turns(self) -> bool:
        return isinstance(self._inner, TakesTurns) and self._inner.in_turns

    @property
    def goes_on(self) -> bool:
        return not isinstance(self._inner, HidesReasoning) or self._inner.goes_on

    @property
    def on_retry(self) -> OnRetry | None:
        return self._inner.on_retry if isinstance(self._inner, ReportsRetries) else None

    @on_retry.setter
    def on_retry(self, hook: OnRetry | None) -> None:
        if isinstance(self._inner, ReportsRetries):
            self._inner.on_retry = hook

    @property
    def on_text(self) -> OnText | None:
        return self._inner.on_text if isinstance(self._inner, StreamsText) else None

    @on_text.setter
    def on_text(self, hook: OnText | None) -> None:
        if isinstance(self._inner, StreamsText):
            self._inner.on_text = hook

    async def generate(self, sampling: Sampling) -> Generation:
        if sampling.temperature > 0 and sampling.seed is None and not self._engine.sampled:
            turn = await self._inner.generate(sampling)
        else:
            turn = await self._cached(sampling)
        thought = [turn.reasoning] if turn.cut_in_thought else []
        self._context = _chained(self._context, "turn", turn.text, turn.finish, list(turn.token_ids), *thought)
        self._settled = len(self._inner.segments)
        return turn

    async def append(self, text: str) -> None:
        await self._inner.append(text)
        self._context = _chained(self._context, "env", text)

    def fork(self) -> CachedSession:
        twin = self._inner.fork()
        assert isinstance(twin, Resumable)
        copy = CachedSession(self._engine, self._identified, twin, self._context)
        copy._settled = self._settled
        return copy

    async def close(self) -> None:
        await self._inner.close()

    async def _cached(self, sampling: Sampling) -> Generation:
        cache, start = self._engine.cache, time.perf_counter()
        if sampling.temperature == 0:
            sampling = replace(sampling, seed=None, top_p=1.0, top_k=0, min_p=0.0)
        key = {"engine": dict(self._identified.identity), "context": self._context, "sampling": asdict(sampling)}
        before = self._inner.segments[: self._settled]
        found = await asyncio.to_thread(cache.get, "model", key)
        if found is not None:
            turn = from_dict(Generation, found["turn"])
            fresh = tuple(from_dict(Segment, s) for s in found["segments"])
            self._inner.resume(turn, before[: found["after"]] + fresh)
            usage = replace(
                turn.usage,
                seconds=round(time.perf_counter() - start, 6),
                cost=0.0,
                cache_hits=1,
            )
            return replace(turn, usage=usage, cached=True)
        turn = await self._inner.generate(sampling)
        after = self._settled if self._inner.segments[: self._settled] == before else 0
        value = {
            "turn": to_dict(turn),
            "after": after,
            "segments": [to_dict(s) for s in self._inner.segments[after:]],
        }
        await asyncio.to_thread(cache.put, "model", key, value)
        return turn


def _chained(before: str, *parts: Any) -> str:
    return digest(before, parts).hex()
