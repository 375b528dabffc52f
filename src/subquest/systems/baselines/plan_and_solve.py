"""Plan-and-Solve: a plan is made once, then one agent carries it out in one context.

    planner  {question}                          →  <plan>steps</plan>
    agent    {question, plan, every document}    →  <search>, reads <documents>, <answer>

A hierarchy in name only: the plan is never revised, and the context that holds it also holds every document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...engine import Message
from ...engine.actions import Action
from ...errors import EngineError
from ...limits import Limits
from ...runtime.actions import PLAN
from ...runtime.answering import note_stop
from ...runtime.context import LimitReached
from ...runtime.replies import said
from ...runtime.run import Run
from ..apex.plan import lines_of, numbered_lines
from .dialect import Dialect
from .search_agent import SearchAgent

PLAN_AND_SOLVE = Dialect(
    "plan-and-solve",
    observation="<documents>$documents</documents>",
    mode="chat",
    stop=("</search>", "</answer>"),
    turns=8,
)


class PlanAndSolve(SearchAgent):
    name = "plan-and-solve"
    description = "Writes a plan first, then carries it out with searches in one context."
    roles = ("planner", "agent")
    own_dialect = PLAN_AND_SOLVE

    def actions(self) -> Mapping[str, Sequence[Action]]:
        return {"planner": (PLAN,), **super().actions()}

    async def opening(self, run: Run) -> list[Message]:
        question = run.question.question
        plan = "\n".join(f"{number}. {step}" for number, step in enumerate(await self._plan(run), 1))
        return self.prompts.messages("agent", question=question, plan=plan or "none")

    async def _plan(self, run: Run) -> list[str]:
        question = run.question.question
        messages = self.prompts.messages("planner", question=question)
        planner = await run.open(
            "planner", question, messages, stop=("</plan>",), limits=Limits(turns=1), shielded=True
        )
        try:
            turn = await planner.write()
        except (EngineError, LimitReached) as error:
            note_stop(run, error, planner)
            await planner.close("failed")
            return []
        block = turn.parsed.last("plan")
        steps = lines_of(block.content) if block else numbered_lines(said(turn))
        if block is None:
            planner.format_errors.append("no <plan>")
        run.events.emit("plan", planner.id, steps=steps)
        await planner.close("planned", "\n".join(steps))
        return steps
