"""The teacher engine: it writes what a gold teacher says, in the student's own tokens.

Gold traces are made by running the very systems that users run, with a teacher in place of the model and a real search.
What is learned is therefore exactly what is served: the same prompts, the same observations, the same token ids.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ..engine.chat_format import ChatFormat, environment_segment
from ..engine.interface import Engine, Generation, Message, Mode, RoleAware, Sampling, Session
from ..engine.torch.vocabulary import Vocabulary
from ..metrics import exact_match
from ..record import Episode, Question, Segment, Usage
from ..retrieval.search import Search
from ..systems.registry import get
from .detours import MissingSearch, detour_of, without_mistakes
from .gold import GiveUp, GoldTeacher, Teacher, Unaided, View, teacher_for

TEMPERATURE = 0.8
"""Of a player's attempts after the first."""

Rewriter = Callable[[str, str, str], Awaitable[str]]
"""Writes a gold turn in other words, given what was seen and asked (`data.trace_rewriter.TraceRewriter`)."""


class Player(NamedTuple):
    """A model that plays roles itself: its turns take the place of gold ones, and what comes of them is checked."""

    engine: Engine
    roles: frozenset[str]
    attempts: int = 1
    """Times that it plays a question at most; the first time as the system decodes, then at `TEMPERATURE`."""
    temperature: float = 0.0

    def at(self, attempt: int) -> Player:
        return self._replace(temperature=TEMPERATURE if attempt else 0.0)

    async def open(self, role: str, messages: Sequence[Message], mode: Mode) -> Session | None:
        if role not in self.roles:
            return None
        engine = self.engine.for_role(role) if isinstance(self.engine, RoleAware) else self.engine
        return await engine.open(messages, mode=mode)


class TeacherEngine:
    """An engine for one question."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        chat: ChatFormat,
        teacher: Teacher,
        role: str = "",
        rewriter: Rewriter | None = None,
        player: Player | None = None,
    ) -> None:
        self.name = "teacher"
        self.context_window: int | None = None
        self.vocabulary, self.chat, self.teacher, self.role = vocabulary, chat, teacher, role
        self.rewriter = rewriter
        self.player = player

    def for_role(self, role: str) -> TeacherEngine:
        return TeacherEngine(self.vocabulary, self.chat, self.teacher, role, self.rewriter, self.player)

    async def open(self, messages: Sequence[Message], *, mode: Mode = "chat") -> TeacherSession:
        task = messages[-1].content.rpartition(": ")[2]
        played = await self.player.open(self.role, messages, mode) if self.player else None
        segments = tuple(self.vocabulary.prompt_segments(self.chat, messages))
        return TeacherSession(self, segments, mode, task, played)

    def count_tokens(self, text: str) -> int:
        return len(self.vocabulary.encode(text, False))

    async def close(self) -> None:
        """Nothing is held."""


class TeacherSession:
    def __init__(
        self,
        engine: TeacherEngine,
        segments: tuple[Segment, ...],
        mode: Mode,
        task: str,
        played: Session | None = None,
    ) -> None:
        self._engine = engine
        self._played = played
        self._task = task
        self._mode = mode
        self._ended = False
        self.segments = segments

    @property
    def context_tokens(self) -> int:
        return sum(len(s.token_ids) for s in self.segments)

    async def generate(self, sampling: Sampling) -> Generation:
        engine = self._engine
        text = await (self._gold() if self._played is None else self._own(self._played, sampling))
        ids = list(engine.vocabulary.encode(text, False))
        self._ended = self._mode == "chat"
        if self._ended:
            ids += engine.vocabulary.encode(engine.chat.end, True)
        before = self.context_tokens
        self.segments = (*self.segments, Segment("agent", text, tuple(ids), role="assistant"))
        usage = Usage(prompt_tokens=before, completion_tokens=len(ids), peak_context=before + len(ids), model_calls=1)
        return Generation(text, "end" if self._ended else "stop", tuple(ids), usage=usage)

    async def _gold(self) -> str:
        engine = self._engine
        text = engine.teacher.reply(View(engine.role, self.segments))
        if engine.rewriter is None:
            return text
        return await engine.rewriter(text, "".join(s.text for s in self.segments), self._task)

    async def _own(self, played: Session, sampling: Sampling) -> str:
        """The model's own turn; one that was cut off is nothing to learn."""
        warm = self._engine.player.temperature if self._engine.player else 0.0
        turn = await played.generate(replace(sampling, temperature=sampling.temperature or warm, logprobs=False))
        if turn.finish == "length":
            raise GiveUp("a turn was cut off")
        return turn.text

    async def append(self, text: str) -> None:
        engine = self._engine
        if self._played is not None:
            await self._played.append(text)
        segment = environment_segment(engine.chat, text, self._mode, engine.vocabulary.encode, ended=self._ended)
        self._ended = False
        self.segments = (*self.segments, segment)

    def fork(self) -> TeacherSession:
        played = self._played.fork() if self._played is not None else None
        twin = TeacherSession(self._engine, self.segments, self._mode, self._task, played)
        twin._ended = self._ended
        return twin

    async def close(self) -> None:
        if self._played is not None:
            await self._played.close()


class Traces(NamedTuple):
    episodes: list[Episode]
    rejected: Counter[str]
    """Questions that gave no trace, by reason."""
    prompts: Mapping[str, str]
    """Digests of the prompts that are in the episodes, by name."""


async def make_traces(
    system: str,
    questions: Iterable[Question],
    search: Search,
    vocabulary: Vocabulary,
    chat: ChatFormat,
    *,
    concurrency: int = 64,
    rewriter: Rewriter | None = None,
    player: Player | None = None,
    detours: float = 0.0,
    seed: int = 0,
    **settings: Any,
) -> Traces:
    """Gold traces of a system, kept only where search really found the facts and the answer is the gold one.

    `rewriter` puts the turns into other words while the system runs. `player` plays some roles itself; of its attempts
    at a question the first is kept whose answer is right, and its sub-answers too where a gold plan tells them.
    `detours` is the share of the steps and plans that go wrong at first (`train/detours.py`); where a detour leads
    nowhere, the question is played without it.
    """
    gate = asyncio.Semaphore(concurrency)
    kind = get(system)
    read: dict[str, str] = {}
    frozen = frozenset(kind.frozen)
    player = player and player._replace(roles=player.roles | frozen)
    alone = player is not None and player.roles >= set(kind.roles)

    async def trace(question: Question) -> Episode | str:
        reason = ""
        for attempt in range(player.attempts if player else 1):
            teacher = teacher_for(system, question)
            if isinstance(teacher, str):
                if not (alone and question.answers):
                    return teacher
                teacher = Unaided()
            if detours and player is None and (found := await by_a_detour(question)):
                return found
            playing = player.at(attempt) if player else None
            outcome = await played(question, teacher, search, playing, attempt or None)
            if isinstance(outcome, Episode):
                return outcome
            reason = outcome
        return reason

    async def by_a_detour(question: Question) -> Episode | None:
        teacher = teacher_for(system, question)
        if not isinstance(teacher, GoldTeacher):
            return None
        detour = detour_of(question, teacher.facts, detours, seed=seed)
        if detour is None:
            return None
        teacher.hands_on_whole = detour.whole
        found = await played(question, teacher, MissingSearch(search, question, detour))
        if isinstance(found, str):
            return None
        return without_mistakes(found) if detour.whole else found

    async def played(
        question: Question,
        teacher: Teacher,
        search: Search,
        playing: Player | None = None,
        attempt: int | None = None,
    ) -> Episode | str:
        async with gate:
            engine = TeacherEngine(vocabulary, chat, teacher, rewriter=rewriter, player=playing)
            running = kind(engine, search, **settings)
            episode = await running.solve(question, seed=attempt)
        reason = _rejection(episode) or teacher.objection(episode)
        if reason:
            return reason
        read.update(running.prompts.digests)
        return _without(episode, teacher.untaught | frozen)

    episodes: list[Episode] = []
    rejected: Counter[str] = Counter()
    for found in await asyncio.gather(*(trace(q) for q in questions)):
        if isinstance(found, str):
            rejected[found] += 1
        else:
            episodes.append(found)
    return Traces(episodes, rejected, read)


def _without(episode: Episode, roles: frozenset[str]) -> Episode:
    return replace(episode, trajectories=tuple(t for t in episode.trajectories if t.role not in roles))


def _rejection(episode: Episode) -> str:
    """Why a trace must not be learned from; empty if it may be."""
    if episode.errors:
        return episode.errors[0].message
    if episode.forced or episode.stop_reason == "no answer":
        return "ran out of turns"
    if any(t.format_errors for t in episode.trajectories):
        return "malformed"
    if not exact_match(episode.stated_answer, episode.question.answers):
        return "wrong answer"
    return ""
