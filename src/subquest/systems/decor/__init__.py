"""DECOR: a planner that navigates, a filter that reads and an answerer that concludes (DECOR's paper, Algorithm 1).

    planner   {question, memory, past queries}  →  <search>query</search>  or  <search>None</search>, which is STOP
    filter    {query, documents}                →  <filter>one paragraph of evidence</filter>
    answerer  {question, memory}                →  <answer>...</answer>

Partial observability holds by construction: each step of each role is a context of its own, opened with exactly its
observation, and those of planner and answerer are shielded from documents. The roles meet in the shared memory alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...engine import Engine
from ...engine.actions import Action
from ...engine.interface import HasAdapter
from ...errors import EngineError, SearchError
from ...limits import Limits
from ...record import Hit
from ...runtime.actions import ANSWER
from ...runtime.answering import conclude, note_stop
from ...runtime.context import Context, LimitReached
from ...runtime.evidence import Finding
from ...runtime.rendering import cut_to_tokens, one_line, render_documents
from ...runtime.role_setup import RoleSetup
from ...runtime.run import Answer, Run
from ...runtime.statements import sentences
from ...runtime.system import System

NEXT_QUERY = Action("search", "Search for the missing fact, or stop.", "query", "one precise query, or None to stop")
FILTER = Action("filter", "Hand over what helps with the query.", "evidence", "one paragraph, or None")
NONE = ("none", "stop", "")
"""What a planner writes to stop, and a filter if nothing helps."""
REPEATED = "This query was already sent; ask for another missing fact, or write None there to stop."
COMPRESSIONS = 3
"""Compressor calls for one piece of evidence; if memory is still too long, the oldest entries are dropped."""


@dataclass(frozen=True, slots=True)
class DECORSettings:
    turns: int = 4
    """T_max, the most searches (5.1.4)."""
    k: int = 5
    """Documents per search (5.1.4)."""
    memory_tokens: int = 4096
    """L_max: a longer memory is compressed (4.2, table 4), as is one beyond half of a smaller window."""
    document_tokens: int = 320
    """Each document is cut to this before the filter reads it."""
    filter: bool = True
    """False is DECOR without its filter: what was found goes into memory as it is."""
    strict: bool = False
    """A malformed turn ends the episode, as in training (4.3); otherwise the role is reminded once."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One piece of memory; compressed facts have no query."""

    query: str
    evidence: str

    def __str__(self) -> str:
        """One line, so that no evidence can begin a line that looks like another entry."""
        return one_line(f"{self.query}: {self.evidence}" if self.query else self.evidence)


class Malformed(Exception):
    """A role broke the format, and the settings are strict."""


class DECOR(System[DECORSettings]):
    name = "decor"
    description = "A planner searches step by step, a filter keeps the evidence, an answerer concludes from the notes."
    roles = ("planner", "filter", "answerer", "compressor")
    frozen = ("compressor",)
    answering = "answerer"
    Settings = DECORSettings

    async def answer(self, run: Run) -> Answer:
        memory = Memory(self, run)
        queries: list[str] = []
        findings: list[Finding] = []
        try:
            for _ in range(self.settings.turns):
                planner, query = await self._plan(run, memory, queries)
                if query is None:
                    break
                queries.append(query)
                hits = await self._search(run, planner, query)
                await planner.close("query", query)
                reads = self._filter if self.settings.filter else self._keep
                evidence = await reads(run, planner, query, hits, findings) if hits else ""
                await memory.add(Entry(query, evidence), planner)
        except LimitReached as spent:
            run.events.emit("limit", what=str(spent), message="the search ends, the answer is given from memory")
        except EngineError as error:
            run.fail("engine", error)
        except Malformed as problem:
            return Answer("", stop_reason=f"malformed {problem}")
        answer, malformed = await self._answer(run, memory, findings)
        return Answer("", stop_reason="malformed answerer") if self.settings.strict and malformed else answer

    async def _plan(self, run: Run, memory: Memory, queries: list[str]) -> tuple[Context, str | None]:
        """One planner step; the query is None for STOP."""
        question = run.question.question
        fields = {"question": question, "memory": memory.text, "queries": "; ".join(queries) or "none"}
        planner = await run.open(
            "planner",
            question,
            self.prompts.messages("planner", **fields),
            stop=("</search>",),
            shielded=self.settings.filter,
        )
        for attempt in range(2):
            turn = await planner.write()
            block = turn.parsed.last("search")
            if block is not None and block.content:
                self._check(planner)
                repeated = self._reminds and block.content.casefold() in map(str.casefold, queries)
                if repeated and attempt == 0:
                    planner.tell(REPEATED)
                    continue
                stop = repeated or block.content.strip(" .'\"").casefold() in NONE
                run.events.emit("plan", planner.id, steps=[] if stop else [block.content])
                if stop:
                    await planner.close("stop", block.content)
                return planner, None if stop else block.content
            self._malformed(planner, "no query")
            if attempt == 0:
                planner.tell(self.prompts.text("planner_remind"))
        fallback = None if memory.entries or queries else question
        run.fail(
            "format", "the planner wrote no query; " + ("it searches for the question" if fallback else "it stops")
        )
        return planner, fallback

    @property
    def _reminds(self) -> bool:
        """Whether a planner that sends a query again is told so once, and stops if it does not help. Models that were
        trained on the compact prompts, or are being trained, go on as in Algorithm 1."""
        return self.prompts.set_of("planner") == "full" and not self.settings.strict

    async def _search(self, run: Run, planner: Context, query: str) -> list[Hit]:
        try:
            return (await run.search(planner, [query], self.settings.k))[0]
        except SearchError:  # recorded by the runtime; the query stays among the past queries
            return []

    async def _filter(self, run: Run, planner: Context, query: str, hits: list[Hit], findings: list[Finding]) -> str:
        """The filter's paragraph about the documents; empty if nothing helped."""
        documents = [hit.document for hit in hits]
        opening = self.shown("filter", documents, self.settings.document_tokens, query=query)
        filter_ = await run.open("filter", query, opening, parent=planner, stop=("</filter>",), limits=Limits(turns=1))
        filter_.read(hits)
        run.events.emit("task", planner.id, task=query, child=filter_.id)
        try:
            turn = await filter_.write()
        except EngineError as error:
            run.fail("engine", error, filter_)
            await filter_.close("failed")
            return ""
        block = turn.parsed.last("filter")
        if block is None:
            self._malformed(filter_, "no <filter>")
        self._check(filter_)
        text = block.content if block else turn.parsed.outside
        if text.strip(" .'\"").casefold() in NONE:
            text = ""
        evidence = run.without_verbatim_text(text, filter_.id)
        await filter_.close("filtered", evidence)
        run.events.emit("refine", filter_.id, text=evidence)
        run.events.emit("result", filter_.id, result=evidence, forced=False)
        findings += _findings(evidence, query, hits, filter_.id)
        return evidence

    async def _keep(self, run: Run, planner: Context, query: str, hits: list[Hit], findings: list[Finding]) -> str:
        """The documents themselves as evidence: the ablation of the filter, in which all roles read them."""
        documents = [hit.document for hit in hits]
        findings.append(Finding("", "", "", documents, planner.id, query))
        return one_line(render_documents(documents, self.settings.document_tokens, self._engine))

    async def _answer(self, run: Run, memory: Memory, findings: list[Finding]) -> tuple[Answer, bool]:
        """The answer, and whether it broke the format."""
        question = run.question.question
        messages = self.prompts.messages("answerer", question=question, memory=memory.text)
        shielded = self.settings.filter
        answerer = await run.open("answerer", question, messages, stop=("</answer>",), shielded=shielded)
        return await conclude(answerer, findings), bool(answerer.format_errors)

    def _malformed(self, context: Context, what: str) -> None:
        context.malformed(what)
        self._check(context)

    def _check(self, context: Context) -> None:
        """With strict settings, stop at what the parser or the protocol found malformed."""
        if self.settings.strict and context.format_errors:
            raise Malformed(context.role)

    def setup(self, role: str) -> RoleSetup:
        """The compressor is a frozen model (4.2): its own, or that of the other roles without their adapter."""
        setup = super().setup(role)
        if role == "compressor" and role not in self.engines and isinstance(setup.engine, HasAdapter):
            return replace(setup, engine=setup.engine.without_adapter())
        return setup

    def actions(self) -> Mapping[str, Sequence[Action]]:
        return {"planner": (NEXT_QUERY,), "filter": (FILTER,), "answerer": (ANSWER,)}

    @property
    def _engine(self) -> Engine:
        return self.setup("filter").engine


class Memory:
    """The shared memory: pairs of query and evidence, kept below L_max by semantic compression (4.2)."""

    def __init__(self, system: DECOR, run: Run) -> None:
        self.entries: list[Entry] = []
        self._system = system
        self._run = run

    @property
    def _limit(self) -> int:
        """L_max, or half of the smaller window of its readers: the rest is for their prompts and turns."""
        windows = (self._system.setup(role).engine.context_window for role in ("planner", "answerer"))
        return min([self._system.settings.memory_tokens, *(window // 2 for window in windows if window)])

    @property
    def text(self) -> str:
        """As planner and answerer read it."""
        return "".join(f"\n{number}. {entry}" for number, entry in enumerate(self.entries, 1)) or "empty"

    def tokens(self, *more: Entry) -> int:
        engine = self._system.setup("planner").engine
        return sum(engine.count_tokens(f"{entry}\n") for entry in (*self.entries, *more))

    async def add(self, entry: Entry, planner: Context) -> None:
        if not entry.evidence:
            self._emit("nothing", planner, query=entry.query)
            return
        entry = self._cut(entry, planner)
        calls = 0
        while self.entries and self.tokens(entry) > self._limit:
            if calls < COMPRESSIONS:
                await self._compress(planner)
            else:
                self._drop(planner)
            calls += 1
        self.entries.append(entry)
        self._emit("add", planner, query=entry.query, evidence=entry.evidence)

    def _cut(self, entry: Entry, planner: Context) -> Entry:
        """Evidence fills at most half of memory, so that earlier entries still fit."""
        engine = self._system.setup("planner").engine
        kept = cut_to_tokens(entry.evidence, self._limit // 2, engine)
        if kept != entry.evidence:
            self._emit("cut", planner, query=entry.query, evidence=entry.evidence, kept=kept)
        return Entry(entry.query, kept)

    def _drop(self, planner: Context) -> None:
        before, old = self.tokens(), self.entries.pop(0)
        self._emit("drop", planner, before=before, replaced=[str(old)])

    async def _compress(self, planner: Context) -> None:
        """Condense the earliest entries into atomic facts; what the model cannot shorten is dropped, with an event."""
        before = self.tokens()
        early = max(1, (len(self.entries) + 1) // 2)
        old, kept = self.entries[:early], self.entries[early:]
        facts = await self._condense("\n".join(map(str, old)), planner)
        self.entries = [Entry("", facts), *kept] if facts else kept
        action = "compress" if facts else "drop"
        if self.tokens() >= before:
            self.entries, action = kept, "drop"
        self._emit(action, planner, before=before, replaced=[str(entry) for entry in old])

    async def _condense(self, notes: str, planner: Context) -> str:
        """Facts in place of notes; empty if the model fails or the budget does not allow it."""
        messages = self._system.prompts.messages("compressor", notes=notes)
        compressor = None
        try:
            compressor = await self._run.open("compressor", "memory", messages, parent=planner, limits=Limits(turns=1))
            turn = await compressor.write()
        except (EngineError, LimitReached) as error:  # the new evidence must not be lost with it
            note_stop(self._run, error, compressor)
            if compressor is not None:
                await compressor.close("failed")
            return ""
        facts = turn.parsed.outside
        await compressor.close("compressed", facts)
        return facts

    def _emit(self, action: str, planner: Context, **data: object) -> None:
        entries = [{"query": entry.query, "evidence": entry.evidence} for entry in self.entries]
        self._run.events.emit("memory", planner.id, action=action, entries=entries, tokens=self.tokens(), **data)


def _findings(evidence: str, query: str, hits: list[Hit], trajectory: str) -> list[Finding]:
    """One finding for each sentence of a filter's paragraph, so that each is traced to the document it came from."""
    documents = [hit.document for hit in hits]
    return [Finding("", evidence[a:b], "", documents, trajectory, query) for a, b in sentences(evidence)]
