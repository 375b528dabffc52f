"""An episode in progress: its events, budget, searches, documents read, and the contexts of its roles.

Isolation is enforced here and in `context`. A *shielded* context (CoDA's and APEX's planner, DECOR's planner and
answerer) cannot be shown documents at all, and long verbatim passages of documents are cut from what it is told.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..citation import KEPT, place_in_whole
from ..engine import Engine, Message, Mode, Session
from ..engine.interface import Retry
from ..errors import ContextOverflow, SearchError, SearchRefused
from ..events import EventLog
from ..limits import Budget, Limits
from ..record import Document, Evidence, Failure, Hit, Question, Report, Trajectory, Usage
from ..retrieval.search import Search
from .barrier import Barrier
from .context import Context
from .evidence import Finding
from .excerpts import excerpts
from .given_tools import GivenTools
from .rendering import hit_data
from .role_setup import RoleSetup
from .table_rows import matching_rows
from .window import Opening, Shown, Transcript, missing_tokens

SEARCH_ATTEMPTS = 3
SEARCH_WAIT = 0.2
"""Half of the seconds before the second attempt; the wait doubles with each attempt."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How an episode ended, as its system reports it."""

    text: str
    forced: bool = False
    """Written in a forced last turn, or taken from a result."""
    confidence: float | None = None
    evidence: tuple[Evidence, ...] = ()
    """Quotes that the system chose itself, besides those found for `findings`."""
    stop_reason: str = "answered"
    findings: Sequence[Finding] = ()
    """What it rests on; evidence is chosen from their documents (`evidence`)."""
    report: Report | None = None
    """The answer sentence by sentence, if it is written in sentences; each cites `evidence`."""


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
        tools: GivenTools | None = None,
        search_tokens: int | None = None,
    ) -> None:
        """`additions` are lines to append to the instructions of a role; `tools` are those that the user brings; what a
        search finds is cut to `search_tokens` (`excerpts`)."""
        self.question = question
        self.events = events
        self.budget = Budget("the episode", limits)
        self.contexts: list[Context] = []
        self.errors: list[Failure] = []
        self.documents: dict[str, Document] = {}
        """Every document the episode has read, by id; other texts with the same id have keys of their own."""
        self._found_by: dict[tuple[str, str], str] = {}
        """The query that first found a document for a context, by the ids of both."""
        self.usage = Usage()
        """Spent outside contexts."""
        self._roles = roles
        self._search = search
        self._seed = seed
        self._additions = additions or {}
        self.tools = tools
        self._search_tokens = search_tokens
        self._barrier = Barrier(question.question)
        self._opened: dict[str, int] = {}
        """How many contexts were opened below each, by its id."""

    @property
    def searched(self) -> Search | None:
        """What `search` searches."""
        return self._search

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

        `number` is its position among its siblings, if their order would otherwise depend on timing.
        """
        setup = self.setup(role)
        above = parent.budget if parent else self.budget
        budget = above.child(role, setup.limits.tightened(limits or Limits()))
        above_id = parent.id if parent else ""
        self._opened[above_id] = (
            self._opened.get(above_id, 0) + 1
        )  # before any await: siblings may open at the same time
        name = self.context_id(parent, number or self._opened[above_id])
        additions = [addition for addition in (setup.addition, self._additions.get(role)) if addition]
        shown = opening if isinstance(opening, Shown) else None

        def opened() -> list[Message]:
            messages = list(opening.content if isinstance(opening, Shown) else opening)
            if additions:
                messages[0] = replace(messages[0], content="\n".join([messages[0].content, *additions]))
            if shielded and self.documents:
                messages = [replace(m, content=self.without_verbatim_text(m.content, name)) for m in messages]
            return messages

        transcript = Transcript(opened, mode, shown)
        messages, session = await self._open_fitting(setup, name, transcript)
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

    async def _open_fitting(
        self, setup: RoleSetup, place: str, transcript: Transcript
    ) -> tuple[list[Message], Session]:
        """A session with the opening; documents that do not fit are removed from it."""
        engine = setup.engine
        while True:
            messages = transcript.messages()
            text = "".join(m.content for m in messages) if transcript.documents else ""
            missing = missing_tokens(engine, 0, text, setup.sampling.max_tokens)
            try:
                if not missing:
                    return messages, await self.session(engine, place, messages, transcript.mode)
            except ContextOverflow:
                missing = 1
            removed = transcript.make_room(missing, engine, turns=False)
            if not removed:
                return messages, await self.session(engine, place, messages, transcript.mode)
            message = f"{removed}, the lowest ranked, are left out"
            self.events.emit("limit", place, what="context window", message=message)

    async def session(self, engine: Engine, place: str, messages: Sequence[Message], mode: Mode) -> Session:
        """A session of an engine for the context with this id."""
        session = await engine.open(messages, mode=mode)
        if hasattr(session, "on_retry"):  # the protocol `ReportsRetries`; isinstance() would cost twenty times as much
            session.on_retry = lambda retry: self._note_retry(place, retry)
        if (on_text := self.events.on_text) is not None and hasattr(session, "on_text"):  # `StreamsText`
            session.on_text = lambda piece: on_text(place, piece)
        return session

    def _note_retry(self, place: str, retry: Retry) -> None:
        wait = round(retry.wait, 3)
        self.events.emit("retry", place, where=retry.where, message=retry.reason, attempt=retry.attempt, wait=wait)

    async def search(
        self, context: Context | None, queries: Sequence[str], k: int, *, using: Search | None = None
    ) -> list[list[Hit]]:
        """Search for a context, or for the episode itself; retries temporary failures, then raises SearchError.

        `using` replaces the episode's own search, for example by a web search.
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
            if context is not None:  # it may try again
                context.queries.forget(*queries)
            raise
        shown: list[list[Hit]] = []
        for query, found in zip(queries, results, strict=True):
            if type(found) is not list:
                self._charge(found, context)
            hits = [Hit(matching_rows(hit.document, query), hit.score) for hit in found]
            if self._search_tokens is not None:
                hits = excerpts(hits, query, self._search_tokens)
            for hit in hits:
                self.note(hit.document, hit.document.id)
                self._found_by.setdefault((place, hit.document.id), query)
            self.events.emit("documents", place, query=query, hits=[hit_data(hit) for hit in hits])
            shown.append(hits)
        return shown

    @property
    def has_search(self) -> bool:
        return self._search is not None

    def with_queries(self, evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
        """The evidence, each with the query that found its document."""
        found = ((e, self._found_by.get((e.trajectory, e.id)) or self._found_by.get(("", e.id))) for e in evidence)
        return tuple(replace(e, query=query) if query and not e.query else e for e, query in found)

    def in_whole_documents(self, evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
        """The evidence with its places in whole documents, of which roles may have been shown only parts."""
        cut = [document for document in self.documents.values() if KEPT in document.meta]

        def placed(quote: Evidence) -> Evidence:
            read = (d for d in cut if d.id == quote.id and d.text.startswith(quote.quote, quote.start))
            return next((replace(quote, start=place_in_whole(d.meta, quote.start)) for d in read), quote)

        return tuple(map(placed, evidence))

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
        """Remember that a document was read. One id can have several texts: a web search cuts a snippet from a page for
        each query, and code overwrites files."""
        known = self.documents.setdefault(key, document)
        if known is not document and known.text != document.text:
            text = hashlib.sha256(document.text.encode("utf-8", "surrogatepass")).hexdigest()
            self.documents[f"{key} {text[:16]}"] = document

    def _charge(self, hits: list[Hit], context: Context | None) -> None:
        """Count cache hits, and the model calls of a simulated search."""
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

    def context_id(self, parent: Context | None, number: int) -> str:
        """The id of a context by its number among its siblings."""
        return f"{parent.id}.{number}" if parent else str(number)

    def seed_for(self, context: Context) -> int | None:
        """A seed that depends only on the position in the episode, never on timing."""
        if self._seed is None:
            return None
        place = f"{self._seed}/{context.id}/{context.budget.turns}"
        return int.from_bytes(hashlib.blake2b(place.encode(), digest_size=4).digest())

    async def finish(self) -> tuple[tuple[Trajectory, ...], Usage]:
        """Close all contexts; returns their trajectories and what they cost together."""
        for context in self.contexts:
            await context.close("aborted")
        trajectories = tuple(t for c in self.contexts for t in c.trajectories)
        self.contexts.clear()  # they refer to the run: without the cycle, memory is freed at once
        usage = sum((t.usage for t in trajectories), self.usage)
        return trajectories, replace(usage, seconds=round(self.events.seconds, 6))

    def without_verbatim_text(self, text: str, place: str) -> str:
        """The text as it may pass the information barrier (`barrier`)."""
        passed = self._barrier.cut(text, self.documents)
        if passed != text:
            self.events.emit("limit", place, what="raw document text", message="a verbatim passage was cut")
        return passed
