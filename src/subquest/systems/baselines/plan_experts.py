"""Plan-and-Solve over HiRA's experts: a plan is made once, and its steps go one by one to experts picked for them.

    planner      {question}                       →  {"plan": [step, ...]}
    coordinator  {step, experts}                  →  the expert for it
    expert       {step, results of earlier steps} →  its result; the last one is the answer

The same experts and tools as HiRA, without anyone who looks at a result and changes the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ...engine import Engine
from ...engine.actions import Action
from ...errors import EngineError
from ...retrieval.search import Search
from ..actions import EXPERTS
from ..evidence import Finding, newest
from ..hira.coordinator import Coordinator
from ..hira.expert import Desk, carried_out
from ..hira.experts import ROLES, STAND_INS, find_experts
from ..hira.tolerant import first_object
from ..prompting import COMPACT
from ..replies import forced, said
from ..runtime import Answer, Context, LimitReached, Run
from ..tooled import ToolSettings, ToolSystem
from ..toolkit import Toolkit


@dataclass(frozen=True, slots=True)
class PlanExpertsSettings(ToolSettings):
    experts: str = "search,code,multimodal,deep"
    """Names of experts or systems, or `path.py:Class`, with commas."""
    steps: int = 10
    """Steps of a plan that are carried out."""


class PlanExperts(ToolSystem[PlanExpertsSettings]):
    name: ClassVar[str] = "plan-experts"
    roles: ClassVar[tuple[str, ...]] = ("planner", "coordinator", *ROLES)
    stand_ins: ClassVar[Mapping[str, str]] = STAND_INS
    prompt_roles: ClassVar[Mapping[str, str]] = {"select": "coordinator"}
    Settings: ClassVar[type[PlanExpertsSettings]] = PlanExpertsSettings

    def __init__(
        self,
        model: Engine | Mapping[str, Engine],
        search: Search | None = None,
        *,
        prompts: str | Path | None = None,
        **options: Any,
    ) -> None:
        super().__init__(model, search, prompts=prompts, **options)
        self.experts = find_experts(self.settings.experts, self)
        self.expert_prompts = self.prompts_in(COMPACT / "hira")

    def actions(self) -> Mapping[str, Sequence[Action]]:
        return EXPERTS

    async def work(self, run: Run, kit: Toolkit) -> Answer:
        settings = self.settings
        question = run.question.question
        messages = self.prompts.messages("planner", question=question, files=kit.inventory())
        planner = await run.open("planner", question, messages, shielded=True)
        try:
            steps = self._steps(run, planner, said(await planner.write()))
        except LimitReached:
            text = await forced(planner, self.prompts.text("force"))
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
            desk = Desk(
                run=run,
                planner=planner,
                kit=kit,
                prompts=self.expert_prompts,
                task=step,
                memory="\n".join(known) or "none",
                actions=settings.actions,
                k=settings.k,
                tokens=settings.tool_tokens,
                number=10 * number + 3,
            )
            report = await carried_out(expert, desk)
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
        plan = first_object(text).get("plan")
        steps = [str(step).strip() for step in plan if str(step).strip()] if isinstance(plan, list) else []
        if not steps:
            planner.format_errors.append("no plan")
            message = "no plan; the question is its only step"
            run.events.emit("error", planner.id, where="format", message=message, text=text)
        steps = steps[: self.settings.steps] or [run.question.question]
        run.events.emit("plan", planner.id, steps=steps)
        return steps
