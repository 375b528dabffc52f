"""One attempt at one question: the tree of trajectories, the answer and how it came about."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from ..codec import Record, from_dict, to_dict
from ..events import Event
from ..input_file import parse_json
from ..notebook import episode_html
from .question import UNKNOWN, Question
from .report import Evidence, Report
from .trajectory import Trajectory, Usage


class Failure(Record):
    """Something that went wrong during an episode; `fatal` if it ended the episode."""

    where: str
    """engine, search, page, code, system, ..."""
    message: str
    trajectory: str = ""
    fatal: bool = False


def support_note(supported: bool | None, parts: bool) -> str:
    """What a reader must know of an answer that is not supported; empty for others."""
    if supported is not False:
        return ""
    return "its parts are supported, the conclusion is not checked" if parts else "not supported by a document"


class Episode(Record):
    """One attempt at one question."""

    id: str
    question: Question
    system: str
    model: str
    trajectories: tuple[Trajectory, ...] = ()
    """What models saw and wrote: roots before their descendants, siblings in the order they began (see `contexts`)."""
    answer: str = ""
    evidence: tuple[Evidence, ...] = ()
    confidence: float | None = None
    stop_reason: str = ""
    """answered, forced, abstained, failed, cancelled, ..."""
    forced: bool = False
    """The answer was written in a forced last turn, or taken from a result because the answering role wrote none."""
    usage: Usage = Usage()
    errors: tuple[Failure, ...] = ()
    events: tuple[Event, ...] = ()
    rewards: Mapping[str, float] = {}
    """Reward terms by name, if a reward function has scored the episode."""
    settings: Mapping[str, Any] = {}
    """The system's settings."""
    seed: int | None = None
    supported: bool | None = None
    """Whether documents that were read support the answer; None if there is no answer, if the system reads no documents
    by design, and in episodes stored before this was recorded."""
    report: Report | None = None
    """The answer sentence by sentence, if it is written in sentences."""
    parts_supported: bool = False
    """The answer is not supported, but all that it was concluded from is (and quoted): a yes, a no or a choice that no
    rule can check."""

    def _repr_html_(self) -> str:
        return episode_html(self)

    @property
    def support_note(self) -> str:
        """What a reader must know of an answer that is not supported; empty for others."""
        return support_note(self.supported, self.parts_supported)

    @property
    def stated_answer(self) -> str:
        """The answer as a reader sees it: an agent that abstained says `unknown`."""
        return UNKNOWN if self.stop_reason == "abstained" and not self.answer else self.answer

    @property
    def limit_reached(self) -> str:
        """The limit that ended it, such as `1 model call of the episode`; empty if none did, or no events are kept."""
        ends = (e for e in reversed(self.events) if e.kind == "limit" and "." not in e.trajectory)
        return next((str(e.data["what"]) for e in ends if e.data.get("spent")), "")

    @property
    def why_no_answer(self) -> str:
        """What is said in place of an answer: `unknown: no document was read`, `no answer (failed)`."""
        limit = f"limit reached: {self.limit_reached}" if self.limit_reached else ""
        if self.stop_reason == "abstained":
            return f"{UNKNOWN}: {self._nothing_known}{f' ({limit})' if limit else ''}"
        reason = limit or self.stop_reason.replace("no answer", "")
        return f"no answer ({reason})" if reason else "no answer"

    @property
    def _nothing_known(self) -> str:
        if any(event.kind == "answer" and event.data.get("withheld") for event in self.events):
            return "no document supports the answer that was found"
        found = any(event.kind == "documents" and event.data.get("hits") for event in self.events)
        if found or self.usage.tool_calls or (self.usage.searches and not self.events):
            return "the documents that were read do not say"
        return "the searches found no document" if self.usage.searches else "no document was read"

    @property
    def contexts(self) -> tuple[Trajectory, ...]:
        """One trajectory per context; the parts of a context whose window was full are joined."""
        if not any(t.part_of for t in self.trajectories):
            return self.trajectories
        return tuple(self._whole(t) for t in self.trajectories if not t.part_of)

    def _whole(self, trajectory: Trajectory) -> Trajectory:
        parts = [t for t in self.trajectories if t.part_of == trajectory.id]
        if not parts:
            return trajectory
        later = [s for t in (*parts[1:], trajectory) for s in t.segments if s.kind != "prompt"]
        return replace(trajectory, segments=(*parts[0].segments, *later))

    @property
    def roots(self) -> tuple[Trajectory, ...]:
        return tuple(t for t in self.contexts if t.parent is None)

    def children(self, trajectory: Trajectory | str) -> tuple[Trajectory, ...]:
        parent = trajectory if isinstance(trajectory, str) else trajectory.id
        return tuple(t for t in self.contexts if t.parent == parent)

    def by_role(self, role: str) -> tuple[Trajectory, ...]:
        return tuple(t for t in self.contexts if t.role == role)

    def walk(self) -> Iterator[tuple[int, Trajectory]]:
        """Depth and context, parents before children; a context whose parent is not in the episode counts as a root."""
        known = {t.id for t in self.trajectories}
        children: dict[str | None, list[Trajectory]] = {}
        for t in self.contexts:
            children.setdefault(t.parent if t.parent in known else None, []).append(t)
        waiting = [(0, t) for t in reversed(children.get(None, []))]
        while waiting:
            depth, t = waiting.pop()
            yield depth, t
            waiting += [(depth + 1, child) for child in reversed(children.get(t.id, []))]

    def without_events(self) -> Episode:
        return replace(self, events=())

    def to_json(self) -> str:
        return json.dumps(to_dict(self), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Episode:
        return from_dict(cls, parse_json(text, "this is not an episode"))
