"""APEX-Searcher: a plan first, then adaptive retrieval for each of its sub-questions (both versions of the paper).

    planner      {question}                                →  <plan>sub-questions with #n references</plan>
    executor     {known answers, sub-question, documents}  →  decisions, <search>queries</search>, <answer>...</answer>
    synthesizer  {known answers, question}                 →  <answer>...</answer>

Algorithm 1 is `answer`, Algorithm 2 is `_process` and `_retrieve`. The papers' execution agent plays both executor and
synthesizer. Each sub-question is one conversation in which every decision is a turn, so that what was read is read
once; what can be seen at each decision is what Algorithm 2 passes to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from ...engine.actions import Action
from ...errors import EngineError, SearchError, UsageError
from ...limits import Limits
from ...protocol import fence
from ...runtime.actions import ANSWER, PLAN, SEARCH
from ...runtime.answering import conclude, note_stop
from ...runtime.context import Context, LimitReached
from ...runtime.evidence import Finding, is_stated
from ...runtime.rendering import one_line
from ...runtime.replies import answer_in, decides, hedges, said
from ...runtime.run import Answer, Run
from ...runtime.system import System
from ...runtime.turn import Turn
from .plan import Plan, PlanStep, lines_of, make_plan, numbered_lines

DECIDE = Action("decide", "Reply to a question that asks for one word.", "word", "the word", "", "")
LONG_ANSWER = 40
"""An answer of this many words or more is not specific at all."""


@dataclass(frozen=True, slots=True)
class APEXSettings:
    hops: int = 5
    """H_max, searches per sub-question."""
    k: int = 3
    """Documents per search (004, 4.4)."""
    steps: int = 5
    """Sub-questions of a plan."""
    dedupe: Literal["subquestion", "episode"] = "subquestion"
    """Which documents count as seen: those of the sub-question (Algorithm 2), or of the episode (004, 3.2.2)."""
    parallel: bool = False
    """Run independent sub-questions concurrently, each knowing only the answers it refers to."""
    document_tokens: int = 320
    plan: bool = True
    """False is the executor alone: the question is the only step (table 2)."""
    plan_only: bool = False
    """Stop after the plan, which is then the answer: what plan training rolls out (004, 3.3)."""

    def __post_init__(self) -> None:
        if self.parallel and self.dedupe == "episode":
            raise UsageError("parallel with dedupe='episode' would depend on timing; use dedupe='subquestion'")


@dataclass(frozen=True, slots=True)
class Known:
    """An answered sub-question: an entry of the accumulated knowledge base."""

    question: str
    answer: str
    finding: Finding | None = None
    """What it rests on; None if it was answered from other entries."""

    @property
    def complete(self) -> bool:
        return bool(self.answer) and not hedges(self.answer) and (self.finding is None or is_stated(self.finding))


class APEX(System[APEXSettings]):
    name = "apex"
    description = "Plans all sub-questions first, then searches for each and puts the answers together."
    roles = ("planner", "executor", "synthesizer")
    stand_ins: ClassVar[Mapping[str, str]] = {"synthesizer": "executor"}
    answering = "synthesizer"
    Settings = APEXSettings
    prompt_roles: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("answer", "answer_known", "continue", "query_first", "query_next"), "executor"
    )
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"003": {}, "004": {"dedupe": "episode"}}

    def actions(self) -> Mapping[str, Sequence[Action]]:
        return {"planner": (PLAN,), "executor": (DECIDE, SEARCH, ANSWER), "synthesizer": (ANSWER,)}

    async def answer(self, run: Run) -> Answer:
        planner: Context | None = None
        plan = Plan((PlanStep(run.question.question),))
        if self.settings.plan:
            planner, plan = await self._plan(run)
        if self.settings.plan_only:
            return Answer("\n".join(step.question for step in plan.steps))
        known: dict[int, Known] = {}
        seen: set[str] = set()
        if self.settings.parallel:
            await self._all_at_once(run, planner, plan, known)
        else:
            for at in range(len(plan.steps)):
                known[at] = await self._step(run, planner, plan, at, known, range(at), seen)
        return await self._synthesize(run, [known[at] for at in sorted(known)])

    async def _plan(self, run: Run) -> tuple[Context, Plan]:
        question, steps = run.question.question, self.settings.steps
        messages = self.prompts.messages("planner", question=question, steps=str(steps))
        planner = await run.open("planner", question, messages, stop=("</plan>",), shielded=True)
        lines: list[str] = []
        try:
            turn = await planner.write()
            block = turn.parsed.last("plan")
            lines = lines_of(block.content) if block else numbered_lines(said(turn))
            if block is None:
                planner.malformed("no <plan>")
        except (EngineError, LimitReached) as error:
            note_stop(run, error, planner)
        plan = make_plan(lines, question, steps)
        for repair in plan.repairs:
            run.fail("plan", repair, planner)
        run.events.emit(
            "plan",
            planner.id,
            steps=[step.question for step in plan.steps],
            needs=[list(step.needs) for step in plan.steps],
            repairs=list(plan.repairs),
        )
        await planner.close("planned", "\n".join(step.question for step in plan.steps))
        return planner, plan

    async def _all_at_once(self, run: Run, planner: Context | None, plan: Plan, known: dict[int, Known]) -> None:
        """Each step begins when the steps it refers to have ended."""
        tasks: list[asyncio.Task[None]] = []

        async def step(at: int) -> None:
            await asyncio.gather(*(tasks[need] for need in plan.steps[at].needs))
            known[at] = await self._step(run, planner, plan, at, known, plan.ancestors(at), set())

        tasks += [asyncio.create_task(step(at)) for at in range(len(plan.steps))]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _step(
        self,
        run: Run,
        planner: Context | None,
        plan: Plan,
        at: int,
        known: Mapping[int, Known],
        visible: Sequence[int],
        seen: set[str],
    ) -> Known:
        """Resolve the references of a step and process it."""
        step: PlanStep = plan.steps[at]
        task = step.resolve({n: known[n].answer for n in step.needs}, plan.steps)
        fields = {"task": task, "known": _listed([known[n] for n in visible])}
        try:
            executor = await run.open(
                "executor",
                task,
                self.prompts.messages("executor", **fields),
                parent=planner,
                stop=("</search>", "</answer>"),
                limits=Limits(turns=2 * self.settings.hops + 2),
                number=at + 1,
            )
        except EngineError as error:
            run.fail("engine", error, planner)
            return Known(task, "")
        if planner is not None:
            run.events.emit("task", planner.id, task=task, child=executor.id)
        answer, stop_reason = await self._process(
            run, executor, task, seen if self.settings.dedupe == "episode" else set()
        )
        await executor.close(stop_reason, answer)
        run.events.emit("result", executor.id, result=answer, forced=executor.forced)
        run.events.emit("memory", executor.id, action="add", entries=[{"query": task, "evidence": answer}])
        from_known = not executor.usage.searches and stop_reason == "answered"
        return Known(task, answer, None if from_known else Finding(task, answer, "", executor.documents, executor.id))

    async def _process(self, run: Run, executor: Context, task: str, seen: set[str]) -> tuple[str, str]:
        """Algorithm 2: the sufficiency check, retrieval where it is needed, and the answer."""
        try:
            if decides(await executor.write(), "answer", "retrieve", default=False):
                executor.tell(self.prompts.text("answer_known", task=task))
            else:
                await self._retrieve(run, executor, task, seen)
                executor.tell(self.prompts.text("answer", task=task))
            turn = await executor.write()
        except LimitReached:
            return await executor.force(self.prompts.text("answer", task=task), "answer"), "forced"
        except EngineError as error:
            run.fail("engine", error, executor)
            return "", "failed"
        if turn.parsed.first("answer") is None:
            executor.malformed("no <answer>")
        return answer_in(turn), "answered"

    async def _retrieve(self, run: Run, executor: Context, task: str, seen: set[str]) -> None:
        """The adaptive multi-hop loop of Algorithm 2."""
        tried: list[str] = []
        for hop in range(1, self.settings.hops + 1):
            if 1 < hop < self.settings.hops:
                executor.tell(self.prompts.text("continue", task=task))
                turn = await executor.write()
                if not decides(turn, "yes", "no", default=turn.parsed.first("search") is not None):
                    return
            prompt = self.prompts.text("query_next", tried="; ".join(tried)) if tried else None
            executor.tell(prompt or self.prompts.text("query_first"))
            query = self._query(executor, await executor.write()) or ("" if tried else task)
            if not query:
                return
            tried.append(query)
            if executor.repeats("query", query):
                executor.tell("This query was already sent: no new documents were found.")
                return
            try:
                hits = (await run.search(executor, [query], self.settings.k))[0]
            except SearchError as error:
                executor.tell(fence(f"The search failed: {error}"))
                return
            new = [hit for hit in hits if hit.document.id not in seen]
            seen.update(hit.document.id for hit in new)
            if not new:
                run.events.emit("limit", executor.id, what="no new documents", message=query)
                executor.tell("No new documents were found.")
                return
            executor.show(new, tokens=self.settings.document_tokens)

    def _query(self, executor: Context, turn: Turn) -> str:
        block = turn.parsed.last("search")
        if block is None or not block.content:
            executor.malformed("no query")
            return ""
        return block.content

    async def _synthesize(self, run: Run, known: Sequence[Known]) -> Answer:
        question = run.question.question
        messages = self.prompts.messages("synthesizer", question=question, known=_listed(known))
        synthesizer = await run.open("synthesizer", question, messages, stop=("</answer>",), shielded=True)
        answer = await conclude(synthesizer, [k.finding for k in known if k.finding is not None])
        return replace(answer, confidence=apex_confidence(answer.text, known) if answer.text else None)


def _listed(known: Sequence[Known]) -> str:
    """Known answers, one per line: no answer can begin a line that looks like another."""
    return "".join(f"\n- {one_line(k.question)} {one_line(k.answer) or 'not found'}" for k in known) or " nothing yet"


def apex_confidence(answer: str, known: Sequence[Known]) -> float:
    """Mean of three terms in [0, 1]; the papers name them and leave the formula open (003 2.4.3, 004 3.2.3).

    Specificity: 1 for an answer of a few words, falling to 0 at `LONG_ANSWER`. Completeness: the share of sub-questions
    with an answer that does not hedge and that a document supports (or that follows from other answers). No hedging: 0
    where the answer itself hedges, otherwise the share of sub-answers that do not.
    """
    words = len(answer.split())
    specificity = min(1.0, max(0.0, (LONG_ANSWER - words) / (LONG_ANSWER - 8))) if words else 0.0
    completeness = sum(k.complete for k in known) / len(known) if known else 0.0
    sure = sum(not hedges(k.answer) for k in known) / len(known) if known else 1.0
    return round((specificity + completeness + (0.0 if hedges(answer) else sure)) / 3, 4)
