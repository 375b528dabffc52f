"""APEX's pipeline of fine-tuning data: seed tasks, generation, filtering, validation, traces (version 2, 3.4).

    seed tasks   the questions of a source whose answers are known
    generation   a teacher rewords each question and its plan (and each turn of the traces, if asked for), or plays
                 roles of the system itself
    filtering    what became trivial, flawed or wrong is dropped
    validation   the teacher must find each gold sub-answer in its article when asked the new sub-question
    traces       the system runs with the plan in the model's place, on a real search; what is trivial, flawed or wrong
                 there is dropped as well

Whatever is dropped is counted by its reason, which begins with the stage. What remains is learnt with every token
masked that the teacher did not write.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..assemble import EngineOptions, open_engine
from ..data.self_instruct import instruct
from ..data.trace_rewriter import TraceRewriter
from ..engine.chat_format import ChatFormat
from ..engine.interface import Engine, Sampling
from ..engine.torch.vocabulary import Vocabulary
from ..errors import ConfigError
from ..metrics import contains_answer
from ..record import Document, Episode, Question
from ..retrieval.search import Search
from ..systems.registry import get
from .conclusions import SEVERAL
from .recipe import InstructPart
from .teacher import Player, Traces, make_traces

RULES = "rules"
"""The teacher that needs no model."""
TITLE_HITS = 5
"""Passages searched for an article by its title."""


async def run_pipeline(
    part: InstructPart,
    system: str,
    questions: Sequence[Question],
    documents: Sequence[Document],
    search: Search,
    vocabulary: Vocabulary,
    chat: ChatFormat,
    *,
    teacher: Engine | None = None,
    **settings: Any,
) -> Traces:
    """Traces of one source, and the number of questions that each stage dropped, by reason.

    A `teacher` that is given serves other sources as well and stays open; otherwise the part's own is opened.
    """
    left_out: Counter[str] = Counter()
    seeds = [q for q in questions if q.answers]
    left_out["seed: no gold answer"] += len(questions) - len(seeds)
    _refuse_unknown_players(part, system)
    engine = teacher or open_teacher(part, seeds)
    player = Player(engine, frozenset(part.plays), part.attempts) if part.plays else None
    asked = {"concurrency": part.concurrency} if player else {}
    try:
        generated = await _generate(part, engine, seeds, Articles(documents, search), left_out)
        rewriter = TraceRewriter(engine, Sampling(max_tokens=part.max_tokens)) if part.turns else None
        made = await make_traces(
            system, generated, search, vocabulary, chat, rewriter=rewriter, player=player, **asked, **settings
        )
    finally:
        if teacher is None:
            await engine.close()
    left_out.update({f"trace: {_class(reason)}": count for reason, count in made.rejected.items()})
    if rewriter is not None:
        left_out.update({f"turn kept as it was: {reason}": n for reason, n in rewriter.refused.items()})
    kept: list[Episode] = []
    for episode in made.episodes:
        reason = trivial(episode)
        if reason:
            left_out[f"trace: {reason}"] += 1
        else:
            kept.append(episode)
    return Traces(kept, +left_out, made.prompts)


async def _generate(
    part: InstructPart,
    teacher: Engine,
    seeds: Sequence[Question],
    articles: Articles,
    left_out: Counter[str],
) -> list[Question]:
    """Questions and plans in the teacher's words; seeds without a plan do not change, nor do any if only turns are
    reworded."""
    if not part.plans:
        return list(seeds)
    gate = asyncio.Semaphore(part.concurrency)
    sampling = Sampling(max_tokens=part.max_tokens)

    async def one(seed: Question) -> list[Question]:
        if not seed.decomposition:
            return [seed]
        async with gate:
            made = await instruct(teacher, [seed], await articles.of(seed), sampling)
        left_out.update({f"generation: {reason}": count for reason, count in made.refused.items()})
        return made.kept

    return [question for found in await asyncio.gather(*map(one, seeds)) for question in found]


class Articles:
    """Supporting articles by title: those of the source, or what search finds under the title."""

    def __init__(self, documents: Sequence[Document], search: Search) -> None:
        self._texts = {d.title: d.text for d in documents}
        self._search = search

    async def of(self, question: Question) -> dict[str, str]:
        titles = list(dict.fromkeys(step.support for step in question.decomposition if step.support))
        missing = [title for title in titles if title not in self._texts]
        if missing:
            for title, hits in zip(missing, await self._search.retrieve(missing, TITLE_HITS), strict=True):
                texts = [hit.document.text for hit in hits if hit.document.title == title]
                self._texts[title] = "\n".join(texts)
        return {title: self._texts[title] for title in titles if self._texts[title]}


def _refuse_unknown_players(part: InstructPart, system: str) -> None:
    """Refuse misspelt roles: the gold plan would silently play them."""
    known = get(system).roles
    for role in part.plays:
        if role not in known:
            raise ConfigError(f"instruct.plays: no role {role!r} in {system}; there are {', '.join(known)}")


def open_teacher(part: InstructPart, seeds: Sequence[Question] = ()) -> Engine:
    """The part's teacher; rules need to know the seed tasks."""
    if part.teacher == RULES:
        from .rule_teacher import RuleTeacher

        return RuleTeacher(seeds)
    return open_engine(part.teacher, EngineOptions(adapter=part.adapter or None), part="teacher")


def trivial(episode: Episode) -> str:
    """Why nothing about searching can be learnt from a trace; empty if something can."""
    question = episode.question
    if not episode.usage.searches:
        return "trivial: nothing was searched for"
    longer = [a for a in question.answers if len(a) > 3]
    if question.type not in SEVERAL and any(contains_answer(question.question, a) for a in longer):
        return "trivial: the question holds its answer"
    return ""


def _class(reason: str) -> str:
    """The reason of a rejected trace, preceded by its class."""
    return f"wrong: {reason}" if reason.startswith("wrong") else f"flawed: {reason}"
