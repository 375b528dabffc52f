"""The runtime every system stands on: an episode in progress, and the contexts of its roles.

    Run       one attempt at one question: its events, budget, documents read, contexts
    Context   one role's isolated context: write a turn, be told something, be shown documents

Isolation is enforced here. A *shielded* context (CoDA's and APEX's planner, DECOR's planner and answerer) cannot be
shown documents at all, and what it is told is checked for long verbatim runs of any document the episode has read.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..codec import to_dict
from ..engine import Engine, Generation, Message, Mode, Sampling, Session
from ..engine.base import Retry
from ..errors import ContextOverflow, EngineError, SearchError, SearchRefused
from ..events import EventLog
from ..limits import Budget, Limits, Repeats
from ..protocol import Parsed, parse, wrap
from ..record import Document, Evidence, Failure, Hit, Question, Trajectory, Usage
from ..retrieval.base import Search
from .barrier import RAW_RUN, Barrier, BarrierError
from .rendering import cut_to_tokens, render_documents, shown

SEARCH_ATTEMPTS = 3
SEARCH_WAIT = 0.2
"""Half of the seconds before the second attempt; they double from attempt to attempt."""
FORCED_SECONDS = 30.0
"""What a forced final turn may take where the time limit has run out."""


class LimitReached(Exception):
    """A budget ran out; systems answer it with one forced final answer."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What the model wrote in one turn."""

    text: str
    parsed: Parsed
    generation: Generation


@dataclass(frozen=True, slots=True)
class Answer:
    """How an episode ended, by its system's account."""

    text: str
    forced: bool = False
    confidence: float | None = None
    evidence: tuple[Evidence, ...] = ()
    stop_reason: str = "answered"


@dataclass(slots=True)
class RoleSetup:
    """What a role runs on."""

    engine: Engine
    sampling: Sampling
    limits: Limits = field(default_factory=Limits)
    addition: str = ""
    """A line that goes to the end of the role's instructions."""


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
        """Every document the episode has read, by id."""
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
        messages: Sequence[Message],
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
        for addition in (setup.addition, self._additions.get(role)):
            if addition:
                messages = [replace(messages[0], content=f"{messages[0].content}\n{addition}"), *messages[1:]]
        if shielded and self.documents:
            messages = [replace(m, content=self.without_raw_runs(m.content, name)) for m in messages]
        session = await setup.engine.open(messages, mode=mode)
        if hasattr(session, "on_retry"):  # as `Retrying` says; a check against a protocol costs twenty times as much
            session.on_retry = lambda retry: self._note_retry(name, retry)
        context = Context(self, name, role, task, parent, session, setup, budget, tuple(stop), shielded)
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
            self.documents.update((hit.document.id, hit.document) for hit in hits)
            self.events.emit("documents", place, query=query, hits=[shown(hit) for hit in hits])
        return results

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
        trajectories = tuple(c.trajectory for c in self.contexts)
        self.contexts.clear()  # they know the run: without the circle, an episode's memory is free at once
        usage = sum((t.usage for t in trajectories), self.usage)
        return trajectories, replace(usage, seconds=round(self.events.seconds, 6))

    def without_raw_runs(self, text: str, place: str) -> str:
        """What may pass the information barrier of a text; see `barrier`."""
        passed = self._barrier.cut(text, self.documents)
        if passed != text:
            self.events.emit("limit", place, what="raw document text", message="a verbatim passage was cut")
        return passed


class Context:
    """One role's isolated context."""

    def __init__(
        self,
        run: Run,
        identifier: str,
        role: str,
        task: str,
        parent: Context | None,
        session: Session,
        setup: RoleSetup,
        budget: Budget,
        stop: tuple[str, ...],
        shielded: bool,
    ) -> None:
        self.run = run
        self.id = identifier
        self.role = role
        self.task = task
        self.parent = parent
        self.session = session
        self.budget = budget
        self.shielded = shielded
        self.usage = Usage()
        self.queries = Repeats()
        self.tasks = Repeats()
        self.documents: list[Document] = []
        """What this context was shown, in order."""
        self.format_errors: list[str] = []
        self.forced = False
        self.last_turn: Turn | None = None
        self._setup = setup
        self._sampling = _stopping(setup.sampling, stop)
        self._pending: list[str] = []
        self._began = run.events.seconds
        self._closed: Trajectory | None = None

    @property
    def engine(self) -> Engine:
        return self._setup.engine

    async def write(self) -> Turn:
        """Let the model write one turn. Raises LimitReached when a budget has run out, EngineError when it fails."""
        if spent := self.budget.exhausted():
            raise LimitReached(spent)
        return await self._generate(self.budget.seconds_left())

    def tell(self, text: str) -> None:
        """Environment text for the next turn; several texts arrive together."""
        self._pending.append(self._cleared(text))

    def tell_results(self, results: Sequence[str], *, tokens: int) -> None:
        """Sub-task results, each in `<result>`, cut to a length."""
        cut = [cut_to_tokens(self._cleared(result), tokens, self.engine) for result in results]
        self._pending.append("\n".join(wrap("result", text) for text in cut))

    def show(self, hits: Sequence[Hit], *, tag: str = "documents", tokens: int) -> None:
        """Raw documents in a tag, each cut to `tokens`. Never for a shielded context."""
        self.read(hits)
        self.tell(wrap(tag, render_documents([hit.document for hit in hits], tokens, self.engine)))

    def read(self, hits: Sequence[Hit]) -> None:
        """Note that the context sees these documents, for systems that word them themselves."""
        if self.shielded:
            raise BarrierError(f"documents must not enter the context of {self.role} {self.id}")
        self.documents.extend(hit.document for hit in hits)

    async def force(self, instruction: str, *tags: str) -> str:
        """One last turn beyond the budget, told to conclude. Empty when the model gives nothing or fails."""
        reason = self.budget.exhausted() or "no valid action"
        self.run.events.emit("limit", self.id, what=reason, message="a final answer is forced")
        self.forced = True
        if instruction:
            self.tell(instruction)
        try:
            turn = await self._generate(None if self.budget.seconds_left() is None else FORCED_SECONDS)
        except (EngineError, LimitReached) as error:
            self.run.fail("engine", error, self)
            return ""
        block = turn.parsed.last(*tags)
        return block.content if block else turn.parsed.outside

    async def close(self, stop_reason: str, result: str = "") -> None:
        """End the context; only the first call counts."""
        if self._closed is not None:
            return
        usage = replace(self.usage, seconds=round(self.run.events.seconds - self._began, 6))
        self._closed = Trajectory(
            id=self.id,
            role=self.role,
            task=self.task,
            parent=self.parent.id if self.parent else None,
            segments=self.session.segments,
            stop_reason=stop_reason,
            result=result,
            forced=self.forced,
            usage=usage,
            model=self.engine.name,
            format_errors=tuple(self.format_errors),
        )
        await self.session.close()
        self.run.events.emit("close", self.id, stop_reason=stop_reason, usage=to_dict(usage))

    @property
    def trajectory(self) -> Trajectory:
        if self._closed is None:
            raise RuntimeError("the context is still open")
        return self._closed

    def _cleared(self, text: str) -> str:
        return self.run.without_raw_runs(text, self.id) if self.shielded else text

    async def _generate(self, seconds: float | None) -> Turn:
        seed = self.run.seed_for(self)
        sampling = self._sampling if seed == self._sampling.seed else replace(self._sampling, seed=seed)
        try:
            if seconds is None:
                generation = await self._continued(sampling)
            else:
                async with asyncio.timeout(seconds):
                    generation = await self._continued(sampling)
        except TimeoutError:
            raise LimitReached(f"{seconds:.3g} seconds left of the time limit") from None
        except ContextOverflow as error:
            self.run.events.emit("limit", self.id, what="context window", message=str(error))
            raise
        self.budget.spend(generation.usage)
        self.usage += generation.usage
        turn = Turn(generation.text, parse(generation.text), generation)
        self.last_turn = turn
        self.format_errors.extend(turn.parsed.problems)
        if generation.finish == "length":
            self.format_errors.append(f"cut at {sampling.max_tokens} tokens")
        self.run.events.emit(
            "turn", self.id, text=generation.text, finish=generation.finish, usage=to_dict(generation.usage)
        )
        return turn

    async def _continued(self, sampling: Sampling) -> Generation:
        if self._pending:
            text, self._pending = "\n".join(self._pending), []
            await self.session.append(text)
        return await self.session.generate(sampling)


@functools.lru_cache(maxsize=256)
def _stopping(sampling: Sampling, stop: tuple[str, ...]) -> Sampling:
    return replace(sampling, stop=stop)


def confidence(turn: Turn | None) -> float | None:
    """Geometric mean probability of the tokens of a turn, where the engine gives log-probs."""
    logprobs = turn.generation.logprobs if turn else None
    return round(math.exp(sum(logprobs) / len(logprobs)), 4) if logprobs else None


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
