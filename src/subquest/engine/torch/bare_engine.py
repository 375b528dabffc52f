"""A torch engine's model without its adapter, in the same batches and cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..interface import Message, Mode
from .session import TorchSession, TurnRunner


class Adapted(TurnRunner, Protocol):
    """The engine with the adapter (`TorchEngine`)."""

    name: str
    context_window: int

    def count_tokens(self, text: str) -> int:
        """The length of a text in tokens."""
        ...


class BareEngine:
    """A torch engine without its adapter; see `engine.interface.HasAdapter`."""

    def __init__(self, engine: Adapted) -> None:
        self._engine = engine
        self.name = engine.name
        self.context_window = engine.context_window

    async def open(self, messages: Sequence[Message], *, mode: Mode = "chat") -> TorchSession:
        engine = self._engine
        segments = engine.vocabulary.prompt_segments(engine.chat, messages)
        return TorchSession(engine, segments, mode, bare=True)

    def count_tokens(self, text: str) -> int:
        return self._engine.count_tokens(text)

    async def close(self) -> None:
        """Closes with the engine."""
