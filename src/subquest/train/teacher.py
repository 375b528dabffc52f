"""The teacher: an engine that writes what an oracle says, in the student's own tokens.

Gold traces are made by running the very systems that users run, with a teacher in place of the model and a real search.
What is learnt is therefore exactly what is served: the same prompts, the same observations, the same token ids.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from ..engine.base import Generation, Message, Mode, Sampling
from ..engine.chat import ChatFormat, Piece, encode_pieces, text_of
from ..engine.torch.session import opening
from ..engine.torch.tokens import Vocabulary
from ..errors import EngineRefused
from ..metrics import exact_match
from ..record import Episode, Question, Segment, Usage
from ..retrieval.base import Search
from ..systems.registry import get


class View(NamedTuple):
    """What a teacher sees: exactly what the model in its place would see."""

    role: str
    segments: tuple[Segment, ...]

    @property
    def turn(self) -> int:
        """Turns written so far in this context."""
        return sum(1 for s in self.segments if s.kind == "agent")

    @property
    def last(self) -> str:
        """The newest text that did not come from the model."""
        return next((s.text for s in reversed(self.segments) if s.kind != "agent"), "")

    @property
    def prompt(self) -> str:
        return "\n".join(s.text for s in self.segments if s.kind == "prompt")


class Teacher(Protocol):
    """Knows how one question is answered."""

    def reply(self, view: View) -> str:
        """What a good model would write next. Raises GiveUp where it cannot know."""
        ...


class GiveUp(EngineRefused):
    """The teacher cannot go on: the fact was not found. The trace is then left out, and the reason counted."""


Rewriter = Callable[[str, str, str], Awaitable[str]]
"""Writes a gold turn in other words, given what was seen and asked (`worlds.retell.TraceRewriter`)."""


class TeacherEngine:
    """An engine for one question."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        chat: ChatFormat,
        teacher: Teacher,
        role: str = "",
        rewriter: Rewriter | None = None,
    ) -> None:
        self.name = "teacher"
        self.context_window: int | None = None
        self.vocabulary, self.chat, self.teacher, self.role = vocabulary, chat, teacher, role
        self.rewriter = rewriter

    def for_role(self, role: str) -> TeacherEngine:
        return TeacherEngine(self.vocabulary, self.chat, self.teacher, role, self.rewriter)

    async def open(self, messages: Sequence[Message], *, mode: Mode = "chat") -> TeacherSession:
        task = messages[-1].content.rpartition(": ")[2]
        return TeacherSession(self, tuple(opening(self.chat, self.vocabulary, messages)), mode, task)

    def count_tokens(self, text: str) -> int:
        return len(self.vocabulary.encode(text, False))

    async def close(self) -> None:
        """Nothing is held."""


class TeacherSession:
    def __init__(self, engine: TeacherEngine, segments: tuple[Segment, ...], mode: Mode, task: str) -> None:
        self._engine = engine
        self._task = task
        self._mode = mode
        self._ended = False
        self.segments = segments

    @property
    def context_tokens(self) -> int:
        return sum(len(s.token_ids) for s in self.segments)

    async def generate(self, sampling: Sampling) -> Generation:
        engine = self._engine
        text = engine.teacher.reply(View(engine.role, self.segments))
        if engine.rewriter is not None:
            text = await engine.rewriter(text, "".join(s.text for s in self.segments), self._task)
        ids = list(engine.vocabulary.encode(text, False))
        self._ended = self._mode == "chat"
        if self._ended:
            ids += engine.vocabulary.encode(engine.chat.end, True)
        before = self.context_tokens
        self.segments = (*self.segments, Segment("agent", text, tuple(ids), role="assistant"))
        usage = Usage(prompt_tokens=before, completion_tokens=len(ids), peak_context=before + len(ids), model_calls=1)
        return Generation(text, "end" if self._ended else "stop", tuple(ids), usage=usage)

    async def append(self, text: str) -> None:
        engine = self._engine
        if self._mode == "chat":
            pieces = engine.chat.user_turn(text, ended=self._ended)
        else:
            pieces = [Piece(text, False)]
        self._ended = False
        ids = tuple(encode_pieces(pieces, engine.vocabulary.encode))
        self.segments = (*self.segments, Segment("env", text_of(pieces), ids, role="user"))

    def fork(self) -> TeacherSession:
        twin = TeacherSession(self._engine, self.segments, self._mode, self._task)
        twin._ended = self._ended
        return twin

    async def close(self) -> None:
        """Nothing is held."""


class Traces(NamedTuple):
    episodes: list[Episode]
    rejected: Counter[str]
    """Questions that gave no trace, by reason."""


async def make_traces(
    system: str,
    questions: Iterable[Question],
    search: Search,
    vocabulary: Vocabulary,
    chat: ChatFormat,
    *,
    concurrency: int = 64,
    rewriter: Rewriter | None = None,
    **settings: Any,
) -> Traces:
    """Gold traces of a system, kept only where search really found the facts and the answer is the gold one.

    `rewriter` puts the turns into other words while the system runs.
    """
    from .gold import teacher_for

    gate = asyncio.Semaphore(concurrency)
    kind = get(system)

    async def trace(question: Question) -> Episode | str:
        teacher = teacher_for(system, question)
        if isinstance(teacher, str):
            return teacher
        async with gate:
            engine = TeacherEngine(vocabulary, chat, teacher, rewriter=rewriter)
            episode = await kind(engine, search, **settings).solve(question)
        return _rejection(episode) or episode

    episodes: list[Episode] = []
    rejected: Counter[str] = Counter()
    for found in await asyncio.gather(*(trace(q) for q in questions)):
        if isinstance(found, str):
            rejected[found] += 1
        else:
            episodes.append(found)
    return Traces(episodes, rejected)


def _rejection(episode: Episode) -> str:
    """Why a trace must not be learnt from; empty where it may be."""
    if episode.errors:
        return episode.errors[0].message
    if episode.forced or episode.stop_reason == "no answer":
        return "ran out of turns"
    if any(t.format_errors for t in episode.trajectories):
        return "malformed"
    if not exact_match(episode.answer, episode.question.answers):
        return "wrong answer"
    return ""
