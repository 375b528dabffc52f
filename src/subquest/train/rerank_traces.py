"""Traces of a reranker: does this passage help with this question? So one adapter can answer and rerank.

`systems = ["rerank"]` in a recipe's source turns every question into contexts with exactly the prompt of
`retrieval.rerank.judgement`, in which the model has said yes or no. Asked are the question itself and, where its
plan is known, the queries of its steps, as a planner or an executor would search for them.

Yes: the question's supporting passages; of a step those that state its answer. Only what search finds among its first
`REACH` counts: no reranker ever sees the others. No: passages that search puts next to them (by rank, and by links),
the distractors that a data set names and, for a step, what supports other steps; as many as there are of yes. A passage
that supports the question is never a no to it, nor is one with the title or text of such a passage; to a question that
one passage answers, and to a step, no passage that contains the answer is a no.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..engine.chat_format import ChatFormat
from ..engine.torch.vocabulary import Vocabulary
from ..errors import ConfigError
from ..metrics import contains_answer
from ..record import Document, Episode, Question, Segment, Trajectory
from ..retrieval.index import Index
from ..retrieval.rerank import NO, YES, judgement
from ..runtime.prompts import digest_of
from ..runtime.rendering import one_line
from .facts import Fact, facts_of, query, read

SYSTEM = "rerank"
REACH = 100
"""A supporting passage must be among this many results of a search; links are followed as deep."""
NEAR = 20
"""Passages to refuse are drawn from this many results: as many as are reranked."""
COUNTS = 8.0
"""Weight of a token of a judgement compared with one of other roles: a judgement is one word, others write hundreds
that they mostly copy."""
HELD_OUT = ("dev", "test", "eval", "validation")


class Query(NamedTuple):
    """A search query and the passages that help with it."""

    text: str
    helpful: tuple[Document, ...]
    answer: str = ""
    """What a single passage answers: others that state it are not refused."""


class Judgement(NamedTuple):
    query: str
    document: Document
    helps: bool


def judgements(
    questions: Sequence[Question], documents: Sequence[Document], search: Index, *, seed: int = 0
) -> Iterator[tuple[Question, list[Judgement]]]:
    """For each query of each question its passages with verdicts, as many of yes as of no, in mixed order.

    The same for the same arguments. A question that comes twice is given other passages to refuse.
    """
    library = Library(documents)
    seen: Counter[str] = Counter()
    for question in questions:
        if question.split in HELD_OUT:
            raise ConfigError(f"{question.id} is a question of the split {question.split}: nothing is learnt from it")
        seen[question.id] += 1
        draw = random.Random(f"{seed}/{question.id}/{seen[question.id]}")
        for asked in queries_of(question, library.support(question)):
            made = _judged(question, asked, library, search, draw)
            if made:
                yield question, made


def queries_of(question: Question, support: Sequence[Document]) -> list[Query]:
    """The question, and the steps of its plan that a supporting passage states."""
    stated = question.answers[0] if len(support) == 1 and question.answers else ""
    found = [Query(question.question, tuple(support), stated)]
    if len(question.decomposition) > 1:
        for fact in facts_of(question):
            states = tuple(d for d in support if _states(question, fact, d))
            if states and fact.answer:
                found.append(Query(query(fact, 0), states, fact.answer))
    return found


def _states(question: Question, fact: Fact, document: Document) -> bool:
    shown = f"Doc 1(Title: {one_line(document.title)}) {one_line(document.text)}"
    return read(question, fact, shown) is not None


class Library:
    """The passages of a source, by id and by title."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._by_id = {d.id: d for d in documents}

    def support(self, question: Question) -> list[Document]:
        return self.named(question.supporting_ids)

    def named(self, ids: Sequence[str]) -> list[Document]:
        return [self._by_id[i] for i in dict.fromkeys(ids) if i in self._by_id]


def _judged(question: Question, asked: Query, library: Library, search: Index, draw: random.Random) -> list[Judgement]:
    ranked = [hit.document for hit in search.search(asked.text, REACH)]
    linked = [hit.document for hit in search.search(asked.text, NEAR, mode="linked")]
    reached = {d.id for d in ranked}
    helpful = [d for d in asked.helpful if d.id in reached]
    support = library.support(question)
    titles, texts = {d.title for d in support}, {d.text for d in support}

    def refusable(document: Document) -> bool:
        if asked.answer:  # what supports another step does not help with this one, unless it says the same
            return document not in asked.helpful and not contains_answer(document.text, asked.answer)
        return document.title not in titles and document.text not in texts

    pools = [ranked[:NEAR], linked, support if asked.answer else library.named(question.context_ids)]
    draw.shuffle(pools)
    refused: list[Document] = []
    for pool in pools * len(helpful):
        if len(refused) == len(helpful):
            break
        open_ = [d for d in pool if refusable(d) and d not in refused]
        if open_:
            refused.append(draw.choice(open_))
    kept = helpful[: len(refused)]
    made = [Judgement(asked.text, d, True) for d in kept] + [Judgement(asked.text, d, False) for d in refused]
    draw.shuffle(made)
    return made


def episodes(
    made: Sequence[tuple[Question, list[Judgement]]], vocabulary: Vocabulary, chat: ChatFormat
) -> list[Episode]:
    """One episode a query, one context a passage, as engines open them."""
    return [
        Episode(
            id=f"{question.id}-{n}",
            question=question,
            system=SYSTEM,
            model="teacher",
            trajectories=tuple(_trajectory(j, f"{question.id}-{n}-{i}", vocabulary, chat) for i, j in enumerate(group)),
        )
        for n, (question, group) in enumerate(made)
    ]


def prompt_digests() -> dict[str, str]:
    """The prompt by its text, with nothing filled in."""
    messages = judgement("", Document("", "", ""))
    return {"judgement": digest_of("\n".join(message.content for message in messages))}


def _trajectory(judged: Judgement, name: str, vocabulary: Vocabulary, chat: ChatFormat) -> Trajectory:
    verdict = YES if judged.helps else NO
    ids = (*vocabulary.encode(verdict, False), *vocabulary.encode(chat.end, True))
    segments = (
        *vocabulary.prompt_segments(chat, judgement(judged.query, judged.document)),
        Segment("agent", verdict, ids, role="assistant"),
    )
    return Trajectory(name, "judge", judged.query, segments=segments)
