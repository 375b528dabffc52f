"""The runtime every system stands on: an episode in progress, and the contexts of its roles.

    Run       one attempt at one question: its events, budget, documents read, contexts
    Context   one role's isolated context (`context`): write a turn, be told something, be shown documents

Isolation is enforced by both. A *shielded* context (CoDA's and APEX's planner, DECOR's planner and answerer) cannot be
shown documents at all, and what it is told is checked for long verbatim runs of any document the episode has read.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..engine import Engine, Message, Mode, Session
from ..engine.base import Retry
from ..errors import ContextOverflow, SearchError, SearchRefused
from ..events import EventLog
from ..limits import Budget, Limits
from ..record import Document, Evidence, Failure, Hit, Question, Trajectory, Usage
from ..retrieval.search import Search
from .barrier import RAW_RUN, Barrier, BarrierError
from .context import Context, LimitReached, RoleSetup, Turn, confidence
from .evidence import Finding
from .rendering import hit_data
from .window import Opening, Shown, Transcript, leave, short_of

SEARCH_ATTEMPTS = 3
SEARCH_WAIT = 0.2
"""Half of the seconds before the second attempt; they double from attempt to attempt."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How an episode ended, by its system's account."""

    text: str
    forced: bool = False
    """Written in a forced last turn, or taken from a result; without a text there is nothing that was forced."""
    confidence: float | None = None
    evidence: tuple[Evidence, ...] = ()
    """Quotes that the system has chosen itself, beside those that `findings` bring."""
    stop_reason: str = "answered"
    findings: Sequence[Finding] = ()
    """What it rests on; the episode's evidence is chosen from their documents (`evidence`)."""


class Run:
    """One episode in progress."""

    def __init__(
        self,
        question: Question,
        roles: Callable[[str], RoleSetup],
        search: Search | None,
        events: EventLog,
        limits: Limits,
        seed: int | None = None,
        *,
        additions: Mapping[str, str] | None = None,
    ) -> None:
        """`additions` are lines that go to the end of a role's instructions."""
        self.question = question
        self.events = events
        self.budget = Budget("the episode", limits)
        self.contexts: list[Context] = []
        self.errors: list[Failure] = []
        self.documents: dict[str, Document] = {}
        """Every document the episode has read, by id; further texts of the same id by names of their own."""
        self._brought: dict[tuple[str, str], str] = {}
        """The query that first brought a context a document, by the context's id and the document's."""
        self.usage = Usage()
        """Spent outside contexts."""
        self._roles = roles
        self._search = search
        self._seed = seed
        self._additions = additions or {}
        self._barrier = Barrier(question.question)
        self._begun: dict[str, int] = {}
        """Contexts that were begun below each, by its id."""

    async def open(
        self,
        role: str,
        task: str,
        opening: Opening,
        *,
        parent: Context | None = None,
        mode: Mode = "chat",
        stop: Sequence[str] = (),
        limits: Limits | None = None,
        shielded: bool = False,
        number: int | None = None,
    ) -> Context:
        """Open a role's context. `limits` are the system's own for this role; the user's may tighten them.

        `number` names its place among its siblings where their order is a matter of timing.
        """
        setup = self.setup(role)
        above = parent.budget if parent else self.budget
        budget = above.child(role, setup.limits.tightened(limits or Limits()))
        above_id = parent.id if parent else ""
        self._begun[above_id] = self._begun.get(above_id, 0) + 1  # before any wait: siblings may open at the same time
        name = self.place(parent, number or self._begun[above_id])
        additions = [addition for addition in (setup.addition, self._additions.get(role)) if addition]
        shown = opening if isinstance(opening, Shown) else None

        def opened() -> list[Message]:
            messages = list(opening.content if isinstance(opening, Shown) else opening)
            if additions:
                messages[0] = replace(messages[0], content="\n".join([messages[0].content, *additions]))
            if shielded and self.documents:
                messages = [replace(m, content=self.without_raw_runs(m.content, name)) for m in messages]
            return messages

        transcript = Transcript(opened, mode, shown)
        messages, session = await self._fitted(setup, name, transcript)
        context = Context(self, name, role, task, parent, session, setup, budget, tuple(stop), shielded, transcript)
        self.contexts.append(context)
        prompt = [{"role": m.role, "content": m.content} for m in messages]
        self.events.emit(
            "open",
            name,
            role=role,
            task=task,
            parent=parent.id if parent else None,
            model=setup.engine.name,
            prompt=prompt,
        )
        return context

    async def _fitted(self, setup: RoleSetup, place: str, transcript: Transcript) -> tuple[list[Message], Session]:
        """A session with the opening; documents leave it where they do not fit."""
        engine = setup.engine
        while True:
            messages = transcript.messages()
            text = "".join(m.content for m in messages) if transcript.documents else ""
            short = short_of(engine, 0, text, setup.sampling.max_tokens)
            try:
                if not short:
                    return messages, await self.session(engine, place, messages, transcript.mode)
            except ContextOverflow:
                short = 1
            left, _ = leave(transcript.shown(), short, engine)
            if not left:
                return messages, await self.session(engine, place, messages, transcript.mode)
            message = f"{left} documents, the lowest ranked, are left out"
            self.events.emit("limit", place, what="context window", message=message)

    async def session(self, engine: Engine, place: str, messages: Sequence[Message], mode: Mode) -> Session:
        """A session of an engine for the context of a name."""
        session = await engine.open(messages, mode=mode)
        if hasattr(session, "on_retry"):  # as `Retrying` says; a check against a protocol costs twenty times as much
            session.on_retry = lambda retry: self._note_retry(place, retry)
        return session

    def _note_retry(self, place: str, retry: Retry) -> None:
        wait = round(retry.wait, 3)
        self.events.emit("retry", place, where=retry.where, message=retry.reason, attempt=retry.attempt, wait=wait)

    async def search(
        self, context: Context | None, queries: Sequence[str], k: int, *, using: Search | None = None
    ) -> list[list[Hit]]:
        """Search for a context, or for the episode itself; retries what may pass, then raises SearchError.

        `using` searches elsewhere than in the episode's own search: the web.
        """
        backend = using or self._search
        if backend is None:
            missing = SearchError("no search is configured: pass --index PATH (or search=... in Python)")
            self.fail("search", missing, context)
            raise missing
        place = context.id if context else ""
        self.events.emit("search", place, queries=list(queries), k=k)
        owner = context or self
        owner.usage += Usage(searches=len(queries))
        clock = asyncio.timeout(owner.budget.seconds_left())
        try:
            async with clock:
                results = await self._retrieve(backend, queries, k, place)
        except TimeoutError:
            if not clock.expired():
                raise
            late = SearchRefused("the time limit ran out before the search came back")
            self.fail("search", late, context)
            raise late from None
        except SearchError as error:
            self.fail("search", error, context)
            raise
        for query, hits in zip(queries, results, strict=True):
            if type(hits) is not list:
                self._charge(hits, context)
            for hit in hits:
                self.note(hit.document, hit.document.id)
                self._brought.setdefault((place, hit.document.id), query)
            self.events.emit("documents", place, query=query, hits=[hit_data(hit) for hit in hits])
        return results

    def with_queries(self, evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
        """Evidence that does not say which query brought its document, with it."""
        found = ((e, self._brought.get((e.trajectory, e.id)) or self._brought.get(("", e.id))) for e in evidence)
        return tuple(replace(e, query=query) if query and not e.query else e for e, query in found)

    async def _retrieve(self, backend: Search, queries: Sequence[str], k: int, place: str) -> list[list[Hit]]:
        for attempt in range(1, SEARCH_ATTEMPTS):
            try:
                return await backend.retrieve(queries, k)
            except SearchError as error:
                if not error.retryable:
                    raise
                wait = SEARCH_WAIT * 2**attempt
                self.events.emit("retry", place, where="search", message=str(error), attempt=attempt, wait=wait)
                await asyncio.sleep(wait)
        return await backend.retrieve(queries, k)

    def note(self, document: Document, key: str) -> None:
        """Remember that a document was read. One place may hold several texts: a web search cuts a snippet of a page
        for each query, and code writes a file anew."""
        known = self.documents.setdefault(key, document)
        if known is not document and known.text != document.text:
            text = hashlib.sha256(document.text.encode("utf-8", "surrogatepass")).hexdigest()
            self.documents[f"{key} {text[:16]}"] = document

    def _charge(self, hits: list[Hit], context: Context | None) -> None:
        """What a search cost beyond itself: hits of the cache, model calls of a search that a model plays."""
        if getattr(hits, "cached", False):
            (context or self).usage += Usage(cache_hits=1)
        usage: Usage | None = getattr(hits, "usage", None)
        if usage is not None:
            self.usage += usage
            (context or self).budget.spend(usage, turns=0)

    def fail(self, where: str, error: Exception | str, context: Context | None = None, *, fatal: bool = False) -> None:
        """Record a failure on the trace."""
        message = str(error) or type(error).__name__
        place = context.id if context else ""
        self.errors.append(Failure(where, message, place, fatal))
        self.events.emit("error", place, where=where, message=message)

    def setup(self, role: str) -> RoleSetup:
        """What a role runs on."""
        return self._roles(role)

    def place(self, parent: Context | None, number: int) -> str:
        """The id of a context by its number among its siblings."""
        return f"{parent.id}.{number}" if parent else str(number)

    def seed_for(self, context: Context) -> int | None:
        """A seed that depends on the place in the episode alone, never on timing."""
        if self._seed is None:
            return None
        place = f"{self._seed}/{context.id}/{context.budget.turns}"
        return int.from_bytes(hashlib.blake2b(place.encode(), digest_size=4).digest())

    async def finish(self) -> tuple[tuple[Trajectory, ...], Usage]:
        """Close what is open and hand over the trajectories and what they cost together."""
        for context in self.contexts:
            await context.close("aborted")
        trajectories = tuple(t for c in self.contexts for t in c.trajectories)
        self.contexts.clear()  # they know the run: without the circle, an episode's memory is free at once
        usage = sum((t.usage for t in trajectories), self.usage)
        return trajectories, replace(usage, seconds=round(self.events.seconds, 6))

    def without_raw_runs(self, text: str, place: str) -> str:
        """What may pass the information barrier of a text; see `barrier`."""
        passed = self._barrier.cut(text, self.documents)
        if passed != text:
            self.events.emit("limit", place, what="raw document text", message="a verbatim passage was cut")
        return passed


__all__ = [
    "RAW_RUN",
    "Answer",
    "BarrierError",
    "Context",
    "LimitReached",
    "RoleSetup",
    "Run",
    "Turn",
    "confidence",
]
