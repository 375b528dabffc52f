"""Answers in sentences: one or two with a citation, or a report.

    outliner   {question, titles of documents}      →  one line per section: Title: question
    sections   each question is answered by the system itself, in contexts below the outline, all at the same time
    reporter   {section, result, numbered quotes}   →  sentences that cite quotes as [1]

Quotes are chosen by code from the documents that were read, and every sentence is checked against them
(`sentence_check`). Where a model writes nothing usable, the quotes that state its results stand for themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec

from ..errors import EngineError, OutsideError, SearchError
from ..exports.markdown import section_text, written_text
from ..record import Document, Evidence, Report, Section, Sentence
from .answering import failed_part, note_stop
from .context import Context, LimitReached
from .evidence import Support
from .normalization import compared_words
from .outline import Planned, read_outline
from .part_run import SectionRun
from .prompts import Prompts
from .rendering import cut_to_tokens, one_line
from .run import Answer, Run
from .sentence_check import LINE_START, Check, Checked, check_text
from .statements import analysed, claim_of, declines, sentences, title_of
from .turn import Turn

OUTLINER, REPORTER = "outliner", "reporter"
ROLES = (OUTLINER, REPORTER)
"""Beside a system's own; they run as the role that answers does, unless they are given something of their own."""
TITLES = 8
"""Documents whose titles the outline is planned with."""
QUOTES = 8
"""Quotes that a section is written from."""
QUOTE_TOKENS = 120
RESULT_TOKENS = 200
SENTENCES = 8
"""Most sentences of a section."""
RELEVANT = 0.5
"""Share of the words of a section's question that a sentence needs, with the title of its document, to be quoted,
besides all names; in the single section of a report without an outline, names are enough."""
FEW = 3
"""A report without an outline in which the model writes fewer sentences goes on with quotes, a section per document."""
_REQUEST = frozenset(
    ("describe", "explain", "give", "overview", "report", "summarise", "summarize", "summary", "tell", "write")
)
"""Words that ask for a report and are not what it is about."""
NOT_FOUND = "not found in the documents"
NOTHING_MORE = "the documents say no more than the sections above"
REST = "Also in the documents"
"""The title of a last section, with what the planned ones did not ask for."""


class Found(NamedTuple):
    """What was found out for a section."""

    result: str
    quotes: tuple[Evidence, ...]
    """Those that state results come first."""
    stating: int
    """How many state results."""
    missing: str = ""
    confidence: float | None = None
    failed: bool = False


class ReportWriter:
    """Writes the answers of one episode."""

    def __init__(
        self,
        prompts: Prompts,
        run: Run,
        answer: Callable[[Run], Awaitable[Answer]],
        support: Callable[[Run, Answer], Support],
    ) -> None:
        """`answer` and `support` are the system's own: how it answers a question, and what supports an answer."""
        self._prompts = prompts
        self._run = run
        self._answer = answer
        self._support = support
        self._sources: list[Evidence] = []
        self._dropped = 0
        self._said: dict[tuple[str, str], frozenset[str]] = {}
        """What sections have said of each quote."""

    async def report(self) -> Answer:
        """A report on the run's question; sections are announced by events as they are written."""
        question = self._run.question.question
        outline = await self._run.open(
            OUTLINER, question, self._prompts.messages(OUTLINER, question=question, titles=await self._titles(question))
        )
        planned = await self._plan(outline)
        self._run.events.emit("plan", outline.id, steps=[section.task for section in planned])
        jobs = [asyncio.create_task(self._research(outline, at, s)) for at, s in enumerate(planned, 1)]
        sections, found = [], []
        try:
            for number, (section, job) in enumerate(zip(planned, jobs, strict=True), 1):
                found.append(await job)
                sections.append(await self._section(outline, number, section, found[-1]))
            if not planned[0].title and len(sections[0].sentences) < FEW:
                sections += self._by_document(outline, found[0].quotes)
            if any(section.missing == NOT_FOUND for section in sections):
                sections += self._rest(outline, len(sections) + 1)
        finally:
            for job in jobs:
                job.cancel()
            await asyncio.gather(*jobs, return_exceptions=True)
        sources = tuple(replace(source, states_answer=False) for source in self._sources)  # of sections, not of this
        text = written_text(sections, sources)
        failed = all(f.failed for f in found)
        stop_reason = "failed" if failed else "answered" if sources else "abstained"
        await outline.close(stop_reason, text)
        sure = [f.confidence for f in found if f.confidence is not None]
        return Answer(
            "" if failed else text,
            confidence=round(sum(sure) / len(sure), 4) if sure else None,
            evidence=sources,
            stop_reason=stop_reason,
            report=Report("report", question, tuple(sections), dropped=self._dropped),
        )

    async def sentence(self, answer: Answer, evidence: Sequence[Evidence]) -> Answer:
        """A short answer as one or two sentences that cite quotes; as it is, if no quote supports it."""
        question = self._run.question.question
        quotes = tuple(evidence)[:QUOTES]
        if not quotes:
            return replace(answer, report=Report("sentence", short=answer.text))
        check = await self._write("reporter_sentence", None, question, question, answer.text, quotes, most=2)
        wanted = claim_of(answer.text).words
        says = wanted <= {word for s in check.sentences for word in compared_words(s.text)}
        if not (says and check.sentences):
            self._dropped += len(check.sentences)
            check = Check((_verbatim(quotes, _stating(answer.text, quotes)),), 0)
        section = Section("", question, self._numbered(check.sentences, quotes))
        report = Report("sentence", sections=(section,), short=answer.text, dropped=self._dropped)
        return replace(answer, text=section_text(section), evidence=tuple(self._sources), report=report)

    async def _titles(self, question: str) -> str:
        """Titles of documents about the question, so that sections are planned which the documents can fill."""
        if not self._run.has_search:
            return ""
        try:
            hits = (await self._run.search(None, [question], TITLES))[0]
        except SearchError:  # is on the trace; each section searches for itself
            return ""
        titles = dict.fromkeys(one_line(hit.document.title)[:100] for hit in hits)
        return "\n".join(f"- {title}" for title in titles if title)

    async def _plan(self, outline: Context) -> list[Planned]:
        question = self._run.question.question
        try:
            text = _spoken(await outline.write())
        except (LimitReached, EngineError) as stopped:
            note_stop(self._run, stopped, outline)
            return [Planned("", question)]
        planned = read_outline(text, question)
        if not planned[0].title:
            outline.malformed("no outline", "the outline has no usable section: the report has a single one")
        return planned

    async def _research(self, outline: Context, number: int, section: Planned) -> Found:
        """Answer the question of a section."""
        whole = self._run
        asked = msgspec.structs.replace(whole.question, question=section.task, answers=(), decomposition=())
        run = SectionRun(whole, asked, outline, number)
        whole.events.emit("task", outline.id, task=section.task, child=f"{outline.id}.{number}.1")
        try:
            answer = await self._answer(run)
        except (OutsideError, LimitReached) as error:
            whole.fail(failed_part(error), error, outline)
            return Found("", (), 0, f"not finished: {error}", failed=True)
        finally:
            run.join(whole)
        whole.events.emit("result", outline.id, result=answer.text, forced=answer.forced)
        if answer.stop_reason == "failed":
            return Found("", (), 0, "not finished: the system failed", failed=True)
        stated = run.with_queries(self._support(run, answer).evidence)
        documents = {**whole.documents, **run.documents}.values()
        more = _relevant(section.task, documents, stated, RELEVANT if section.title else 0.0)
        quotes = (*stated, *run.with_queries(more))[:QUOTES]
        return Found(answer.text, quotes, len(stated), "" if quotes else NOT_FOUND, answer.confidence)

    async def _section(self, outline: Context, number: int, section: Planned, found: Found) -> Section:
        """Write a section from what was found."""
        before = self._dropped
        kept: tuple[Sentence, ...] = ()
        if found.quotes:
            result = "" if declines(found.result) else found.result
            title = section.title or section.task
            check = await self._write(REPORTER, outline, title, section.task, result, found.quotes, most=SENTENCES)
            most = max(found.stating, 1)
            quoted = (_verbatim(found.quotes, at) for at in range(len(found.quotes)))
            checked = self._unsaid(check.sentences, found.quotes) or self._unsaid(quoted, found.quotes, most)
            kept = self._numbered(checked, found.quotes)
        missing = found.missing or NOTHING_MORE
        written = Section(section.title, section.task, kept, "" if kept else missing)
        self._announce(outline, number, written, self._dropped - before)
        return written

    def _by_document(self, outline: Context, quotes: Sequence[Evidence]) -> list[Section]:
        """The quotes that the first section has left out, under the titles of their documents."""
        sections: list[Section] = []
        for title in dict.fromkeys(quote.title for quote in quotes):
            places = sorted((q.start, at) for at, q in enumerate(quotes) if q.title == title)
            fresh = self._unsaid((Checked(_as_sentence(quotes[at].quote), (at,)) for _, at in places), quotes)
            if fresh:
                section = Section(one_line(title), self._run.question.question, self._numbered(fresh, quotes))
                sections.append(section)
                self._announce(outline, 1 + len(sections), section, 0)
        return sections

    def _rest(self, outline: Context, number: int) -> list[Section]:
        """What the documents on the subject of the report say besides, where a planned section found nothing."""
        asked = frozenset(compared_words(self._run.question.question))
        about = (d for d in self._run.documents.values() if frozenset() < title_of(d.title).words <= asked)
        quotes = self._run.with_queries(
            Evidence.from_document(d, d.text[s.start : s.end]) for d in about for s in analysed(d.text).sentences
        )
        checked = self._unsaid((_verbatim(quotes, at) for at in range(len(quotes))), quotes, SENTENCES)
        rest = Section(REST, self._run.question.question, self._numbered(checked, quotes))
        if checked:
            self._announce(outline, number, rest, 0)
        return [rest] if checked else []

    def _announce(self, outline: Context, number: int, section: Section, dropped: int) -> None:
        self._run.events.emit(
            "section",
            outline.id,
            number=number,
            title=section.title,
            text=section_text(section),
            missing=section.missing,
            dropped=dropped,
        )

    async def _write(
        self,
        prompt: str,
        parent: Context | None,
        title: str,
        task: str,
        result: str,
        quotes: Sequence[Evidence],
        *,
        most: int,
    ) -> Check:
        """What the reporter writes from quotes, checked; nothing if it cannot write."""
        engine = self._run.setup(REPORTER).engine
        listed = "\n".join(
            f"[{n}] {one_line(q.title)}: {cut_to_tokens(one_line(q.quote), QUOTE_TOKENS, engine)}"
            for n, q in enumerate(quotes, 1)
        )
        told = cut_to_tokens(one_line(result), RESULT_TOKENS, engine) or NOT_FOUND
        messages = self._prompts.messages(prompt, title=title, task=task, result=told, quotes=listed)
        try:
            reporter = await self._run.open(REPORTER, task, messages, parent=parent)
            check = check_text(_spoken(await reporter.write()), quotes, most=most)
        except (LimitReached, EngineError) as stopped:
            note_stop(self._run, stopped, parent)
            return Check((), 0)
        self._dropped += check.dropped
        await reporter.close("written", " ".join(s.text for s in check.sentences))
        return check

    def _unsaid(
        self, sentences: Iterable[Checked], quotes: Sequence[Evidence], most: int | None = None
    ) -> tuple[Checked, ...]:
        """The first that tell more of their quotes than earlier sections have; these count as told from now on."""
        fresh: list[Checked] = []
        told = dict(self._said)
        for sentence in sentences:
            if len(fresh) == most:
                break
            words = frozenset(compared_words(sentence.text))
            places = [_key(quotes[at]) for at in sentence.quotes]
            titles = (title_of(quotes[at].title).words for at in sentence.quotes)
            known = [self._said.get(place) for place in places]
            if None in known or not words <= frozenset().union(*filter(None, known), *titles):
                fresh.append(sentence)
                told |= {place: told.get(place, frozenset()) | words for place in places}
        self._said = told
        return tuple(fresh)

    def _numbered(self, sentences: Iterable[Checked], quotes: Sequence[Evidence]) -> tuple[Sentence, ...]:
        """Sentences with the numbers of their quotes in the list of sources, to which new ones are added."""
        return tuple(Sentence(s.text, tuple(sorted({self._number(quotes[at]) for at in s.quotes}))) for s in sentences)

    def _number(self, quote: Evidence) -> int:
        for number, known in enumerate(self._sources, 1):
            if _key(known) == _key(quote):
                return number
        self._sources.append(quote)
        return len(self._sources)


def _key(quote: Evidence) -> tuple[str, str]:
    """What tells quotes apart; not their `start`, since rows of one table may have been read apart."""
    return quote.id, quote.quote


def _spoken(turn: Turn) -> str:
    """What a turn says line by line, not what it thinks."""
    return turn.text.rpartition("</think>")[2].partition("<think>")[0]


def _verbatim(quotes: Sequence[Evidence], at: int) -> Checked:
    """A quote as a sentence; with the title of its document if it does not name it."""
    quote = quotes[at]
    text, title = _as_sentence(quote.quote), title_of(quote.title)
    named = title.words <= frozenset(compared_words(text))
    return Checked(text if named else f"{one_line(quote.title)}: {text}", (at,))


def _as_sentence(quote: str) -> str:
    """A quote between other sentences: an item of a list without its bullet, a row of a table with a full stop."""
    text = LINE_START.sub("", one_line(quote))
    return text if text[-1:] in ".!?。！？\"')]”’」』）" else f"{text.rstrip(',;:')}."


def _stating(answer: str, quotes: Sequence[Evidence]) -> int:
    """The position of the quote with the most words of an answer."""
    words = claim_of(answer).words
    return max(range(len(quotes)), key=lambda at: len(words & frozenset(compared_words(quotes[at].quote))))


def _relevant(task: str, documents: Iterable[Document], known: Sequence[Evidence], enough: float) -> list[Evidence]:
    """Sentences of documents about a task, the best first: all names of the task, and enough of its words.

    A task without names needs half of its words.
    """
    spans = [task[start:end] for start, end in sentences(task)]  # a capital that begins a sentence makes no name
    claim = claim_of(" ".join(span[:1].lower() + span[1:] for span in spans))
    subject = claim.words - _REQUEST or claim.words
    enough = enough if claim.needed else RELEVANT
    taken = {_key(quote) for quote in known}
    found: list[tuple[float, Evidence]] = []
    for document in documents:
        title = title_of(document.title).words
        for sentence in analysed(document.text).sentences:
            words = sentence.words | title
            share = len(subject & words) / max(len(subject), 1)
            said = document.text[sentence.start : sentence.end]
            if claim.needed <= words and share >= enough and (document.id, said) not in taken:
                found.append((share, Evidence.from_document(document, said)))
    found.sort(key=lambda pair: -pair[0])
    return [quote for _, quote in found[:QUOTES]]
