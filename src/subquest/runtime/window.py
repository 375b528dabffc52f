"""What happens when a context window is full: its oldest documents are removed, in every system alike.

The papers cut observations to a length and do not say what happens to a context that no longer fits. Here a context
keeps a *transcript* of what it was told and wrote. If the next turn does not fit, documents are removed from the
transcript (the oldest search first, the lowest ranked first) and a new session is opened with the rest. Once no
documents are left, one answer is forced, for which the oldest turns are removed as well.

The transcript also shows a context that goes in circles: the same turn, and the same came back. It is told so once. If
it goes on like that, one answer is forced, however many turns it has left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ..engine import Engine, Message, Mode
from ..english import counted
from ..record import Document

NOTHING_FOUND = "No documents were found."
LEFT_OUT = "(left out: the context was full)"
LARGEST_TURN = 4
"""Room is made for a turn of `max_tokens`, but for no more than one such part of the window."""
CIRCLE = "You wrote this before, word for word, and the same came back. Do something else, or conclude."
_OVERHEAD = 8
"""Most tokens that a chat template puts around a message."""

T = TypeVar("T")
Groups = Sequence[Sequence[Document]]


@dataclass(slots=True)
class Shown(Generic[T]):
    """Documents that a context reads, by query and best first."""

    groups: list[list[Document]]
    render: Callable[[Groups, str], T]
    """Renders the documents as text; the second argument replaces a group without documents."""
    tokens: int
    """Each document is cut to this."""
    left_out: int = 0

    @property
    def content(self) -> T:
        return self.render(self.groups, LEFT_OUT if self.left_out else NOTHING_FOUND)

    def remove_last(self) -> Document | None:
        """Remove the lowest ranked document; None if there is none left."""
        longest = max(self.groups, key=len, default=[])
        if not longest:
            return None
        self.left_out += 1
        return longest.pop()


Text = str | Shown[str]
Opening = Sequence[Message] | Shown[list[Message]]
"""What a context begins with; `Shown` if it holds documents."""


class Transcript:
    """What a context was told and wrote since its opening, so that it can be opened again with less."""

    def __init__(
        self, opening: Callable[[], list[Message]], mode: Mode, documents: Shown[list[Message]] | None
    ) -> None:
        self._opening = opening
        self.mode = mode
        self.documents = documents
        self._entries: list[str | list[Text]] = []
        """A turn of the model, or what it is told before the next one."""
        self._sent = 0
        """Entries that the session already holds."""
        self._told_so = -1
        """How many turns there were when it was told that it goes in circles."""

    def tell(self, texts: Sequence[Text]) -> None:
        last = self._entries[-1] if self._sent < len(self._entries) else ""
        if not isinstance(last, str):
            last += texts
        elif texts:
            self._entries.append(list(texts))

    def wrote(self, text: str) -> None:
        self._entries.append(text)
        self._sent = len(self._entries)

    def sent(self) -> None:
        """The session now holds everything."""
        self._sent = len(self._entries)

    def leave_circle(self) -> str:
        """If the last turns, and all that was told after them, are those before them word for word, say so once; after
        that, why the context must end. Empty if it does not go in circles."""
        rounds = self._rounds()
        lengths = range(1, len(rounds) // 2 + 1)
        length = next((n for n in lengths if rounds[-n:] == rounds[-2 * n : -n]), 0)
        if not length:
            return ""
        if self._told_so >= len(rounds) - 2 * length:
            return "it wrote the same again after it was told so"
        self._told_so = len(rounds)
        self.tell([CIRCLE])
        return CIRCLE

    def _rounds(self) -> list[tuple[str, str]]:
        """Each turn with what was told after it, apart from `CIRCLE`; none if the last turn is new."""
        turns = [entry for entry in self._entries if isinstance(entry, str)]
        if turns.count(turns[-1] if turns else "") < 2:
            return []
        rounds: list[tuple[str, str]] = []
        for entry in self._entries:
            if isinstance(entry, str):
                rounds.append((entry, ""))
            elif rounds:
                told = _text([text for text in entry if text != CIRCLE])
                rounds[-1] = (rounds[-1][0], rounds[-1][1] + told)
        return rounds

    @property
    def contents(self) -> list[str]:
        """Everything it was told and wrote, without what a chat template puts around it."""
        return list(map(_text, self._entries))

    @property
    def unsent(self) -> str:
        """What the session does not hold yet."""
        return "\n".join(_text(entry) for entry in self._entries[self._sent :])

    def _shown(self) -> Iterator[Shown[list[Message]] | Shown[str]]:
        """Everything with documents, the oldest first."""
        if self.documents is not None:
            yield self.documents
        for entry in self._entries:
            if not isinstance(entry, str):
                yield from (text for text in entry if isinstance(text, Shown))

    def make_room(self, missing: int, engine: Engine, *, turns: bool) -> str:
        """Remove documents, the oldest first, until `missing` tokens are free, and then `turns` if they may be removed.
        What was removed, in words; empty if nothing is left to remove."""
        removed = freed = forgotten = 0
        for shown in self._shown():
            while freed < missing and (document := shown.remove_last()) is not None:
                removed += 1
                freed += _OVERHEAD + min(shown.tokens, engine.count_tokens(f"{document.title} {document.text}"))
        while turns and freed < missing and (length := self._forget_turn()):
            forgotten, freed = forgotten + 1, freed + max(1, length // 4)
        if not removed and not forgotten:
            return ""
        return counted(removed, "document") + (f" and {counted(forgotten, 'turn')}" if forgotten else "")

    def _forget_turn(self) -> int:
        """Remove the oldest turn and what was told after it; returns their length, 0 if only the newest is left."""
        if len(self._entries) < 3:
            return 0
        old, self._entries = self._entries[:2], self._entries[2:]
        return sum(len(_text(entry)) for entry in old)

    def messages(self, *, in_turns: bool = False) -> list[Message]:
        """The whole context as messages; in completion mode, what follows the opening is one assistant message, unless
        the endpoint cannot continue a message and works `in_turns`."""
        messages = self._opening()
        if self.mode == "completion" and not in_turns:
            text = "".join(map(_text, self._entries))
            return [*messages, Message("assistant", text)] if text else messages
        for entry in self._entries:
            messages.append(Message("assistant" if isinstance(entry, str) else "user", _text(entry)))
        return messages


def text_of(text: Text) -> str:
    return text.content if isinstance(text, Shown) else text


def _text(entry: str | list[Text]) -> str:
    return entry if isinstance(entry, str) else "\n".join(map(text_of, entry))


def missing_tokens(engine: Engine, held: int, text: str, max_tokens: int) -> int:
    """Tokens that the window lacks for a text and the turn after it, besides what the session holds; 0 if it fits."""
    window = engine.context_window
    if window is None:
        return 0
    held += min(max_tokens, window // LARGEST_TURN) + _OVERHEAD
    if held + (len(text) if text.isascii() else 4 * len(text)) <= window:  # a token has at least one byte
        return 0
    return max(0, held + engine.count_tokens(text) - window)
