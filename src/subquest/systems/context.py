"""One role's isolated context: write a turn, be told something, be shown documents.

A *shielded* context cannot be shown documents at all, and what it is told is checked for long verbatim runs of any
document that the episode has read.
"""

from __future__ import annotations

import asyncio
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ..codec import to_dict
from ..engine import Engine, Generation, Sampling, Session
from ..errors import ContextOverflow, EngineError
from ..limits import Budget, Limits, Repeats
from ..protocol import Parsed, parse, wrap
from ..record import Document, Hit, Trajectory, Usage
from .barrier import BarrierError
from .rendering import cut_to_tokens, render_documents

if TYPE_CHECKING:
    from .runtime import Run

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


@dataclass(slots=True)
class RoleSetup:
    """What a role runs on."""

    engine: Engine
    sampling: Sampling
    limits: Limits = field(default_factory=Limits)
    addition: str = ""
    """A line that goes to the end of the role's instructions."""


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
        if instruction:
            self.tell(instruction)
        try:
            turn = await self._generate(None if self.budget.seconds_left() is None else FORCED_SECONDS)
        except (EngineError, LimitReached) as error:
            self.run.fail("engine", error, self)
            return ""
        self.forced = True
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
