"""What a context needs of its run (`run.Run`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ..engine import Engine, Message, Mode, Session
from ..events import EventLog
from ..record import Document, Failure

if TYPE_CHECKING:
    from .context import Context


class Owner(Protocol):
    events: EventLog
    contexts: list[Context]
    errors: list[Failure]

    def fail(self, where: str, error: Exception | str, context: Context | None = None, *, fatal: bool = False) -> None:
        """Record a failure on the trace."""

    def note(self, document: Document, key: str) -> None:
        """Remember that a document was read."""

    def seed_for(self, context: Context) -> int | None:
        """The seed of the context's next turn."""

    def without_verbatim_text(self, text: str, place: str) -> str:
        """The text as a shielded context may read it."""

    async def session(self, engine: Engine, place: str, messages: Sequence[Message], mode: Mode) -> Session:
        """A new session for the context with this id."""
