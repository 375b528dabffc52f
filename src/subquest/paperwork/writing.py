"""Organisations written by a model, many at once; what is finished is kept, so that a run can be interrupted.

For each organisation the model proposes the words of its trade, writes its papers, reads each paper again and says what
it states, and words the questions. Papers that lose or add a fact, or that the reader understands differently, are
written once more and then left out. A question that the model does not word well keeps its plain wording.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from ..codec import Record
from ..data.journal import append_to_journal, read_journal, run_workers
from ..data.self_instruct import ANSWER, mentions, same_answer
from ..engine.interface import Engine, Generation, Message, Sampling
from ..errors import UsageError
from ..worlds.random_stream import RandomStream, digest
from . import fact_check
from .organisation import Fact, Organisation, Thing, Vocabulary, draw, sector_of
from .papers import SYSTEM, Paper, finished, page, plan_papers, prompt, tone, unfenced
from .questions import Asked, Drafter, Facts
from .wording import MALFORMED, wording_flaw

JOURNAL = "organisations.jsonl"
QUESTIONS = {
    "single": 5, "bridge-2": 7, "bridge-3": 4, "bridge-4": 2, "comparison": 2, "yes-no": 2, "same": 1, "sum": 1,
    "difference": 1, "list": 1, "count": 1, "unanswerable": 4,
}  # fmt: skip
"""Questions of each type that are drawn for an organisation."""
ATTEMPTS = 3
"""Times that a paper is written, or a question worded, before it is given up."""
AT_ONCE = 32
"""Calls to the model that one organisation makes at once, about."""

WORDS = """You invent the words of an organisation's trade, as five lines: six teams, eight job titles, eight kinds of \
equipment it owns, six services it buys from other firms, six topics of its internal policies. Items have one to three \
words, no numbers, and commas between them."""
WORDS_EXAMPLE = (
    "The organisation is a lighthouse museum.",
    """teams: Lamp Room, Visitor Desk, Boat Crew, Archive, School Visits, Shop
jobs: lamp keeper, guide, archivist, boat pilot, cashier, carpenter, educator, night guard
equipment: fog horn, rowing boat, display case, lens crane, ticket machine, dehumidifier, projector, handcart
services: window cleaning, boat repair, printing, security patrols, catering, rope inspection
topics: lone working, lending of exhibits, weather warnings, key handling, volunteer expenses, photography""",
)
REWORD = """You word questions as a colleague in an office would ask them. Write the question in other, natural words. \
Keep every name and number in it exactly as it is. Ask for the same thing. Do not answer it. Reply with the question \
only."""
REWORD_EXAMPLES = (
    "What is the telephone extension of the line manager of Ada Quill?",
    "I need to ring the person Ada Quill reports to. What's their extension?",
    "Which has the earlier value for 'bought': XYZ-E1 or the saw kept at Pell Yard?",
    "Which did we buy first, XYZ-E1 or the saw at Pell Yard?",
)
"""Questions and wordings, in turn."""


class Written(Record):
    """One organisation with its papers and questions, as the journal holds it."""

    organisation: Organisation
    papers: tuple[Paper, ...]
    questions: tuple[Asked, ...]
    kept: Mapping[str, int] = {}
    """How many papers and questions were kept, by kind."""
    refused: Mapping[str, int] = {}
    """How many attempts were refused, by kind and reason."""


class Writer:
    """Writes organisations with one model."""

    def __init__(self, engine: Engine, seed: int, *, concurrency: int = 64) -> None:
        self._engine, self._seed = engine, seed
        self._gate = asyncio.Semaphore(concurrency)

    async def write(self, number: int) -> Written:
        """One organisation; the same seed and number give the same facts."""
        refused: Counter[str] = Counter()
        kept: Counter[str] = Counter()
        organisation = draw(self._seed, number, await self._vocabulary(number))
        planned = plan_papers(organisation)
        papers = [p for p in await asyncio.gather(*(self._paper(organisation, p, refused) for p in planned)) if p]
        kept.update(f"paper: {p.kind}" for p in papers)
        facts = Facts(organisation, [f for p in papers for f in p.facts])
        drafts = list(Drafter(facts, RandomStream(self._seed, number, "questions")).questions(QUESTIONS))
        questions = await asyncio.gather(*(self._question(facts, q, n, refused) for n, q in enumerate(drafts)))
        kept.update(f"question: {q.type}{'' if q.plain else ' (plain)'}" for q in questions)
        return Written(organisation, tuple(papers), tuple(questions), dict(kept), dict(refused))

    async def _ask(
        self, system: str, user: str, *, tokens: int, seed: int | None = None, examples: Sequence[str] = ()
    ) -> Generation:
        """One reply; at random with a seed, else the likeliest. `examples` are earlier turns: what was asked, what was
        replied, and so on."""
        turns = [Message("assistant" if n % 2 else "user", text) for n, text in enumerate((*examples, user))]
        how = Sampling(max_tokens=tokens)
        if seed is not None:
            how = replace(how, temperature=0.8, top_p=0.95, seed=seed & 0x7FFFFFFF)
        async with self._gate:
            session = await self._engine.open([Message("system", system), *turns])
            try:
                return await session.generate(how)
            finally:
                await session.close()

    async def _vocabulary(self, number: int) -> Vocabulary:
        """The model's words where they can be used, the general ones elsewhere."""
        user = f"The organisation is {sector_of(self._seed, number)}."
        key = digest(self._seed, number, "words")
        reply = await self._ask(WORDS, user, tokens=220, seed=key, examples=WORDS_EXAMPLE)
        return parse_vocabulary(reply.text)

    async def _paper(self, organisation: Organisation, paper: Paper, refused: Counter[str]) -> Paper | None:
        if paper.text:
            return await self._with_introduction(organisation, paper, refused)
        things = [t for t in (*organisation.things, *organisation.strangers) if t.kind not in ("team", "town")]
        names = [*paper.names, organisation.name]
        first = prompt(organisation, paper, tone(RandomStream(self._seed, organisation.number, paper.file)))
        asked, before = first, tuple[str, ...]()
        for attempt in range(ATTEMPTS):
            key = digest(self._seed, organisation.number, paper.file, attempt)
            reply = await self._ask(SYSTEM, asked, tokens=420, seed=key, examples=before)
            text, reason = checked_paper(paper, reply, things, names)
            if not reason and not all(await asyncio.gather(*(self._reads(text, fact) for fact in paper.facts))):
                reason = fact_check.DIFFERENT
            if not reason:
                return replace(paper, text=text)
            refused[f"paper: {paper.kind}: {reason}"] += 1
            asked, before = f"{advice(reason, text, paper)} Write the whole paper again.", (first, reply.text)
        return None

    async def _with_introduction(self, organisation: Organisation, paper: Paper, refused: Counter[str]) -> Paper:
        """A table with a few words of the model above it; without them where they do not pass."""
        if paper.form == "csv":
            return paper
        user = (
            f"{organisation.name} is {organisation.sector}. Write one or two sentences to stand above its table "
            f"'{paper.title}': what it is for, and whom to tell of mistakes. No names, numbers or dates."
        )
        reply = await self._ask(SYSTEM, user, tokens=90, seed=digest(self._seed, organisation.number, paper.file))
        words = " ".join(unfenced(reply.text).split())
        if reply.finish == "length" or not words or re.search(r"[\d\[\]<>|#{}*]", words):
            refused[f"paper: {paper.kind}: introduction"] += 1
            words = ""
        if paper.form == "md":
            return replace(paper, text=f"# {paper.title}\n\n{words}\n\n{paper.text}")
        return replace(paper, text=page(paper.title, f"<h1>{paper.title}</h1>\n<p>{words}</p>\n{paper.text}"))

    async def _reads(self, text: str, fact: Fact) -> bool:
        """Whether the model, asked for the fact, finds its value in the paper."""
        question = fact.about.question.format(s=fact.subject)
        return await self._answers(f"Article:\n{text}\nQuestion: {question}", fact.value)

    async def _answers(self, user: str, value: str) -> bool:
        reply = await self._ask(ANSWER, user, tokens=40)
        found = re.search(r"<answer>(.*?)(?:</answer>|$)", reply.text, re.DOTALL)
        given = (found[1] if found else reply.text).strip()
        return same_answer(given, value) or (len(given) < len(value) + 40 and mentions(given, value.strip("£$€")))

    async def _question(self, facts: Facts, asked: Asked, number: int, refused: Counter[str]) -> Asked:
        for attempt in range(ATTEMPTS - 1):
            key = digest(self._seed, facts.organisation.number, "question", number, attempt)
            reply = await self._ask(REWORD, asked.text, tokens=90, seed=key, examples=REWORD_EXAMPLES)
            made = " ".join(unfenced(reply.text).strip().strip('"').split())
            reason = MALFORMED if reply.finish == "length" else wording_flaw(made, asked, facts)
            if not reason and not await self._understood(made, asked, facts):
                reason = fact_check.DIFFERENT
            if not reason:
                return replace(asked, text=made, plain=asked.text)
            refused[f"question: {asked.type}: {reason}"] += 1
        return asked

    async def _understood(self, text: str, asked: Asked, facts: Facts) -> bool:
        """Whether the model answers the wording rightly from the facts it rests on, among others of the same things.

        Not where the answer is a list or must be computed: a small model does that badly, however clear the question.
        """
        if asked.operation[0] not in ("last", "pick", "order", "same") or asked.items or asked.type == "unanswerable":
            return True
        needed = [key for keys in asked.needs for key in keys]
        subjects = {subject for subject, _ in needed}
        others = [key for key in facts.stated if key[0] in subjects and key not in needed][: 2 * len(subjects)]
        shown = sorted(facts.stated[key].statement for key in dict.fromkeys((*needed, *others)))
        return await self._answers(f"Article:\n{chr(10).join(shown)}\nQuestion: {text}", asked.answers[0])


def checked_paper(paper: Paper, reply: Generation, things: Sequence[Thing], names: Sequence[str]) -> tuple[str, str]:
    """A reply as the text of a paper, and what is wrong with it.

    A reply that was cut off ends with its last whole paragraph, and sentences that add something are left out.
    """
    written = reply.text.rpartition("\n\n")[0] if reply.finish == "length" else reply.text
    text = finished(paper, written)
    reason = fact_check.flaw(text, paper.facts, known=things, allowed=names, topic=paper.topic)
    if reason in (fact_check.NUMBER, fact_check.NAME, fact_check.PLACEHOLDER):
        text = fact_check.pruned(text, paper.facts, known=things, allowed=names, topic=paper.topic)
        reason = fact_check.flaw(text, paper.facts, known=things, allowed=names, topic=paper.topic)
    return text, reason


def advice(reason: str, text: str, paper: Paper) -> str:
    """What is told to the model about a paper that was refused."""
    if reason == fact_check.LOST:
        lost = " ".join(f.statement for f in fact_check.missing(text, paper.facts)) or f"Name {paper.topic}."
        return f"These facts are missing, or not exactly as they were given: {lost}"
    if reason == fact_check.SHORT:
        return "It is too short: add two or three sentences."
    if reason in (fact_check.APART, fact_check.MADE_UP, fact_check.DIFFERENT):
        return "Say each fact in one clear sentence that names whom or what it is about."
    return "It holds a name, number or date that was not given, or a placeholder: leave that out."


def parse_vocabulary(text: str) -> Vocabulary:
    """The lists of a reply that are long enough, and the general ones in place of the others."""
    found: dict[str, tuple[str, ...]] = {}
    least = {"teams": 4, "jobs": 4, "equipment": 4, "services": 2, "topics": 2}
    for line in text.splitlines():
        name, _, items = line.strip(" -*").partition(":")
        name = name.strip(" *").lower()
        if name not in least or name in found:
            continue
        given = [re.sub(r"\s+", " ", item).strip(" .*") for item in re.split(r"[,;]", items)]
        given = [g.removesuffix(" Team").removesuffix(" team") for g in given]
        given = [g for g in given if not fact_check.SMALL_NUMBERS & set(g.lower().split())]
        good = [g for g in given if re.fullmatch(r"[A-Za-z][A-Za-z'&-]*(?: [A-Za-z&'-]+){0,2}", g)]
        kept = dict.fromkeys(g.title() if name == "teams" else g.lower() for g in good)
        # one that stands in another could not be told from it
        alone = tuple(g for g in kept if not any(g != other and g in other for other in kept))
        if len(alone) >= least[name]:
            found[name] = alone
    return Vocabulary(**found)


async def write_organisations(
    engine: Engine,
    out: Path,
    count: int,
    *,
    seed: int = 0,
    concurrency: int = 64,
    seconds: float | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[Written]:
    """Writes organisations 0 to `count` - 1 into the journal of a folder, those that it lacks; all that it then has.

    After `seconds` no more are begun, and those under way are left out.
    """
    journal = out / JOURNAL
    done = {w.organisation.number: w for w in read_journal(journal, Written)}
    if any(w.organisation.seed != seed for w in done.values()):
        raise UsageError(f"{journal} was written with another seed; use it, or another folder")
    writer = Writer(engine, seed, concurrency=concurrency)
    waiting = iter([n for n in range(count) if n not in done])
    with append_to_journal(journal) as add:

        async def work() -> None:
            for number in waiting:
                made = await writer.write(number)
                add(made)
                done[number] = made
                if progress:
                    progress(len(done))

        await run_workers(work, max(1, concurrency // AT_ONCE), seconds)
    return [done[number] for number in sorted(done) if number < count]


def totals(written: Sequence[Written]) -> tuple[Counter[str], Counter[str]]:
    """What was kept and refused over all organisations."""
    kept: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    for one in written:
        kept.update(one.kept)
        refused.update(one.refused)
    return kept, refused
