"""Questions written by a model about passages, many passages at once; what is finished is kept in a journal.

For each passage the model writes questions with answers. Those that pass the checks are searched for, and the model
answers them from what the search finds: a question is kept if its passage is found and the answer is the same. One of
them becomes a yes-or-no question, with the right answer or with another value of the passage. Where an answer is a name
that another passage has too, the model asks about it there, and both questions are joined into one (as in MuSiQue): the
model turns the first into a description, which takes the place of the name in the second.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from ..codec import Record
from ..data.journal import append_to_journal, read_journal, run_workers
from ..data.self_instruct import ask, holds
from ..engine.interface import Engine, Sampling
from ..english import counted
from ..errors import UsageError
from ..metrics import normalize
from ..record import Document, Question, Step
from ..retrieval.index import Index
from ..worlds.random_stream import RandomStream, digest
from . import checks, prompts
from .passages import draw_passages, says_enough, subject_of

JOURNAL = "passages.jsonl"
DATASET = "questions"
FOUND = 10
"""Results of a search among which a question's passage has to be."""
SHOWN = 4
"""Documents that the model reads when it answers a question: its passage, and the best others."""
DRAWS = 2
"""Times that the model answers a question."""
CHAINS = 2
"""Questions of one passage from which longer ones are made."""
LONGEST_CHAIN = 3
"""Hops."""
LINKED = 3
"""Passages that are asked about the answer to a question, until one of them makes it a longer question."""
DESCRIPTIONS = 2
"""Times that the model describes what a question asks for, before it is given up."""
TRIED = 20
"""Passages after which a model that has written nothing of use is given up."""

NOT_FOUND = "the search does not find its passage"
DIFFERENT = "the model answers it differently"
REPEATED = "asked before"
NOT_DESCRIBED = "the model does not describe what the first question asks for"


class Written(Record):
    """The questions about one passage, as the journal holds them."""

    passage: str
    """Its id."""
    questions: tuple[Question, ...] = ()
    refused: Mapping[str, int] = {}
    """How many were refused, by type and reason."""


class Drafts:
    """The questions about one passage while they are being written."""

    def __init__(self, passage: Document) -> None:
        self.passage = passage
        self.questions: list[Question] = []
        self.refused: Counter[str] = Counter()

    def keep(self, question: Question) -> Question:
        self.questions.append(question)
        return question

    def asks(self, text: str) -> bool:
        return any(normalize(q.question) == normalize(text) for q in self.questions)

    @property
    def written(self) -> Written:
        """All so far, in an order that does not depend on which was finished first."""
        ordered = sorted(self.questions, key=lambda q: (q.hops or 0, q.question))
        named = tuple(replace(q, id=f"{self.passage.id}-{n}") for n, q in enumerate(ordered))
        return Written(self.passage.id, named, dict(self.refused))


class Writer:
    """Writes questions with one model about the passages of one index."""

    def __init__(
        self,
        engine: Engine,
        index: Index,
        *,
        seed: int = 0,
        concurrency: int = 64,
        agree: int = 1,
        unfound: bool = False,
    ) -> None:
        self._engine, self._index, self._seed = engine, index, seed
        self._agree, self._unfound = agree, unfound
        self._gate = asyncio.Semaphore(concurrency)

    async def write(self, drafts: Drafts) -> None:
        """All questions about one passage; what is finished is in `drafts` at any time."""
        singles = await self._singles(drafts, drafts.passage)
        starts = [q for q in singles if checks.is_entity(q.answers[0])][:CHAINS]
        await asyncio.gather(self._yes_no(drafts, singles), *(self._chain(drafts, start) for start in starts))

    async def _ask(
        self, system: str, examples: Sequence[str], user: str, *key: int | str, tokens: int, draw: bool = True
    ) -> str:
        """One reply; at random by the key, or the likeliest."""
        how = Sampling(max_tokens=tokens)
        if draw:
            how = replace(how, temperature=0.7, top_p=0.95, seed=digest(self._seed, *key) & 0x7FFFFFFF)
        async with self._gate:
            return (await ask(self._engine, system, user, how, examples)).strip()

    async def _singles(self, drafts: Drafts, passage: Document, name: str = "") -> list[Question]:
        """The questions about a passage that can be used; with a `name`, those that contain it."""
        stream = RandomStream(self._seed, passage.id, name, "write")
        subject = name or subject_of(passage, stream)
        user = prompts.write_prompt(passage, stream.pick(prompts.ASKERS), subject)
        key = ("write", passage.id, name)
        reply = await self._ask(prompts.WRITE, prompts.WRITE_EXAMPLES, user, *key, tokens=130 if name else 260)
        pairs = checks.read_pairs(reply)
        if not pairs:
            drafts.refused[f"single: {checks.MALFORMED}"] += 1
        made = await asyncio.gather(*(self._single(drafts, passage, pair, subject, name) for pair in pairs))
        return [question for question in made if question]

    async def _single(
        self, drafts: Drafts, passage: Document, pair: checks.Pair, subject: str, name: str
    ) -> Question | None:
        text, answer = pair.question, checks.as_written(pair.answer, passage.text)
        reason = checks.question_flaw(text, answer, passage, name)
        made = await self._mended(text, reason, subject, answer)
        if made and not checks.reworded_flaw(made, text, subject):
            text, reason = made, checks.question_flaw(made, answer, passage, name)
        reason = reason or (REPEATED if drafts.asks(text) else "")
        found: list[Document] = []
        if not reason:
            found = await self._search(text)
            # what names nothing is clear by itself only if nothing else comes before it
            wanted = found if checks.is_named(text) else found[:1]
            reason = "" if self._unfound or any(d.id == passage.id for d in wanted) else NOT_FOUND
        if not reason and not await self._answers(text, answer, passage, found):
            reason = DIFFERENT
        if reason:
            drafts.refused[f"single: {reason}"] += 1
            return None
        return drafts.keep(_single(text, answer, passage, found))

    async def _mended(self, text: str, reason: str, subject: str, answer: str) -> str:
        """A question in other words if it is a copy, with its subject if it is not clear; empty for other flaws."""
        if reason == checks.COPIED:
            return await self._ask(prompts.REWORD, prompts.REWORD_EXAMPLES, text, "reword", text, tokens=60)
        unclear = reason in (checks.DANGLING, checks.VAGUE, checks.UNNAMED)
        if not unclear or not subject or checks.gives_away(subject, answer):
            return ""
        user = f"Question: {text}\nAbout: {subject}"
        made = await self._ask(prompts.CLARIFY, prompts.CLARIFY_EXAMPLES, user, tokens=60, draw=False)
        return re.sub(r"\b(?:this|these) (?=\w)", "the ", made)  # what it points to is named now

    async def _answers(self, text: str, answer: str, passage: Document, found: Sequence[Document]) -> bool:
        """Whether the model gives the answer, from the passage among others, as often as it must."""
        others = [document for document in found if document.id != passage.id][: SHOWN - 1]
        documents = RandomStream(self._seed, text).shuffled([passage, *others])
        user, right = prompts.read_prompt(documents, text), 0
        for draw in range(DRAWS):
            if right >= self._agree or right + DRAWS - draw < self._agree:
                break
            given = await self._ask(prompts.READ, prompts.READ_EXAMPLES, user, text, draw, tokens=40, draw=draw > 0)
            right += checks.agrees(given, answer)
        return right >= self._agree

    async def _yes_no(self, drafts: Drafts, singles: Sequence[Question]) -> None:
        """One question becomes: is this the answer? Every second time it is another value of the passage."""
        stream = RandomStream(self._seed, drafts.passage.id, "yes or no")
        for single in stream.shuffled([q for q in singles if q.type == "single"]):
            answer = single.answers[0]
            others = checks.alternatives(answer, drafts.passage, single.question)
            if not others:
                continue
            truth = stream.chance(0.5)
            value = answer if truth else stream.pick(others)
            user = f"Question: {single.question}\nSuggestion: {value}"
            made = await self._ask(prompts.YES_NO, prompts.YES_NO_EXAMPLES, user, tokens=60, draw=False)
            reason = checks.yes_no_flaw(made, single.question, value)
            if reason and (described := await self._described(single)):
                made = f"Is {value} {described}?"
                reason = checks.yes_no_flaw(made, single.question, value)
            if not reason:
                told = ("yes" if truth else "no",)
                meta = {"operation": ["is", 1, value]}
                drafts.keep(replace(single, question=made, answers=told, type="yes-no", meta=meta))
                return
            drafts.refused[f"yes-no: {reason}"] += 1

    async def _described(self, question: Question) -> str:
        """What a question asks for, as a description; empty if the model does not find one."""
        for attempt in range(DESCRIPTIONS):
            asked, key = question.question, ("describe", question.question, attempt)
            reply = await self._ask(
                prompts.DESCRIBE, prompts.DESCRIBE_EXAMPLES, asked, *key, tokens=60, draw=attempt > 0
            )
            if described := checks.read_description(reply, question):
                return described
        return ""

    async def _chain(self, drafts: Drafts, first: Question) -> None:
        """A question with one hop more: what another passage says about the answer."""
        name = first.answers[0]
        passages = await self._linked(name, first.supporting_ids)
        if not passages:
            return
        described = await self._described(first)
        if not described:
            drafts.refused[f"bridge: {NOT_DESCRIBED}"] += 1
            return
        for passage in passages:
            for second in await self._singles(drafts, passage, name):
                text = checks.join(second.question, name, described)
                if reason := checks.joined_flaw(text, first, second.question, name, second.answers[0]):
                    drafts.refused[f"bridge: {reason}"] += 1
                    continue
                joined = drafts.keep(_joined(text, first, second, name))
                if checks.is_entity(joined.answers[0]) and len(joined.decomposition) < LONGEST_CHAIN:
                    await self._chain(drafts, joined)
                return

    async def _linked(self, name: str, used: Sequence[str]) -> list[Document]:
        """Other passages that have the name, the best first."""
        found = [document for document in await self._search(name) if document.id not in used]
        return [d for d in found if says_enough(d) and holds(d.text, name)][:LINKED]

    async def _search(self, query: str) -> list[Document]:
        return [hit.document for hit in (await self._index.retrieve([query], FOUND))[0]]


def _single(text: str, answer: str, passage: Document, found: Sequence[Document]) -> Question:
    items = checks.items_of(answer)
    answers = (answer, f"{', '.join(items[:-1])} and {items[-1]}") if items else (answer,)
    return Question(
        "",
        text,
        answers,
        DATASET,
        hops=1,
        type="list" if items else "single",
        supporting_titles=(passage.title,),
        supporting_ids=(passage.id,),
        context_ids=tuple(document.id for document in found),
        decomposition=(Step(text, answer, passage.title),),
        meta={"items": {"1": items}} if items else {},
    )


def _joined(text: str, first: Question, second: Question, name: str) -> Question:
    number = len(first.decomposition)
    (step,) = second.decomposition
    meta = {"items": {str(number + 1): second.meta["items"]["1"]}} if "items" in second.meta else {}
    return replace(
        second,
        question=text,
        hops=number + 1,
        type="bridge",
        supporting_titles=tuple(dict.fromkeys((*first.supporting_titles, *second.supporting_titles))),
        supporting_ids=(*first.supporting_ids, *second.supporting_ids),
        context_ids=tuple(dict.fromkeys((*first.context_ids, *second.context_ids))),
        decomposition=(*first.decomposition, replace(step, question=step.question.replace(name, f"#{number}"))),
        meta=meta,
    )


class _Enough(Exception):
    """There are as many questions as were wanted."""


async def write_questions(
    writer: Writer,
    index: Index,
    out: Path,
    count: int,
    *,
    seed: int = 0,
    workers: int = 64,
    seconds: float | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[Written]:
    """Asks about passages until the journal of a folder has `count` questions; all that it then has.

    Passages that the journal has are not asked about again. After `seconds`, what is finished is kept.
    """
    done = {w.passage: w for w in read_journal(out / JOURNAL, Written)}
    order = draw_passages(index.documents(), seed)
    new = [id for id in order if id not in done]
    first, waiting = new[:TRIED], iter(new)
    kept = sum(len(w.questions) for w in done.values())
    with append_to_journal(out / JOURNAL) as add:

        async def work() -> None:
            nonlocal kept
            for id in waiting:
                passage = index.get(id)
                if passage is None:
                    continue
                drafts = Drafts(passage)
                try:
                    await writer.write(drafts)
                except asyncio.CancelledError:
                    if drafts.questions:
                        add(drafts.written)
                        done[id] = drafts.written
                    raise
                made = drafts.written
                add(made)
                done[id] = made
                kept += len(made.questions)
                if progress:
                    progress(kept)
                if not kept and len(first) == TRIED and done.keys() >= set(first):
                    raise UsageError(_useless([done[one] for one in first]))
                if kept >= count:
                    raise _Enough

        if kept < count:
            with suppress(_Enough):
                await run_workers(work, workers, seconds)
    return [done[id] for id in order if id in done]


def _useless(written: Sequence[Written]) -> str:
    reasons = Counter[str]()
    for one in written:
        reasons.update(one.refused)
    told = ", ".join(f"{reason.partition(': ')[2]} ({n})" for reason, n in reasons.most_common(3))
    return (
        f"the model wrote no question of use about {counted(len(written), 'passage')}: {told or 'it wrote none'}; "
        "try a larger instruct model, or look at what it writes with: subquest ask --system direct"
    )


def totals(written: Sequence[Written]) -> tuple[Counter[str], Counter[str]]:
    """What was kept, by type and hops, and refused."""
    kept: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    for one in written:
        kept.update(f"{q.type}, {q.hops} hops" if q.type == "bridge" else q.type for q in one.questions)
        refused.update(one.refused)
    return kept, refused
