"""A context whose window is full: its oldest documents leave it, in every system alike.

The papers cut observations to a length and say nothing of a context that no longer fits. Here a context keeps, beside
the session, a *transcript* of what it was told and wrote. Where the next turn would not fit, documents leave the
transcript, the oldest first and the lowest ranked of a search first, and a new session is opened with what is left.
What has no documents left to lose ends with one forced answer, and there the oldest turns leave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ..engine import Engine, Message, Mode
from ..record import Document

NOTHING_FOUND = "No documents were found."
LEFT_OUT = "(left out: the context was full)"
LARGEST_TURN = 4
"""A turn is granted `max_tokens`, but never more than this part of the window, before documents must leave for it."""
_OVERHEAD = 8
"""Tokens that a chat template puts around a message, at most."""

T = TypeVar("T")
Groups = Sequence[Sequence[Document]]


@dataclass(slots=True)
class Shown(Generic[T]):
    """Documents that a context reads, by query and best first."""

    groups: list[list[Document]]
    render: Callable[[Groups, str], T]
    """Puts the documents into words; the text stands for a group without documents."""
    tokens: int
    """Each document is cut to this."""
    left_out: int = 0

    @property
    def content(self) -> T:
        return self.render(self.groups, LEFT_OUT if self.left_out else NOTHING_FOUND)

    def leave(self) -> Document | None:
        """Take out the document that was ranked last; None where none is left."""
        longest = max(self.groups, key=len, default=[])
        if not longest:
            return None
        self.left_out += 1
        return longest.pop()


Text = str | Shown[str]
Opening = Sequence[Message] | Shown[list[Message]]
"""What a context begins with; as `Shown` where it holds documents."""


class Transcript:
    """What a context was told and wrote since its opening, so that it can be opened again with less."""

    def __init__(
        self, opening: Callable[[], list[Message]], mode: Mode, documents: Shown[list[Message]] | None
    ) -> None:
        self._opening = opening
        self.mode = mode
        self.documents = documents
        self._entries: list[str | list[Text]] = []
        """A turn of the model, or what it was told before the next one."""
        self._sent = 0
        """Entries that the session holds."""

    def tell(self, texts: Sequence[Text]) -> None:
        if texts:
            self._entries.append(list(texts))

    def wrote(self, text: str) -> None:
        self._entries.append(text)
        self._sent = len(self._entries)

    def sent(self) -> None:
        """The session holds everything that there is."""
        self._sent = len(self._entries)

    @property
    def unsent(self) -> str:
        """What the session does not hold yet."""
        return "\n".join(_text(entry) for entry in self._entries[self._sent :])

    def shown(self) -> Iterator[Shown[list[Message]] | Shown[str]]:
        """Everything with documents, the oldest first."""
        if self.documents is not None:
            yield self.documents
        for entry in self._entries:
            if not isinstance(entry, str):
                yield from (text for text in entry if isinstance(text, Shown))

    def forget_turn(self) -> int:
        """Leave out the oldest turn and what was told after it; gives their length, 0 where only the newest is left."""
        if len(self._entries) < 3:
            return 0
        old, self._entries = self._entries[:2], self._entries[2:]
        return sum(len(_text(entry)) for entry in old)

    def messages(self, *, in_turns: bool = False) -> list[Message]:
        """The whole context as messages; in completion mode what follows the opening is one message of the model,
        unless the endpoint cannot continue a message and is spoken to `in_turns`."""
        messages = self._opening()
        if self.mode == "completion" and not in_turns:
            text = "".join(map(_text, self._entries))
            return [*messages, Message("assistant", text)] if text else messages
        for entry in self._entries:
            messages.append(Message("assistant" if isinstance(entry, str) else "user", _text(entry)))
        return messages


def _text(entry: str | list[Text]) -> str:
    if isinstance(entry, str):
        return entry
    return "\n".join(text.content if isinstance(text, Shown) else text for text in entry)


def short_of(engine: Engine, held: int, text: str, max_tokens: int) -> int:
    """Tokens that the window lacks for a text and a turn after it, beside what the session holds; 0 where it fits."""
    window = engine.context_window
    if window is None:
        return 0
    held += min(max_tokens, window // LARGEST_TURN) + _OVERHEAD
    if held + (len(text) if text.isascii() else 4 * len(text)) <= window:  # a token is a byte at least
        return 0
    return max(0, held + engine.count_tokens(text) - window)


def leave(shown: Iterator[Shown[list[Message]] | Shown[str]], short: int, engine: Engine) -> tuple[int, int]:
    """Let documents leave, the oldest first, until so many tokens are free: how many left, and about what they held."""
    left = freed = 0
    for texts in shown:
        while freed < short and (document := texts.leave()) is not None:
            left += 1
            freed += _OVERHEAD + min(texts.tokens, engine.count_tokens(f"{document.title} {document.text}"))
        if freed >= short:
            break
    return left, freed
