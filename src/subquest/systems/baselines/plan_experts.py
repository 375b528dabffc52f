"""Plan-and-Solve over HiRA's experts: a plan is made once, and its steps go one by one to experts picked for them.

    planner      {question}                       →  {"plan": [step, ...]}
    coordinator  {step, experts}                  →  the expert for it
    expert       {step, results of earlier steps} →  its result; the last one is the answer

The same experts and tools as HiRA, without anyone who looks at a result and changes the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ...engine import Engine
from ...engine.actions import Action
from ...errors import EngineError
from ...protocol.loose_json import find_object
from ...retrieval.search import Search
from ...runtime.answering import force_answer
from ...runtime.context import Context, LimitReached
from ...runtime.evidence import Finding, newest
from ...runtime.replies import said
from ...runtime.run import Answer, Run
from ...runtime.tool_system import ToolSettings, ToolSystem
from ...runtime.toolkit import Toolkit
from ..hira import HiRA
from ..hira.actions import EXPERT_ACTIONS
from ..hira.coordinator import Coordinator
from ..hira.expert import Desk, carry_out
from ..hira.experts import ROLES, STAND_INS, TOOL_ROLES, find_experts


@dataclass(frozen=True, slots=True)
class PlanExpertsSettings(ToolSettings):
    experts: str = "search,code,multimodal,deep"
    """Names of experts or systems, or `path.py:Class`, with commas."""
    steps: int = 10
    """Steps of a plan that are carried out."""


class PlanExperts(ToolSystem[PlanExpertsSettings]):
    name = "plan-experts"
    description = "Plans once, then lets experts with tools work on the steps."
    roles = ("planner", "coordinator", *ROLES)
    stand_ins = STAND_INS
    tool_roles = TOOL_ROLES
    prompt_roles: ClassVar[Mapping[str, str]] = {"select": "coordinator"}
    Settings = PlanExpertsSettings

    def __init__(self, model: Engine | Mapping[str, Engine], search: Search | None = None, **options: Any) -> None:
        super().__init__(model, search, **options)
        self.experts = find_experts(self.settings.experts, self)
        self.expert_prompts = self.prompts_in(HiRA.prompt_folder())

    def actions(self) -> Mapping[str, Sequence[Action]]:
        return EXPERT_ACTIONS

    async def work(self, run: Run, kit: Toolkit) -> Answer:
        question = run.question.question
        messages = self.prompts.messages("planner", question=question, files=kit.inventory())
        planner = await run.open("planner", question, messages, shielded=True)
        try:
            steps = self._steps(run, planner, said(await planner.write()))
        except LimitReached:
            text = await force_answer(planner, self.prompts.text("force"))
            await planner.close("forced", text)
            return Answer(text, forced=True, stop_reason="forced" if text else "no answer")
        except EngineError as error:
            run.fail("engine", error, planner, fatal=True)
            return Answer("", stop_reason="failed")
        coordinator = Coordinator(run, self.expert_prompts, self.experts, None, chain_tokens=0)
        known: list[str] = []
        findings: list[Finding] = []
        for number, step in enumerate(steps, 1):
            if run.budget.exhausted():
                break
            expert = await coordinator.select(planner, step, 10 * number + 1)
            memory = "\n".join(known) or "none"
            desk = Desk(run, planner, kit, self.expert_prompts, self.settings, step, memory, 10 * number + 3)
            report = await carry_out(expert, desk)
            run.events.emit("result", report.trajectory, result=report.conclusion, expert=expert.name)
            known.append(f"{step} {report.conclusion or 'no result'}")
            findings.append(Finding(step, report.conclusion, "", report.documents, report.trajectory))
        text = findings[-1].result if len(findings) == len(steps) else ""
        spent = "" if text else run.budget.exhausted()
        if spent:
            run.events.emit("limit", planner.id, what=spent, message="the newest result is the answer")
            text = newest(findings)
        stop_reason = ("forced" if spent else "answered") if text else "no answer"
        await planner.close(stop_reason, text)
        return Answer(text, forced=bool(spent), findings=findings, stop_reason=stop_reason)

    def _steps(self, run: Run, planner: Context, text: str) -> list[str]:
        plan = find_object(text).get("plan")
        steps = [str(step).strip() for step in plan if str(step).strip()] if isinstance(plan, list) else []
        if not steps:
            planner.malformed("no plan", "no plan; the question is its only step", turn=planner.last_turn)
        steps = steps[: self.settings.steps] or [run.question.question]
        run.events.emit("plan", planner.id, steps=steps)
        return steps
