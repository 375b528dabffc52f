"""Questions put otherwise, as somebody asks who does not know the words of the documents.

A model that writes about a passage uses the passage's words, even when it is told not to: 82% of the content words of
its questions about office papers stand in the passage (docs/evaluation.md). Of those that people ask about their own
papers it is half. Training on the former alone teaches a model to look for words, and it finds nothing where a document
says the same with others. So the writer is given each question once more, with the words to avoid. What it makes of it
is kept only if few words of the passage are left, a search still finds the passage, and the model still gives the same
answer.

A question of several steps is put together again from its steps: the first one must be put otherwise, later ones are
where they can be. And a single question that has been put otherwise is continued where its answer is a name.

People also begin with their situation and then ask (`told`). The plan stays that of the question they mean: its tasks
name what the short question at the end does not. And they ask for two things at once (`double`): for what two questions
about one passage ask, or for what a question of several steps finds on the way as well as for its answer.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from ..codec import Record
from ..data.journal import append_to_journal, read_journal, run_workers
from ..data.self_instruct import names_in
from ..record import Document, Question, Step
from . import checks, prompts
from .writing import DIFFERENT, NOT_DESCRIBED, NOT_FOUND, Drafts, Writer, Written

JOURNAL = "reworded.jsonl"
TYPES = {"single": "reworded", "bridge": "reworded-bridge"}
"""The type of what is made of a question, by the type of the question."""
TOLD = {"single": "told", "bridge": "told-bridge"}
"""The type of a question that begins with a situation, in the same way."""
DOUBLE = "double"
"""The type of a question that asks for two things."""
ADDED_TYPES = frozenset((*TYPES.values(), *TOLD.values(), DOUBLE))
"""What comes besides the questions that were asked for."""
UNTOLD = "told back, it is another question"
TRIES = 2
"""Times that the model puts a question otherwise, before it is given up."""
_WORD = re.compile(r"[^\W\d_]{4,}")
Made = tuple[tuple[Question, ...], str]
"""What was made of a question, or why nothing was."""


class Reworded(Record):
    """What became of a question, as the journal holds it."""

    original: str
    """The id of the question."""
    questions: tuple[Question, ...] = ()
    refused: Mapping[str, str] = {}
    """By type of question, why there is none."""


class Rewriter(Writer):
    """Puts questions otherwise with one model."""

    async def reword(self, question: Question, other: Question | None = None) -> Reworded:
        """The question in other words, as somebody asks it who begins with their situation, and together with another
        one about the same passage, or with its own first step."""
        types = (TYPES[question.type], TOLD[question.type], DOUBLE)
        made = await asyncio.gather(self._reworded(question), self._told(question), self._doubled(question, other))
        refused = {type: reason for type, (_, reason) in zip(types, made, strict=True) if reason}
        return Reworded(question.id, tuple(q for questions, _ in made for q in questions), refused)

    async def _reworded(self, question: Question) -> Made:
        steps, seen = list(question.decomposition), list(question.context_ids)
        for number, (step, passage) in enumerate(zip(steps, question.supporting_ids, strict=True)):
            name = steps[number - 1].answer if number else ""
            asked = step.question.replace(f"#{number}", name)
            text, reason, found = await self._otherwise(asked, step.answer, self._index.get(passage))
            if text and (not number or len(text.split(name)) == 2):
                steps[number] = replace(step, question=text.replace(name, f"#{number}") if number else text)
                seen += (document.id for document in found)
            elif not number:
                return (), reason
        joined, refused = await self._joined(question, tuple(steps))
        if refused:
            return (), refused
        made = replace(
            question,
            id=f"{question.id}-otherwise",
            question=joined,
            type=TYPES[question.type],
            context_ids=tuple(dict.fromkeys(seen)),
            decomposition=tuple(steps),
            meta={**question.meta, "reworded": question.question},
        )
        return (made, *(await self._longer(made) if question.type == "single" else ())), ""

    async def _longer(self, made: Question) -> tuple[Question, ...]:
        """Questions of several steps that begin with a single one, where its answer is a name."""
        passage = self._index.get(made.supporting_ids[0])
        if passage is None or not checks.is_entity(made.answers[0]):
            return ()
        drafts = Drafts(passage)
        await self._chain(drafts, made)
        found = [q for q in drafts.written.questions if q.type == "bridge"]
        return tuple(
            replace(q, id=f"{made.id}-{n}", type=TYPES["bridge"], meta={**q.meta, "reworded": made.meta["reworded"]})
            for n, q in enumerate(found)
        )

    async def _told(self, question: Question) -> Made:
        """The question with a situation before it, or why there is none."""
        reason = ""
        for attempt in range(TRIES):
            key = ("told", question.question, attempt)
            reply = await self._ask(prompts.TELL, prompts.TELL_EXAMPLES, question.question, *key, tokens=90)
            text = " ".join(reply.split())
            reason = checks.told_flaw(text, question)
            found: list[Document] = []
            if not reason:
                reason, found = await self._told_objection(text, question, attempt)
            if not reason:
                made = replace(
                    question,
                    id=f"{question.id}-told",
                    question=text,
                    type=TOLD[question.type],
                    context_ids=tuple(dict.fromkeys((*question.context_ids, *(d.id for d in found)))),
                    meta={**question.meta, "told": question.question},
                )
                return (made,), ""
        return (), reason

    async def _told_objection(self, text: str, question: Question, attempt: int) -> tuple[str, list[Document]]:
        """Why the model takes it for another question: a single one has another answer, a longer one is told back
        otherwise."""
        if question.type != "single":
            key = ("untold", question.question, attempt)
            asked = await self._ask(prompts.UNTELL, prompts.UNTELL_EXAMPLES, text, *key, tokens=80)
            return ("" if checks.says_the_same(asked, question.question) else UNTOLD), []
        passage = self._index.get(question.supporting_ids[0])
        found = await self._search(text)
        same = passage is not None and await self._answers(text, question.answers[0], passage, found)
        return ("" if same else DIFFERENT), found

    async def _doubled(self, question: Question, other: Question | None) -> Made:
        """A question for two things, or why there is none; neither, where there is nothing to ask besides."""
        first, second, name = question, other, ""
        if question.type == "bridge" and len(question.decomposition) == 2:
            step, then = question.decomposition
            name = step.answer
            first = replace(question, question=step.question, answers=(name,))
            second = replace(question, question=then.question.replace("#1", name), answers=(then.answer,))
        if second is None:
            return (), ""
        reason = ""
        for attempt in range(TRIES):
            user = prompts.double_prompt(first.question, checks.pointing_back(second.question, name, first.question))
            key = ("double", first.question, second.question, attempt)
            text = await self._ask(prompts.DOUBLE, prompts.DOUBLE_EXAMPLES, user, *key, tokens=80)
            reason = checks.double_flaw(text, first, second, name)
            if not reason:
                return (_double(text, question, first, second, name),), ""
        return (), reason

    async def _joined(self, question: Question, steps: tuple[Step, ...]) -> tuple[str, str]:
        """The question that steps make together, or why they make none."""
        text = steps[0].question
        for number, step in enumerate(steps[1:], 1):
            first = replace(question, question=text, decomposition=steps[:number])
            name = steps[number - 1].answer
            if not (described := await self._described(first)):
                return "", NOT_DESCRIBED
            second = step.question.replace(f"#{number}", name)
            text = checks.join(second, name, described)
            if flaw := checks.joined_flaw(text, first, second, name, step.answer):
                return "", flaw
        return text, ""

    async def _otherwise(self, asked: str, answer: str, passage: Document | None) -> tuple[str, str, list[Document]]:
        """A question about a passage in other words and what a search for it finds; or why there is none."""
        reason = NOT_FOUND
        for attempt in range(TRIES if passage else 0):
            assert passage is not None
            user = prompts.otherwise_prompt(asked, words_to_avoid(asked, passage))
            key = ("otherwise", asked, attempt)
            text = await self._ask(prompts.OTHERWISE, prompts.OTHERWISE_EXAMPLES, user, *key, tokens=60)
            reason, found = await self._objection(text, asked, answer, passage)
            if not reason:
                return text, "", found
        return "", reason, []

    async def _objection(self, text: str, asked: str, answer: str, passage: Document) -> tuple[str, list[Document]]:
        reason = checks.reworded_flaw(text, asked) or checks.question_flaw(text, answer, passage)
        # what it may not name is what made it close, so that it is vague is no flaw where a search finds its passage
        reason = "" if reason == checks.VAGUE else reason
        if reason or checks.shared_words(_without_names(text), passage) > checks.FEW_WORDS:
            return reason or checks.CLOSE, []
        found = await self._search(text)
        if not self._unfound and all(document.id != passage.id for document in found):
            return NOT_FOUND, found
        return ("" if await self._answers(text, answer, passage, found) else DIFFERENT), found


def _double(text: str, question: Question, first: Question, second: Question, name: str) -> Question:
    """A question for two things, with both answers; with a `name` they are those of the question's two steps."""
    a, b = first.answers[0], second.answers[0]
    made = replace(
        question,
        id=f"{question.id}-double",
        question=text,
        answers=(f"{a}, {b}", f"{a} and {b}"),
        hops=2,
        type=DOUBLE,
        meta={**question.meta, "double": question.question},
    )
    if name:
        return made
    return replace(
        made,
        supporting_ids=(*first.supporting_ids, *second.supporting_ids),
        context_ids=tuple(dict.fromkeys((*first.context_ids, *second.context_ids))),
        decomposition=(*first.decomposition, *second.decomposition),
    )


def words_to_avoid(question: str, passage: Document) -> list[str]:
    """The words of a question that its passage has, names aside."""
    words = dict.fromkeys(word.casefold() for word in _WORD.findall(_without_names(question)))
    return [word for word in words if checks.shared_words(word, passage)]


def _without_names(question: str) -> str:
    named = {word.casefold() for name in names_in(question) for word in _WORD.findall(name)}
    return _WORD.sub(lambda word: " " if word[0].casefold() in named else word[0], question)


async def reword_questions(
    rewriter: Rewriter,
    written: Iterable[Written],
    out: Path,
    *,
    workers: int = 64,
    seconds: float | None = None,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Puts the questions otherwise that the journal of the folder does not have yet."""
    done = {one.original for one in read_journal(out / JOURNAL, Reworded)}
    waiting = (pair for one in written for pair in _with_others(one) if pair[0].id not in done)
    kept = 0
    with append_to_journal(out / JOURNAL) as add:

        async def work() -> None:
            nonlocal kept
            for question, other in waiting:
                made = await rewriter.reword(question, other)
                add(made)
                kept += len(made.questions)
                if progress:
                    progress(kept)

        await run_workers(work, workers, seconds)


def with_reworded(written: Sequence[Written], out: Path) -> list[Written]:
    """What was written, each passage with its questions that were put otherwise."""
    made = {one.original: one for one in read_journal(out / JOURNAL, Reworded)}
    return [_extended(one, made) for one in written] if made else list(written)


def _with_others(one: Written) -> list[tuple[Question, Question | None]]:
    """What can be put otherwise; every second single question about a passage with the next one about it."""
    others: dict[str, Question] = {}
    waiting: dict[str, Question] = {}
    for question in one.questions:
        if question.type == "single":
            if first := waiting.pop(question.supporting_ids[0], None):
                others[first.id] = question
            else:
                waiting[question.supporting_ids[0]] = question
    return [(q, others.get(q.id)) for q in one.questions if q.type in TYPES]


def _extended(one: Written, made: Mapping[str, Reworded]) -> Written:
    found = [made[q.id] for q in one.questions if q.id in made]
    refused = Counter(f"{type}: {reason}" for each in found for type, reason in each.refused.items())
    more = [q for each in found for q in each.questions]
    return replace(one, questions=(*one.questions, *more), refused={**one.refused, **refused})
