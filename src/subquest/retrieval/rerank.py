"""Rerankers: a slower, better judge reorders the first results of a search.

    search = Reranked(index, Pointwise(engine), depth=20)

*Pointwise*: a language model says for each passage whether it helps (yes or no); the score is the probability of yes
where the engine returns it, mixed with the score of the search. The embedded model is trained on exactly the prompt
written here (`systems = ["rerank"]` in a training recipe). *Listwise*: the model sees numbered passages and writes
their order, in windows that move from the end of the list to its front. *CrossEncoder*: a sentence-transformers model
that reads query and passage together. Each has a time budget: what was not judged in time counts as unknown, between
good and bad.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Sequence
from typing import Any, Protocol

from ..engine.interface import Choosing, Engine, Message, Sampling
from ..errors import EngineError, MissingDependency, SearchRefused, UsageError
from ..record import Document, Hit
from .analysis import Analysis
from .frameworks import Retrievers
from .search import Search
from .titles import linked_first

UNKNOWN = 0.5
TRUST = 0.7
"""How much of a pointwise score is the judge's, the rest is the search's: the best value for the shipped judge on the
dev questions of two sets (docs/performance.md). How to choose it for your own judge: docs/search.md."""
LONGEST = 1200
"""Characters of a passage that a pointwise judge reads: about 200 words, twice the length of our own passages."""
YES, NO = "yes", "no"

_POINTWISE = (
    "You judge search results. Does the passage contain information that helps to answer the question, "
    "or one step of it? Reply with one word: yes or no."
)
_LISTWISE = (
    "You order search results. Rank the numbered passages by how much they help to answer the question, the most "
    "helpful first. Reply with the numbers only, like this: [2] > [1] > [3]"
)


class Reranker(Protocol):
    """Puts hits in a new order and gives them new scores."""

    async def rerank(self, query: str, hits: Sequence[Hit]) -> list[Hit]: ...


class Reranked(Retrievers):
    """A search whose first `depth` results are put in order by a reranker."""

    def __init__(self, search: Search, reranker: Reranker, *, depth: int = 20) -> None:
        self._search = search
        self._reranker = reranker
        self._depth = depth

    @property
    def name(self) -> str:
        return f"{self._search.name}+rerank"

    async def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        found = await self._search.retrieve(queries, max(k, self._depth))
        try:
            ordered = await asyncio.gather(
                *(self._reranker.rerank(query, hits) for query, hits in zip(queries, found, strict=True))
            )
        except EngineError as error:  # of the judge, not of the caller
            raise SearchRefused(f"the reranker failed: {error}") from error
        return [hits[:k] for hits in ordered]


def in_order(hits: Sequence[Hit], scores: Sequence[float]) -> list[Hit]:
    """The hits sorted by new scores; equal ones keep their order."""
    pairs = sorted(zip(hits, scores, strict=True), key=lambda pair: -pair[1])
    return [Hit(hit.document, score) for hit, score in pairs]


def judgement(query: str, document: Document) -> list[Message]:
    """The prompt of a pointwise judge, in use and in training. The query comes first, so the part that all prompts
    share is processed once."""
    text = document.text if len(document.text) <= LONGEST else document.text[:LONGEST].rsplit(" ", 1)[0]
    question = f"Question: {query}\n\nPassage: {document.title}\n{text}\n\nHelpful (yes or no)?"
    return [Message("system", _POINTWISE), Message("user", question)]


class Pointwise:
    """Yes or no for each passage."""

    def __init__(self, engine: Engine, *, seconds: float = 30.0, at_once: int = 8, trust: float = TRUST) -> None:
        """`at_once` passages are judged together; `trust` from 0 (the search's order) to 1 (the judge's alone)."""
        if not 0 <= trust <= 1:
            raise UsageError(f"trust is {trust}; it goes from 0 (the search's order) to 1 (the judge's alone)")
        self._engine = engine
        self._seconds = seconds
        self._at_once = at_once
        self._trust = trust

    async def rerank(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        return in_order(hits, mixed([hit.score for hit in hits], await self.judge(query, hits), self._trust))

    async def judge(self, query: str, hits: Sequence[Hit]) -> list[float]:
        """The probability that each passage helps; UNKNOWN where time ran out."""
        scores = [UNKNOWN] * len(hits)
        prompts = [judgement(query, hit.document) for hit in hits]
        chooses = isinstance(self._engine, Choosing)  # it processes many prompts in one pass
        together, gate = (self._at_once if chooses else 1), asyncio.Semaphore(1 if chooses else self._at_once)

        async def judge(start: int) -> None:
            part = slice(start, start + together)
            async with gate:
                scores[part] = await self._judge(prompts[part])

        tasks = [asyncio.create_task(judge(start)) for start in range(0, len(hits), together)]
        if not tasks:
            return []
        done, late = await asyncio.wait(tasks, timeout=self._seconds)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        for task in done:
            task.result()
        return scores

    async def _judge(self, prompts: Sequence[Sequence[Message]]) -> list[float]:
        if isinstance(self._engine, Choosing):
            found = await self._engine.choose(prompts, (YES, YES.title(), NO, NO.title()))
            return [odds_of_yes(row) for row in found]
        (prompt,) = prompts
        session = await self._engine.open(prompt)
        try:
            turn = await session.generate(Sampling(max_tokens=3, temperature=0.0, logprobs=True))
        finally:
            await session.close()
        return [probability_of_yes(turn.text, turn.logprobs)]


def mixed(found: Sequence[float], judged: Sequence[float], trust: float) -> list[float]:
    """trust · judge + (1 - trust) · search, whose scores are brought to the range from 0 to 1."""
    low = min(found, default=0.0)
    span = (max(found, default=0.0) - low) or 1.0
    return [trust * j + (1 - trust) * (f - low) / span for f, j in zip(found, judged, strict=True)]


def odds_of_yes(logprobs: Sequence[float]) -> float:
    """Probability of yes against no, from the log-probabilities of yes, Yes, no and No."""
    top = max(logprobs)
    yes, yes_too, no, no_too = (math.exp(value - top) for value in logprobs)
    return (yes + yes_too) / (yes + yes_too + no + no_too)


def probability_of_yes(text: str, logprobs: Sequence[float] | None) -> float:
    """From the reply and the log-probability of its first token; UNKNOWN where it is neither yes nor no."""
    word = text.strip().lower()
    if not word.startswith((YES, NO)):
        return UNKNOWN
    sure = math.exp(logprobs[0]) if logprobs else 1.0
    return sure if word.startswith(YES) else 1.0 - sure


class Listwise:
    """The order of many passages at once, in windows from the back to the front."""

    def __init__(self, engine: Engine, *, window: int = 10, step: int = 5, seconds: float = 60.0) -> None:
        self._engine = engine
        self._window = window
        self._step = step
        self._seconds = seconds

    async def rerank(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        ordered = list(hits)
        end, deadline = len(ordered), time.monotonic() + self._seconds
        while len(ordered) > 1 and (left := deadline - time.monotonic()) > 0:
            start = max(0, end - self._window)
            try:
                async with asyncio.timeout(left):
                    order = await self._order(query, ordered[start:end])
            except TimeoutError:
                break
            ordered[start:end] = [ordered[start + i] for i in order]
            if start == 0:
                break
            end -= self._step
        return [Hit(hit.document, 1 / rank) for rank, hit in enumerate(ordered, start=1)]

    async def _order(self, query: str, hits: Sequence[Hit]) -> list[int]:
        lines = [f"[{i}] {hit.document.title}: {hit.document.text}" for i, hit in enumerate(hits, start=1)]
        question = f"Question: {query}\n\n" + "\n\n".join(lines) + f"\n\nOrder of all {len(hits)} passages:"
        session = await self._engine.open([Message("system", _LISTWISE), Message("user", question)])
        try:
            turn = await session.generate(Sampling(max_tokens=8 * len(hits), temperature=0.0))
        finally:
            await session.close()
        return parse_order(turn.text, len(hits))


def parse_order(text: str, count: int) -> list[int]:
    """Places from 0 in the order written; missing ones follow in their old order, invalid ones are ignored."""
    order: list[int] = []
    for number in re.findall(r"\[(\d{1,9})\]", text) or re.findall(r"(?<!\d)\d{1,9}(?!\d)", text):
        place = int(number) - 1
        if 0 <= place < count and place not in order:
            order.append(place)
    return order + [place for place in range(count) if place not in order]


class CrossEncoder:
    """A sentence-transformers cross-encoder."""

    BATCH = 8

    def __init__(self, model: str, *, seconds: float = 30.0) -> None:
        try:
            from sentence_transformers import CrossEncoder as Model
        except ImportError:
            raise MissingDependency("sentence-transformers", "sentence-transformers") from None
        self._model: Any = Model(model)
        self._seconds = seconds

    async def rerank(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        return in_order(hits, await asyncio.to_thread(self._scores, query, hits))

    def _scores(self, query: str, hits: Sequence[Hit]) -> list[float]:
        scores: list[float] = []
        deadline = time.monotonic() + self._seconds
        for start in range(0, len(hits), self.BATCH):
            if time.monotonic() > deadline:
                break
            pairs = [(query, f"{hit.document.title}\n{hit.document.text}") for hit in hits[start : start + self.BATCH]]
            scores += map(float, self._model.predict(pairs, show_progress_bar=False))
        middle = sum(scores) / len(scores) if scores else UNKNOWN
        return scores + [middle] * (len(hits) - len(scores))


class Similarity:
    """Passages by the cosine of their vectors to the query's; a passage is embedded once and remembered."""

    def __init__(self, embedder: Any) -> None:
        """`embedder` makes unit vectors of a list of texts (`metrics.embeddings.MiniLM`)."""
        self._embedder = embedder
        self._known: dict[str, Any] = {}

    async def rerank(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        if not hits:
            return []
        return in_order(hits, await asyncio.to_thread(self._scores, query, hits))

    def _scores(self, query: str, hits: Sequence[Hit]) -> list[float]:
        texts = [f"{hit.document.title}\n{hit.document.text}" for hit in hits]
        new = list(dict.fromkeys(text for text in texts if text not in self._known))
        vectors = self._embedder([query, *new])
        self._known |= dict(zip(new, vectors[1:], strict=True))
        return [float(self._known[text] @ vectors[0]) for text in texts]


class Linked:
    """The order of mode linked for any search: `Reranked(search, Linked(), depth=100)`."""

    def __init__(self, analysis: Analysis | None = None) -> None:
        self._analysis = analysis or Analysis()

    async def rerank(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        return linked_first(query, hits, self._analysis)
