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
name what the short question at the end does not.
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
ADDED_TYPES = frozenset((*TYPES.values(), *TOLD.values()))
"""What comes besides the questions that were asked for."""
TRIES = 2
"""Times that the model puts a question otherwise, before it is given up."""
_WORD = re.compile(r"[^\W\d_]{4,}")


class Reworded(Record):
    """What became of a question, as the journal holds it."""

    original: str
    """The id of the question."""
    question: Question | None = None
    refused: str = ""
    """Why there is none."""
    longer: tuple[Question, ...] = ()
    """Questions of several steps that begin with it."""
    told: Question | None = None
    """The original, as somebody asks it who begins with their situation."""
    not_told: str = ""
    """Why there is none of these."""


class Rewriter(Writer):
    """Puts questions otherwise with one model."""

    async def reword(self, question: Question) -> Reworded:
        """The question in other words, and as somebody asks it who begins with their situation."""
        made, (told, reason) = await asyncio.gather(self._reworded(question), self._told(question))
        return replace(made, told=told, not_told=reason)

    async def _reworded(self, question: Question) -> Reworded:
        steps, seen = list(question.decomposition), list(question.context_ids)
        for number, (step, passage) in enumerate(zip(steps, question.supporting_ids, strict=True)):
            name = steps[number - 1].answer if number else ""
            asked = step.question.replace(f"#{number}", name)
            text, reason, found = await self._otherwise(asked, step.answer, self._index.get(passage))
            if text and (not number or len(text.split(name)) == 2):
                steps[number] = replace(step, question=text.replace(name, f"#{number}") if number else text)
                seen += (document.id for document in found)
            elif not number:
                return Reworded(question.id, refused=reason)
        joined, refused = await self._joined(question, tuple(steps))
        if refused:
            return Reworded(question.id, refused=refused)
        made = replace(
            question,
            id=f"{question.id}-otherwise",
            question=joined,
            type=TYPES[question.type],
            context_ids=tuple(dict.fromkeys(seen)),
            decomposition=tuple(steps),
            meta={**question.meta, "reworded": question.question},
        )
        return Reworded(question.id, made, longer=await self._longer(made) if question.type == "single" else ())

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

    async def _told(self, question: Question) -> tuple[Question | None, str]:
        """The question with a situation before it, or why there is none."""
        reason = ""
        for attempt in range(TRIES):
            key = ("told", question.question, attempt)
            reply = await self._ask(prompts.TELL, prompts.TELL_EXAMPLES, question.question, *key, tokens=90)
            text = " ".join(reply.split())
            reason = checks.told_flaw(text, question)
            found: list[Document] = []
            if not reason and question.type == "single":
                reason, found = await self._told_objection(text, question)
            if not reason:
                made = replace(
                    question,
                    id=f"{question.id}-told",
                    question=text,
                    type=TOLD[question.type],
                    context_ids=tuple(dict.fromkeys((*question.context_ids, *(d.id for d in found)))),
                    meta={**question.meta, "told": question.question},
                )
                return made, ""
        return None, reason

    async def _told_objection(self, text: str, question: Question) -> tuple[str, list[Document]]:
        passage = self._index.get(question.supporting_ids[0])
        found = await self._search(text)
        same = passage is not None and await self._answers(text, question.answers[0], passage, found)
        return ("" if same else DIFFERENT), found

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
    waiting = (q for one in written for q in one.questions if q.type in TYPES and q.id not in done)
    kept = 0
    with append_to_journal(out / JOURNAL) as add:

        async def work() -> None:
            nonlocal kept
            for question in waiting:
                made = await rewriter.reword(question)
                add(made)
                kept += (made.question is not None) + len(made.longer) + (made.told is not None)
                if progress:
                    progress(kept)

        await run_workers(work, workers, seconds)


def with_reworded(written: Sequence[Written], out: Path) -> list[Written]:
    """What was written, each passage with its questions that were put otherwise."""
    made = {one.original: one for one in read_journal(out / JOURNAL, Reworded)}
    return [_extended(one, made) for one in written] if made else list(written)


def _extended(one: Written, made: Mapping[str, Reworded]) -> Written:
    found = [(q.type, made[q.id]) for q in one.questions if q.id in made]
    refused = Counter(f"{TYPES[type]}: {each.refused}" for type, each in found if each.refused)
    refused.update(f"{TOLD[type]}: {each.not_told}" for type, each in found if each.not_told)
    more = [q for _, each in found for q in (each.question, *each.longer, each.told) if q is not None]
    return replace(one, questions=(*one.questions, *more), refused={**one.refused, **refused})
