"""The monolithic search agent: one model, one ever growing context that holds plans, queries and raw documents alike.

This is what CoDA's section 3.1.1 calls context entanglement, and what Search-R1, AutoRefine and their relatives are.
The loop is the same for all of them; a *dialect* says how it is spoken. Systems that differ in nothing else are at the
end of this file, so that the published checkpoints of their projects can be served and compared:

    search-r1                          <search>, reads <information>, <answer>
    autorefine                         the same with <refine>: CoDA without its hierarchy (CoDA 4.3.1)
    research, recall                   results in <result>; searches by JSON tool calls
    r1-searcher, simpledeepsearcher    tokens like <|begin_of_query|>
    stepsearch                         Search-R1's dialect with more turns
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ...engine import Engine, Message
from ...engine.actions import Action
from ...errors import EngineError, SearchError
from ...limits import Limits
from ...protocol import parse
from ...record import Hit
from ...retrieval.search import Search
from ...runtime.context import Context, LimitReached
from ...runtime.evidence import Finding
from ...runtime.given_tools import CALLS, TOOL_CALLS, GivenTools
from ...runtime.run import Answer, Run
from ...runtime.statements import sentences
from ...runtime.system import System
from ...runtime.turn import Turn, confidence
from ...runtime.window import Text
from .dialect import (
    AUTOREFINE,
    R1_SEARCHER,
    RECALL,
    RESEARCH,
    SEARCH_R1,
    SIMPLE_DEEP_SEARCHER,
    STEPSEARCH,
    Dialect,
    find_dialect,
)

REPEATED = "This query was already sent; change it or answer."
MAX_ASIDES = 100
"""Sentences of an agent's reasoning that are searched for in the documents."""
_TAG = re.compile(r"<[^<>]*>")


@dataclass(frozen=True, slots=True)
class AgentSettings:
    dialect: str = ""
    """Name of a dialect, or a folder with `dialect.toml` and prompts; empty for the system's own."""
    turns: int | None = None
    """Turns before the answer is forced; None for the dialect's."""
    k: int | None = None
    """Documents per search; None for the dialect's."""
    document_tokens: int = 320
    """Each document is cut to this, so that observations grow with k."""
    force: bool = True
    """Ask for an answer when turns run out."""


class SearchAgent(System[AgentSettings]):
    name = "search-agent"
    description = "One agent that thinks and searches in a single context, in a format of your choice."
    roles: ClassVar[tuple[str, ...]] = ("agent",)
    answering = "agent"
    tool_roles: ClassVar[tuple[str, ...]] = ("agent",)
    Settings = AgentSettings
    own_dialect: ClassVar[Dialect] = SEARCH_R1
    shielded: ClassVar[bool] = False
    """Whether another role reads the documents for the agent."""
    queries: ClassVar[int] = 4
    """Queries of one turn that are carried out, in dialects that allow several."""

    def __init__(self, model: Engine | Mapping[str, Engine], search: Search | None = None, **options: Any) -> None:
        super().__init__(model, search, **options)
        given = self.settings.dialect
        self.dialect = find_dialect(given) if given else self.own_dialect
        self.prompts = self.prompts_in(self.dialect.folder)

    @classmethod
    def prompt_folder(cls) -> Path:
        return cls.own_dialect.folder

    @property
    def turns(self) -> int:
        return self.dialect.turns if self.settings.turns is None else self.settings.turns

    @property
    def k(self) -> int:
        return self.dialect.k if self.settings.k is None else self.settings.k

    def actions(self) -> Mapping[str, Sequence[Action]]:
        return {"agent": self.dialect.actions()}

    async def opening(self, run: Run) -> list[Message]:
        """What the agent's context begins with."""
        return self.prompts.messages("agent", question=run.question.question)

    async def answer(self, run: Run) -> Answer:
        question = run.question.question
        opening = await self.opening(run)
        if run.tools:
            engine = self.setup("agent").engine
            opening = run.tools.told(opening, self.prompts, engine, self.tool_form, question, searches=run.has_search)
        agent = await run.open(
            "agent",
            question,
            opening,
            mode=self.dialect.mode,
            stop=(*self.dialect.stops, *((self.tool_form.closing,) if run.tools else ())),
            limits=Limits(turns=self.turns),
            shielded=self.shielded,
        )
        found: dict[str, Sequence[Hit]] = {}
        try:
            while True:
                turn = await agent.write()
                note_refinements(agent, turn)
                action = self.dialect.action(turn.text)
                if run.tools and (calls := self._calls(run.tools, turn)):
                    for shown in await run.tools.shown(agent, calls, self.dialect.frame):
                        found |= {doc.id: [Hit(doc, 1.0)] for doc in shown.groups[0] if doc.id}
                        agent.tell(self.dialect.after(turn.text, shown))
                elif action is None:
                    agent.remind(turn, self.aside("remind") + "\n")
                elif action.answer:
                    await agent.close("answered", action.answer)
                    rests_on = findings(found, agent.id, agent.written)
                    return Answer(action.answer, confidence=confidence(turn), findings=rests_on)
                else:
                    observed = await self.observe(run, agent, self._first(agent, action.queries), found)
                    agent.tell(self.dialect.after(turn.text, observed))
        except (LimitReached, EngineError) as stopped:
            return await self._conclude(run, agent, stopped, found)

    async def observe(self, run: Run, agent: Context, queries: Sequence[str], found: dict[str, Sequence[Hit]]) -> Text:
        """Search, and what the agent is told about it."""
        if agent.repeats(*queries):
            return self.repeated()
        try:
            results = await run.search(agent, queries, self.k)
        except SearchError as error:
            return self.dialect.frame(f"The search failed: {error}")
        found.update(zip(queries, results, strict=True))
        for hits in results:
            agent.read(hits)
        documents = [[hit.document for hit in hits] for hits in results]
        return self.dialect.observe(documents, self.settings.document_tokens, agent.engine)

    def repeated(self) -> str:
        """What the agent is told about a query that it has sent too often. An untrained model would send it until its
        turns run out, so its turn is continued for it; adapters learnt what follows the note alone."""
        told = self.dialect.frame(REPEATED)
        if self.prompts.set_of("agent") == "compact":
            return told
        return f"{told}{'' if told[-1:].isspace() else ' '}{self.prompts.text('repeated')}\n"

    def _calls(self, tools: GivenTools, turn: Turn) -> list[str]:
        """The tool calls of a turn, if nothing else comes before them; a dialect may search by such calls, too."""
        first = turn.parsed.first(*CALLS)
        if first is None or self.dialect.action(turn.text[: first.start]) is not None:
            return []
        calls = tools.calls(turn.parsed)
        return calls if not self.dialect.calls else [call for call in calls if tools.knows(call)]

    def _first(self, agent: Context, queries: Sequence[str]) -> Sequence[str]:
        """As many queries of a turn as are allowed; an event names the others."""
        if left_out := "; ".join(queries[self.queries :]):
            agent.run.events.emit("limit", agent.id, what=f"{self.queries} queries in a turn", message=left_out)
        return queries[: self.queries]

    def aside(self, name: str) -> str:
        """A prompt in mid-conversation; inside the model's own turn it starts a paragraph."""
        text = self.prompts.text(name)
        return f"\n\n{text}" if self.dialect.mode == "completion" else text

    async def _conclude(
        self, run: Run, agent: Context, stopped: Exception, found: Mapping[str, Sequence[Hit]]
    ) -> Answer:
        """One forced turn if a limit was reached; nothing if the model failed."""
        text = ""
        if isinstance(stopped, EngineError):
            run.fail("engine", stopped, agent, fatal=True)
        elif self.settings.force:
            before, instruction = agent.last_turn, self.aside("force")
            text = await agent.force(instruction)
            if agent.last_turn is not None and agent.last_turn is not before:
                begun = instruction.rpartition("\n")[2]  # the answer's opening, which the turn may go on with
                action = self.dialect.action(agent.last_turn.text) or self.dialect.action(begun + agent.last_turn.text)
                text = action.answer if action and action.answer else text
        stop_reason = "forced" if text else "failed" if isinstance(stopped, EngineError) else "no answer"
        await agent.close(stop_reason, text)
        rests_on = findings(found, agent.id, agent.written)
        return Answer(text, forced=True, findings=rests_on, stop_reason=stop_reason)


def note_refinements(agent: Context, turn: Turn) -> None:
    for refine in turn.parsed.all("refine"):
        agent.run.events.emit("refine", agent.id, text=refine.content)


def findings(found: Mapping[str, Sequence[Hit]], trajectory: str, text: str) -> list[Finding]:
    """What each query found; what the agent refined are sub-results, what else it wrote are asides."""
    read = {query: [hit.document for hit in hits] for query, hits in found.items()}
    documents = [document for few in read.values() for document in few]
    refined = parse(text).all("refine")
    results = [Finding("", block.content, "", documents, trajectory) for block in refined if block.content]
    lines = _TAG.sub("\n", text)
    said = [Finding("", lines[a:b], "", documents, trajectory, aside=True) for a, b in sentences(lines)[:MAX_ASIDES]]
    return [*(Finding("", "", "", few, trajectory, query) for query, few in read.items()), *results, *said]


class SearchR1(SearchAgent):
    name = "search-r1"
    description = "One agent that thinks, searches and answers in a single context."
    needs_training = True
    own_dialect = SEARCH_R1


class AutoRefine(SearchAgent):
    name = "autorefine"
    description = "One agent that searches and writes down what matters before it goes on."
    needs_training = True
    own_dialect = AUTOREFINE


class ReSearch(SearchAgent):
    name = "research"
    description = "One agent that searches inside its reasoning and reads results as they come."
    needs_training = True
    own_dialect = RESEARCH


class ReCall(SearchAgent):
    """Searches by JSON tool calls."""

    name = "recall"
    description = "One agent that searches by JSON tool calls."
    needs_training = True
    own_dialect = RECALL
    tool_form = TOOL_CALLS


class R1Searcher(SearchAgent):
    name = "r1-searcher"
    description = "One agent that searches whenever its reasoning needs a fact."
    needs_training = True
    own_dialect = R1_SEARCHER


class SimpleDeepSearcher(SearchAgent):
    name = "simpledeepsearcher"
    description = "One agent that reasons at length and searches in between."
    needs_training = True
    own_dialect = SIMPLE_DEEP_SEARCHER


class StepSearch(SearchAgent):
    name = "stepsearch"
    description = "One agent that searches step by step in a single context."
    needs_training = True
    own_dialect = STEPSEARCH
