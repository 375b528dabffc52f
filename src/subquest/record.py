"""Records: what a question, a context and an attempt at an answer are.

    Segment     a stretch of one context: prompt, agent or env text, with its exact token ids
    Trajectory  one role's whole context, in order, never re-encoded
    Episode     one attempt at one question: the tree of trajectories, the answer and how it came about

An episode is CoDA's trajectory group (section 3.3.1): agent segments have action mask 1; prompt and env segments and
forced turns have 0. Records are frozen, contain plain values only and know nothing about the rest of the package.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args

from msgspec.structs import replace

from .citation import place_in
from .codec import Record, from_dict, to_dict
from .errors import DataError, UsageError
from .events import Event
from .input_file import parse_json
from .notebook import episode_html

SegmentKind = Literal["prompt", "agent", "env"]
MAX_QUESTION = 32_768
"""Characters; a longer question is a document and belongs in an index."""
_ZERO = 0.0  # one object, by which JSON leaves it out


class Document(Record):
    """A passage that search can return."""

    id: str
    title: str
    text: str
    meta: Mapping[str, Any] = {}
    """Where it came from, if known: file, page, url, position, language, ..."""


class Hit(Record):
    """A document found by a search, with the score it was ranked by."""

    document: Document
    score: float


class Step(Record):
    """One step of a gold decomposition; `#n` in the question stands for the answer of step n (from 1)."""

    question: str
    answer: str = ""
    support: str = ""
    """Title or id of the document that answers it, if known."""


PUBLIC_FILES = "public_files"
"""Key in a question's `meta`: whether its files are published (as in GAIA), so not private documents."""


UNKNOWN = "unknown"
"""The answer of an agent that abstains, and the gold answer of questions that the documents cannot answer."""


class Question(Record):
    """A question with what is known about its answer."""

    id: str
    question: str
    answers: tuple[str, ...] = ()
    dataset: str = ""
    split: str = ""
    hops: int | None = None
    type: str = ""
    supporting_titles: tuple[str, ...] = ()
    supporting_ids: tuple[str, ...] = ()
    context_ids: tuple[str, ...] = ()
    decomposition: tuple[Step, ...] = ()
    level: str = ""
    files: tuple[str, ...] = ()
    """Paths of attached files (GAIA)."""
    meta: Mapping[str, Any] = {}

    @property
    def unanswerable(self) -> bool:
        """Whether the documents lack the answer, so that `unknown` is the right one."""
        return self.answers == (UNKNOWN,)


def checked_question(question: str | Question, number: int = 0) -> Question:
    """The question as a record; refuses an empty or absurdly long one."""
    record = question if isinstance(question, Question) else Question(f"q{number}", question)
    given: Any = record.question
    if not isinstance(given, str):
        raise UsageError(f"a question is a text or a Question, not {given!r}")
    text = given.strip()
    if not text.isprintable() and any("\ud800" <= c <= "\udfff" for c in text):
        raise UsageError("the question is not valid UTF-8 text")
    if not text:
        raise UsageError("the question is empty")
    if len(text) > MAX_QUESTION:
        raise UsageError(
            f"the question has {len(text):,} characters, at most {MAX_QUESTION:,} are accepted; "
            "put long texts into an index (subquest index build) and ask about them"
        )
    return record


class Usage(Record):
    """What something cost. Adding two usages adds all counts and keeps the larger peak."""

    prompt_tokens: int = 0
    """Tokens that models read, cached ones included."""
    cached_tokens: int = 0
    """The part of `prompt_tokens` that came from a cache."""
    completion_tokens: int = 0
    """Tokens that models wrote."""
    peak_context: int = 0
    """Longest context of any model call, prompt and completion together."""
    model_calls: int = 0
    searches: int = 0
    tool_calls: int = 0
    """Pages, code, files and media, without searches."""
    seconds: float = _ZERO
    """Wall-clock time of the episode, context (for a trajectory) or call (for a generation)."""
    cost: float = _ZERO
    """In the currency of the price table; 0 if no price is known."""
    estimated_tokens: int = 0
    """The part of prompt and completion tokens that is an estimate, because the server reported no usage."""
    cache_hits: int = 0
    """Model calls and searches answered from the on-disk cache."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.cached_tokens + other.cached_tokens,
            self.completion_tokens + other.completion_tokens,
            max(self.peak_context, other.peak_context),
            self.model_calls + other.model_calls,
            self.searches + other.searches,
            self.tool_calls + other.tool_calls,
            self.seconds + other.seconds or _ZERO,
            self.cost + other.cost or _ZERO,
            self.estimated_tokens + other.estimated_tokens,
            self.cache_hits + other.cache_hits,
        )


class Segment(Record):
    """A stretch of a context.

    `token_ids` are the ids that the model saw or sampled; empty for engines that do not expose ids.
    `logprobs` exist for agent segments only, one for each of the `token_ids`.
    """

    kind: SegmentKind
    text: str
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] | None = None
    """Log-probability of each sampled token at the sampling temperature, if the engine returns them."""
    role: str = ""
    """Chat role of the message (system, user, assistant) for engines that use messages."""
    policy: int | None = None
    """Version of the weights that sampled the segment, counted by the trainer."""

    def __post_init__(self) -> None:
        if self.logprobs is not None:
            if self.kind != "agent":
                raise DataError(f"a segment of kind {self.kind!r} cannot have log-probs")
            if len(self.logprobs) != len(self.token_ids):
                raise DataError(f"{len(self.logprobs)} log-probs for {len(self.token_ids)} token ids")


class Trajectory(Record):
    """One role's context from its prompt to its last token."""

    id: str
    role: str
    task: str
    parent: str | None = None
    """Id of the trajectory that asked for this one; None for a root."""
    segments: tuple[Segment, ...] = ()
    stop_reason: str = ""
    result: str = ""
    """What it returned to its parent; for a root, its answer."""
    forced: bool = False
    """Its last turn was forced by a limit."""
    usage: Usage = Usage()
    model: str = ""
    format_errors: tuple[str, ...] = ()
    """What the tag parser found malformed in its agent turns, in order."""
    part_of: str = ""
    """Id of the trajectory that continues this one with fewer documents, because its window was full."""

    @property
    def text(self) -> str:
        return "".join(s.text for s in self.segments)

    @property
    def agent_text(self) -> str:
        return "\n".join(s.text for s in self.segments if s.kind == "agent")

    @property
    def actions(self) -> tuple[bool, ...]:
        """For each of the `segments`, whether it is a turn that the agent wrote unforced."""
        wrote = [s.kind == "agent" for s in self.segments]
        if self.forced and True in wrote:
            wrote[len(wrote) - 1 - wrote[::-1].index(True)] = False
        return tuple(wrote)

    @property
    def written_turns(self) -> tuple[str, ...]:
        """The turns that the agent wrote unforced. Rewards use only these."""
        return tuple(s.text for s, own in zip(self.segments, self.actions, strict=True) if own)

    @property
    def has_tokens(self) -> bool:
        """Whether every non-empty segment has its token ids, which training needs."""
        return bool(self.segments) and all(s.token_ids or not s.text for s in self.segments)

    @property
    def token_ids(self) -> tuple[int, ...]:
        return tuple(i for s in self.segments for i in s.token_ids)

    @property
    def action_mask(self) -> tuple[int, ...]:
        """1 for tokens that the agent sampled unforced; 0 for prompt and environment tokens (CoDA 3.3.3) and for a
        forced turn, which is not rewarded."""
        return tuple(
            m for s, own in zip(self.segments, self.actions, strict=True) for m in (int(own),) * len(s.token_ids)
        )

    @property
    def logprobs(self) -> tuple[float, ...]:
        """Behaviour log-probs of the `token_ids`, 0.0 where the mask is 0. Raises if an agent segment has none."""
        out: list[float] = []
        for s, own in zip(self.segments, self.actions, strict=True):
            if not own:
                out.extend([0.0] * len(s.token_ids))
            elif s.logprobs is None and s.token_ids:
                raise DataError(f"trajectory {self.id}: an agent segment has no log-probs")
            else:
                out.extend(s.logprobs or ())
        return tuple(out)


class Evidence(Record):
    """A quote from a document; `from_document` checks that the document contains it."""

    id: str
    title: str
    quote: str
    start: int = 0
    """Position of the quote in the document's text."""
    trajectory: str = ""
    """Id of the trajectory that read the document."""
    query: str = ""
    place: Mapping[str, Any] = {}
    """Where the quote is: file, page, slide, sheet, row, line, section, url, as far as known (`citation`)."""
    states_answer: bool = False
    """Whether it is the quote that states the answer; the others state sub-results or lead to it."""

    @classmethod
    def from_document(cls, document: Document, quote: str, *, trajectory: str = "", query: str = "") -> Evidence:
        start = document.text.find(quote)
        if start < 0 or not quote:
            raise DataError(f"the quote is not in document {document.id!r}: {quote[:80]!r}")
        place = place_in(document.meta, document.text, start, start + len(quote))
        return cls(document.id, document.title, quote, start, trajectory, query, place)


Style = Literal["short", "sentence", "report"]
"""How an answer is written: a few words, one or two sentences, a report with sections."""
STYLES: tuple[Style, ...] = get_args(Style)


class Sentence(Record):
    """A sentence of a written answer, with the quotes that support it."""

    text: str
    sources: tuple[int, ...] = ()
    """Numbers of the episode's `evidence`, counted from 1."""


class Section(Record):
    """A section of a report: a sub-task of its outline and what was written about it."""

    title: str
    task: str
    sentences: tuple[Sentence, ...] = ()
    missing: str = ""
    """Why it has no sentences: not found in the documents, or what failed."""


class Report(Record):
    """An answer in sentences. Every sentence is supported by the quotes it cites; others were dropped."""

    style: Style
    title: str = ""
    sections: tuple[Section, ...] = ()
    short: str = ""
    """The answer in a few words (style `sentence`)."""
    dropped: int = 0
    """Sentences that the model wrote and no quote supports."""


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
