"""Single questions put otherwise, as somebody asks who does not know the words of the documents.

A model that writes about a passage uses the passage's words, even when it is told not to: 82% of the content words of
its questions about office papers stand in the passage. Of those that people ask about their own papers it is half.
Training on the former alone teaches a model to look for words, and it finds nothing where a document says the same with
others. So the writer is given each question once more, with the words to avoid. What it makes of it is kept only if few
words of the passage are left, a search still finds the passage, and the model still gives the same answer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from ..codec import Record
from ..data.journal import append_to_journal, read_journal, run_workers
from ..data.self_instruct import names_in
from ..record import Document, Question
from . import checks, prompts
from .writing import DIFFERENT, NOT_FOUND, Writer, Written

JOURNAL = "reworded.jsonl"
TYPE = "reworded"
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


class Rewriter(Writer):
    """Puts questions otherwise with one model."""

    async def reword(self, question: Question) -> Reworded:
        passage = self._index.get(question.supporting_ids[0])
        reason = NOT_FOUND
        for attempt in range(TRIES if passage else 0):
            assert passage is not None
            user = prompts.otherwise_prompt(question.question, words_to_avoid(question.question, passage))
            key = ("otherwise", question.question, attempt)
            text = await self._ask(prompts.OTHERWISE, prompts.OTHERWISE_EXAMPLES, user, *key, tokens=60)
            reason, found = await self._objection(text, question, passage)
            if not reason:
                step = replace(question.decomposition[0], question=text)
                seen = tuple(document.id for document in found)
                meta = {**question.meta, "reworded": question.question}
                made = replace(
                    question,
                    id=f"{question.id}-otherwise",
                    question=text,
                    type=TYPE,
                    context_ids=seen,
                    decomposition=(step,),
                    meta=meta,
                )
                return Reworded(question.id, made)
        return Reworded(question.id, refused=reason)

    async def _objection(self, text: str, question: Question, passage: Document) -> tuple[str, list[Document]]:
        answer = question.answers[0]
        reason = checks.reworded_flaw(text, question.question) or checks.question_flaw(text, answer, passage)
        # what it may not name is what made it close, so that it is vague is no flaw where a search finds its passage
        reason = "" if reason == checks.VAGUE else reason
        if reason or checks.shared_words(text, passage) > checks.FEW_WORDS:
            return reason or checks.CLOSE, []
        found = await self._search(text)
        if not self._unfound and all(document.id != passage.id for document in found):
            return NOT_FOUND, found
        return ("" if await self._answers(text, answer, passage, found) else DIFFERENT), found


def words_to_avoid(question: str, passage: Document) -> list[str]:
    """The words of a question that its passage has, names aside."""
    named = {word.casefold() for name in names_in(question) for word in _WORD.findall(name)}
    words = dict.fromkeys(word.casefold() for word in _WORD.findall(question))
    return [word for word in words if word not in named and checks.shared_words(word, passage)]


async def reword_questions(
    rewriter: Rewriter,
    written: Iterable[Written],
    out: Path,
    *,
    workers: int = 64,
    seconds: float | None = None,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Puts the single questions otherwise that the journal of the folder does not have yet."""
    done = {one.original for one in read_journal(out / JOURNAL, Reworded)}
    waiting = (q for one in written for q in one.questions if q.type == "single" and q.id not in done)
    kept = 0
    with append_to_journal(out / JOURNAL) as add:

        async def work() -> None:
            nonlocal kept
            for question in waiting:
                made = await rewriter.reword(question)
                add(made)
                kept += made.question is not None
                if progress:
                    progress(kept)

        await run_workers(work, workers, seconds)


def with_reworded(written: Sequence[Written], out: Path) -> list[Written]:
    """What was written, each passage with its questions that were put otherwise."""
    made = {one.original: one for one in read_journal(out / JOURNAL, Reworded)}
    return [_extended(one, made) for one in written] if made else list(written)


def _extended(one: Written, made: Mapping[str, Reworded]) -> Written:
    found = [made[q.id] for q in one.questions if q.id in made]
    refused = Counter(f"{TYPE}: {each.refused}" for each in found if each.refused)
    return replace(one, questions=(*one.questions, *_questions(found)), refused={**one.refused, **refused})


def _questions(found: Iterable[Reworded]) -> Iterator[Question]:
    return (each.question for each in found if each.question is not None)
