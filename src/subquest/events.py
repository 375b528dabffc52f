"""Events: everything that happens in an episode, as one ordered stream.

The same stream feeds the terminal tree, the server's event stream, the run store, OpenTelemetry and the viewer, so
nothing can be shown in one place and missing in another.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

from .codec import Record

SCHEMA_VERSION = 1
"""Increased when the meaning of a kind or of one of its data fields changes; a stream's first event contains it."""

EventKind = Literal[
    "start",  # an episode begins: question, system, model, settings, schema (SCHEMA_VERSION)
    "open",  # a role's context was opened: role, task, prompt
    "turn",  # the model finished a turn: text, finish, tokens
    "plan",  # a plan was made or changed: steps
    "task",  # a sub-task was handed out: task, child (its trajectory)
    "search",  # a search was sent: queries, k
    "documents",  # what a search brought back: hits
    "refine",  # documents were distilled: text
    "result",  # a sub-task came back: result
    "memory",  # a shared memory changed: entries, action (DECOR's: add, nothing, cut, compress, drop)
    "code",  # code ran in the sandbox: source, output
    "page",  # a page or file was read: url or path, title
    "section",  # a section of a report was written: number, title, text, missing, dropped
    "error",  # the outside world or a model's format failed: where, message
    "retry",  # a failed call is tried again: where, attempt, wait
    "limit",  # a budget ran out or a repetition was stopped: what
    "answer",  # the final answer: answer, forced, confidence; votes by answer where several attempts decided
    "close",  # a role's context ended: stop_reason, usage
    "end",  # the episode ended: stop_reason, usage
]
EVENT_KINDS: tuple[str, ...] = get_args(EventKind)


class Event(Record):
    """One thing that happened."""

    seq: int
    """Position in the episode's stream, from 0 without gaps."""
    kind: EventKind
    time: float
    """Seconds since the episode began."""
    trajectory: str = ""
    """Id of the trajectory it happened in; empty for the episode itself."""
    data: Mapping[str, Any] = {}
    """JSON values; the fields of each kind are listed beside `EventKind`."""


Listener = Callable[[Event], None]
"""Called synchronously for each event; must not block and must not raise."""


TextListener = Callable[[str, str], None]
"""Called with the id of a trajectory and the next piece of the turn that is being written in it. Pieces are no events:
nobody stores them, and the turn's event has the whole text."""


FOLLOWERS: list[Callable[[str], Listener]] = []
"""Factories of listeners, called with the id of every episode in the process; OpenTelemetry adds one if configured."""


class EventLog:
    """Collects an episode's events and passes each on as it happens."""

    def __init__(
        self, listener: Listener | None = None, *, episode: str = "", on_text: TextListener | None = None
    ) -> None:
        self.on_text = on_text
        self.events: list[Event] = []
        self._listener = _combine([listener, *(make(episode) for make in FOLLOWERS)]) if FOLLOWERS else listener
        self._start = time.monotonic()

    def emit(self, kind: EventKind, trajectory: str = "", /, **data: Any) -> Event:
        micros = int(1e6 * (time.monotonic() - self._start))
        event = Event(len(self.events), kind, micros / 1e6, trajectory, data)
        self.events.append(event)
        if self._listener is not None:
            self._listener(event)
        return event

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._start


def _combine(listeners: list[Listener | None]) -> Listener:
    def notify(event: Event) -> None:
        for listener in listeners:
            if listener is not None:
                listener(event)

    return notify
