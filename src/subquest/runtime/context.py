"""One role's isolated context: it writes turns, is told things and is shown documents.

A *shielded* context cannot be shown documents at all, and verbatim passages of documents are cut from what it is told.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from ..codec import to_dict
from ..engine import Engine, Generation, Message, Mode, Sampling, Session
from ..engine.interface import HidesReasoning, TakesTurns, repeats_itself
from ..errors import ContextOverflow, EngineError, EngineRefused, EngineUnavailable
from ..events import EventLog
from ..limits import Budget, Repeats
from ..protocol import in_thought, parse, wrap
from ..record import Document, Failure, Hit, Segment, Trajectory, Usage
from .barrier import BarrierError
from .rendering import cut_to_tokens, render_documents
from .role_setup import RoleSetup, stopping
from .thought import HIDDEN_THOUGHT, LEAST_THOUGHT, explain_unfinished, join_turns, replace_turn
from .turn import Turn, explain_cut, gave_up
from .window import CIRCLE, Shown, Text, Transcript, missing_tokens

_OPENED = re.compile(r"<(\w+)>\s*\Z")

FORCED_SECONDS = 30.0
"""What a forced final turn may take once the time limit has run out."""


class LimitReached(Exception):
    """A budget ran out; systems respond with one forced final answer."""


class Owner(Protocol):
    """What a context needs of its run (`run.Run`, which says what each of these does)."""

    events: EventLog
    contexts: list[Context]
    errors: list[Failure]

    def fail(self, where: str, error: Exception | str, context: Context | None = ..., *, fatal: bool = ...) -> None: ...
    def note(self, document: Document, key: str) -> None: ...
    def seed_for(self, context: Context) -> int | None: ...
    def without_verbatim_text(self, text: str, place: str) -> str: ...
    async def session(self, engine: Engine, place: str, messages: Sequence[Message], mode: Mode) -> Session: ...


class Context:
    """One role's isolated context."""

    def __init__(
        self,
        run: Owner,
        identifier: str,
        role: str,
        task: str,
        parent: Context | None,
        session: Session,
        setup: RoleSetup,
        budget: Budget,
        stop: tuple[str, ...],
        shielded: bool,
        transcript: Transcript,
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
        self.documents: list[Document] = []
        """What this context was shown, in order."""
        self.format_errors: list[str] = []
        self.forced = False
        self.last_turn: Turn | None = None
        self._setup = setup
        self._sampling = stopping(setup.sampling, stop)
        self._transcript = transcript
        self._pending: list[Text] = []
        self._concluding = False
        """Its last turn is being forced, for which earlier ones may be removed."""
        self._full = ""
        """Why it writes no further turn: its window is full, or it goes in circles. Empty while it does."""
        self._earlier: list[Trajectory] = []
        """Its earlier sessions, each ended by a full window."""
        self._began = run.events.seconds
        self._closed: Trajectory | None = None

    @property
    def engine(self) -> Engine:
        return self._setup.engine

    @property
    def reasoning(self) -> str:
        """Everything it was told and wrote, without its prompt, and of a chat without the marks of its turns."""
        if self._transcript.mode == "chat":
            return "\n\n".join(self._transcript.contents)
        return "".join(segment.text for segment in self._segments() if segment.kind != "prompt")

    @property
    def told(self) -> str:
        """The last message of its prompt, and everything it was told since."""
        segments = list(self._segments())
        asked = [segment for segment in segments if segment.kind == "prompt"][-1:]
        return "\n".join(segment.text for segment in (*asked, *(s for s in segments if s.kind == "env")))

    @property
    def written(self) -> str:
        """Everything it wrote, one turn per line."""
        return "\n".join(segment.text for segment in self._segments() if segment.kind == "agent")

    @property
    def _in_turns(self) -> bool:
        return isinstance(self.session, TakesTurns) and self.session.in_turns

    @property
    def _goes_on(self) -> bool:
        return not isinstance(self.session, HidesReasoning) or self.session.goes_on

    def _segments(self) -> Iterator[Segment]:
        """The segments of all its sessions."""
        for trajectory in self._earlier:
            yield from trajectory.segments
        yield from self.session.segments

    async def begin_after(self, turn: str) -> None:
        """Begin after a turn that the model did not write, and after what the context was told: both are its prompt."""
        self._transcript.wrote(turn)
        self._transcript.tell(self._pending)
        self._pending = []
        messages = self._transcript.messages(in_turns=self._in_turns)
        try:
            session = await self.run.session(self.engine, self.id, messages, self._transcript.mode)
        except ContextOverflow as error:
            if not await self._make_room(1):
                self._full = f"the context window is full ({error})"
                raise LimitReached(self._full) from error
        else:
            await self._continue_in(session)

    async def write(self) -> Turn:
        """Let the model write one turn. Raises LimitReached when a budget has run out, EngineError when it fails."""
        if spent := self.budget.exhausted():
            raise LimitReached(spent)
        return await self._generate(self.budget.seconds_left())

    def tell(self, text: Text) -> None:
        """Environment text for the next turn; several texts arrive together."""
        if isinstance(text, Shown):
            self._must_not_be_shielded()
        self._pending.append(text if isinstance(text, Shown) else self._cleared(text))

    def interject(self, text: str) -> None:
        """A reminder or a last instruction; an open thought is closed first."""
        inside = self._transcript.mode == "completion" and not self._in_turns and in_thought(self.reasoning)
        self.tell(f"\n</think>\n{text}" if inside else text)

    def tell_results(self, results: Sequence[str], *, tokens: int) -> None:
        """Results of sub-tasks, each in `<result>` and cut to `tokens`."""
        cut = [cut_to_tokens(self._cleared(result), tokens, self.engine) for result in results]
        self._pending.append("\n".join(wrap("result", text) for text in cut))

    def show(self, hits: Sequence[Hit], *, tokens: int) -> None:
        """Raw documents in `<documents>`, each cut to `tokens`. Never for a shielded context."""
        self.read(hits)
        engine, documents = self.engine, [hit.document for hit in hits]  # not `self`, which would be a reference cycle
        self.tell(
            Shown([documents], lambda g, n: wrap("documents", render_documents(g[0], tokens, engine) or n), tokens)
        )

    def read(self, hits: Sequence[Hit]) -> None:
        """Note that the context sees these documents, for systems that render them themselves."""
        self._must_not_be_shielded()
        self.documents.extend(hit.document for hit in hits)

    def _must_not_be_shielded(self) -> None:
        if self.shielded:
            raise BarrierError(f"documents must not enter the context of {self.role} {self.id}")

    def malformed(self, problem: str, message: str = "", *, turn: Turn | None = None) -> None:
        """Note what is wrong with the format of a turn: for format rewards, and for whoever reads the trace."""
        self.format_errors.append(problem)
        text = {"text": turn.text} if turn is not None else {}
        self.run.events.emit("error", self.id, where="format", message=message or problem, **text)

    def remind(self, turn: Turn, reminder: str) -> None:
        """Note that a turn holds no action, and tell the role what it can do."""
        self.malformed("no action", "the turn holds no action", turn=turn)
        self.interject(reminder)

    def repeats(self, *queries: str) -> bool:
        """Whether all of these queries came up before, and too often to be carried out again."""
        if min(map(self.queries.count, queries)) <= self.queries.allowed:
            self.queries.refused = 0
            return False
        self.run.events.emit("limit", self.id, what="repeated query", message="; ".join(queries))
        self.refuse()
        return True

    def refuse(self) -> None:
        """Note that a turn asked for nothing new. Raises LimitReached if the one before did not either."""
        self.queries.refused += 1
        if self.queries.refused > 1:
            self._full = "it asked for the same again after it was told so"
            raise LimitReached(self._full)

    async def force(self, instruction: str, *tags: str) -> str:
        """One last turn beyond the budget, told to conclude. Empty if the model writes nothing or fails."""
        spent = self.budget.exhausted()
        reason = spent or self._full or "no valid action"
        ended = {"spent": True} if spent else {}
        self.run.events.emit("limit", self.id, what=reason, message="a final answer is forced", **ended)
        self._concluding = True
        if instruction:
            self.interject(instruction)
        try:
            turn = await self._generate(None if self.budget.seconds_left() is None else FORCED_SECONDS)
        except (EngineError, LimitReached) as error:
            self.run.fail("engine", error, self)
            return ""
        self.forced = True
        if opened := _OPENED.search(instruction):  # its end is no mistake of the model
            self.format_errors = [e for e in self.format_errors if e != f"</{opened[1]}> without <{opened[1]}>"]
        block = turn.parsed.last(*tags)
        return block.content if block else turn.parsed.outside

    async def close(self, stop_reason: str, result: str = "") -> None:
        """End the context; only the first call counts."""
        if self._closed is not None:
            return
        usage = replace(self.usage, seconds=round(self.run.events.seconds - self._began, 6))
        self._closed = replace(
            self._recorded(self.id),
            stop_reason=stop_reason,
            result=result,
            forced=self.forced,
            usage=usage,
            format_errors=tuple(self.format_errors),
        )
        await self.session.close()
        self.run.events.emit("close", self.id, stop_reason=stop_reason, usage=to_dict(usage))

    def _recorded(self, identifier: str) -> Trajectory:
        """The session as it stands."""
        return Trajectory(
            id=identifier,
            role=self.role,
            task=self.task,
            parent=self.parent.id if self.parent else None,
            segments=self.session.segments,
            model=self.engine.name,
        )

    @property
    def trajectories(self) -> tuple[Trajectory, ...]:
        """One for each of its sessions: the last has the context's id and its result."""
        if self._closed is None:
            raise RuntimeError("the context is still open")
        return (*self._earlier, self._closed)

    def _cleared(self, text: str) -> str:
        return self.run.without_verbatim_text(text, self.id) if self.shielded else text

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
            if reason := gave_up(self.run.events, self.id, again=self.last_turn is not None, last=self._concluding):
                raise EngineUnavailable(f"{reason} (until the time limit)") from None
            raise LimitReached(f"{seconds:.3g} seconds left of the time limit") from None
        self.budget.spend(Usage())
        text = generation.text
        cut = generation.finish == "length" and in_thought(text)
        turn = Turn(text, parse(f"{text}</think>" if cut else text), generation)
        self.format_errors.extend(turn.parsed.problems)
        if generation.finish == "length":
            tokens = min(sampling.max_tokens, len(generation.token_ids) or sampling.max_tokens)
            self.format_errors.append(f"cut at {tokens} tokens")
            what = f"{tokens} tokens in a turn"
            self.run.events.emit("limit", self.id, what=what, message=explain_cut(generation.text))
        for problem in generation.problems:
            where = "format" if generation.tool_calls else "engine"
            self.run.events.emit("error", self.id, where=where, message=problem)
        if generation.tool_calls:
            self.format_errors.extend(generation.problems)
        self.run.events.emit(
            "turn", self.id, text=generation.text, finish=generation.finish, usage=to_dict(generation.usage)
        )
        if unfinished := self._unfinished_thought(generation, sampling):
            if not self._concluding:  # a forced turn records its failure itself
                self.run.fail("engine", unfinished, self)
            raise LimitReached(unfinished)
        self.last_turn = turn
        return turn

    def _unfinished_thought(self, turn: Generation, sampling: Sampling) -> str:
        """Why a turn did not finish thinking, and what to change; empty if it did, or if its text went in circles."""
        hidden = self._hidden(turn)
        if not hidden and (not (turn.cut_in_thought and self._setup.thought) or repeats_itself(turn.text)):
            return ""
        return explain_unfinished(turn, sampling.max_tokens, self._setup.thought, hidden=hidden)

    def _hidden(self, turn: Generation) -> bool:
        """Whether a turn is nothing but thinking that the endpoint returns separately, or not at all."""
        return turn.finish == "length" and not turn.text.strip() and bool(turn.reasoning or not self._goes_on)

    async def _continued(self, sampling: Sampling) -> Generation:
        self._transcript.tell(self._pending)
        self._pending = []
        if not self._concluding and (repeated := self._transcript.leave_circle()):
            self.run.events.emit("limit", self.id, what="repeated turn", message=repeated)
            if repeated != CIRCLE:
                self._full = repeated
                raise LimitReached(repeated)
        text = self._transcript.unsent.removeprefix(self._surplus)
        if missing := missing_tokens(self.engine, self.session.context_tokens, text, sampling.max_tokens):
            text = "" if await self._make_room(missing) else text
        while True:
            try:
                if text:
                    await self.session.append(text)
                    self._transcript.sent()
                    text = ""
                generation = self._spent(await self.session.generate(sampling))
            except ContextOverflow as error:
                window = self.engine.context_window
                if not await self._make_room(self.session.context_tokens // 4 if window is None else 1):
                    self._full = f"the context window is full ({error})"
                    self.run.events.emit("limit", self.id, what="context window", message=str(error))
                    raise LimitReached(self._full) from error
                text = ""
            else:
                generation = await self._thought_out(generation, sampling)
                self._transcript.wrote(generation.text)
                return generation

    @property
    def _surplus(self) -> str:
        """What the last token of a turn wrote behind the string that ended it: `><` is one token of some models, and
        what is inserted after `…>` begins with `<`. The token stays in the context."""
        if (turn := self.last_turn) is None or self._transcript.mode == "chat":
            return ""
        last = self.session.segments[-1]
        return last.text[len(turn.text) :] if last.kind == "agent" and last.text.startswith(turn.text) else ""

    def _spent(self, generation: Generation) -> Generation:
        self.budget.spend(generation.usage, turns=0)
        self.usage += generation.usage
        return generation

    async def _thought_out(self, turn: Generation, sampling: Sampling) -> Generation:
        """Continue a thought that was cut, in the same turn, unless it goes in circles; if the endpoint cannot do that,
        request the turn once more with room for it."""
        while (turn.cut_in_thought or self._hidden(turn)) and not repeats_itself(turn.reasoning or turn.text):
            goes_on = self._goes_on
            room = self._room_for_thought(turn, sampling.max_tokens if goes_on else HIDDEN_THOUGHT)
            if room < LEAST_THOUGHT or (not goes_on and room <= sampling.max_tokens):
                break
            if not goes_on:
                self.run.events.emit("limit", self.id, what="hidden thought", message=f"asked again with {room} tokens")
            try:
                part = self._spent(await self.session.generate(replace(sampling, max_tokens=room)))
            except ContextOverflow:
                break
            except EngineRefused as error:
                self.run.fail("engine", error, self)
                break
            if not goes_on:
                self._sampling = replace(self._sampling, max_tokens=room)
                return replace_turn(turn, part)
            # the endpoint may just have refused to continue
            turn = join_turns(turn, part) if self._goes_on else replace_turn(turn, part)
        return turn

    def _room_for_thought(self, turn: Generation, most: int) -> int:
        """Tokens that a turn may still spend on thinking in one more call."""
        if self.budget.exhausted(turns=False):
            return 0
        room = min(most, self._setup.thought - turn.usage.completion_tokens)
        window = self.engine.context_window
        return room if window is None else min(room, window - self.session.context_tokens)

    async def _make_room(self, missing: int) -> bool:
        """Reopen the context with at least `missing` tokens fewer; False if nothing can be removed. Documents are
        removed; if it is being forced to conclude, turns as well."""
        reopened = False
        while missing > 0:
            removed = self._transcript.make_room(missing, self.engine, turns=self._concluding)
            if not removed:
                break
            message = f"the oldest are removed from the context: {removed}"
            self.run.events.emit("limit", self.id, what="context window", message=message)
            try:
                messages = self._transcript.messages(in_turns=self._in_turns)
                session = await self.run.session(self.engine, self.id, messages, self._transcript.mode)
            except ContextOverflow:
                continue
            await self._continue_in(session)
            self.queries.forget()
            reopened = True
            missing = missing_tokens(self.engine, session.context_tokens, "", self._sampling.max_tokens)
        return reopened

    async def _continue_in(self, session: Session) -> None:
        """Continue in a new session that holds the transcript; the trajectory of the previous one is kept.

        What was told last is only in the new prompt; it is kept here without token ids, for readers of the trace.
        """
        if any(segment.kind == "agent" for segment in self.session.segments):
            part = self._recorded(f"{self.id}~{len(self._earlier) + 1}")
            unsent = [Segment("env", text)] if (text := self._transcript.unsent) else []
            segments = (*part.segments, *unsent)
            self._earlier.append(replace(part, segments=segments, stop_reason="context window", part_of=self.id))
        await self.session.close()
        self.session = session
        self._transcript.sent()
