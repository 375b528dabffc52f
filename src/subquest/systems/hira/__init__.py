"""HiRA: a meta planner that reasons in one go, a coordinator, and experts with tools.

    planner      {question, its reasoning, distilled results}  →  <|begin_call_subtask|>…<|end_call_subtask|>, \\boxed{}
    coordinator  picks an expert for each sub-task, hands it the memory that helps, distils what it did
    experts      search, deep (with an explorer), code, multimodal; or any class or system of yours

Results are inserted into the planner's own reasoning (completion mode); the planner never sees a page, a document or a
tool. Its turn ends with the call, so that it cannot write the result itself. An endpoint with native tool calls may
call several sub-tasks in one turn: they run at the same time.
"""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ...engine import Engine
from ...engine.actions import Action
from ...errors import EngineError
from ...limits import Limits
from ...retrieval.search import Search
from ...runtime.actions import BOXED
from ...runtime.answering import NO_RESULT, conclude_early, force_answer
from ...runtime.context import Context, LimitReached
from ...runtime.evidence import Finding
from ...runtime.rendering import cut_to_tokens
from ...runtime.replies import box_in
from ...runtime.run import Answer, Run
from ...runtime.table_queries import tables_of
from ...runtime.tool_loop import calls, inserted, same_call
from ...runtime.tool_system import ToolSettings, ToolSystem
from ...runtime.toolkit import Toolkit
from ...runtime.turn import Turn, confidence
from .actions import EXPERT_ACTIONS, QUERY, SUBTASK
from .coordinator import Coordinator, named_in
from .expert import Desk, Expert, Report, SystemExpert, carry_out
from .experts import ROLES, STAND_INS, TOOL_ROLES, find_experts
from .memory import Memory, rendered

CALL, RESULT = "call_subtask", "subtask_result"
_RESULT_ENDS = f"<|end_{RESULT}|>"
"""A planner that writes it is playing an expert: what stands before it is no answer."""
_REMINDERS = 2
_REPEATS = 3
"""Turns with nothing but repeated sub-tasks before an answer is forced (the published code)."""
_REPEATED = "This sub-task was already carried out; its result stands above. I use it, or hand out another one."


@dataclass(frozen=True, slots=True)
class HiRASettings(ToolSettings):
    subtasks: int = 10
    """Sub-tasks of one question (figure 3)."""
    experts: str = "search,code,multimodal,deep"
    """Experts, systems or `path.py:Class`, separated by commas; leaving one out is an ablation of table 2."""
    expert_info: bool = True
    """Whether the planner is told what the experts can do (figure 3)."""
    transfer: bool = True
    """False is "w/o Reasoning Transfer": the planner names the expert and reads its raw output (table 2)."""
    memory: bool = True
    """False is "w/o Memory" (table 2)."""
    memory_entries: int = 5
    """Entries that are handed to an expert."""
    chain_tokens: int = 80_000
    """An expert's reasoning beyond this keeps its first and last half."""
    result_tokens: int = 2000
    """A sub-task's result is cut to this before the planner sees it."""


class HiRA(ToolSystem[HiRASettings]):
    name = "hira"
    description = "A reasoning planner calls experts that search, browse, run code and read media."
    roles = ("planner", "coordinator", *ROLES)
    stand_ins = STAND_INS
    tool_roles = TOOL_ROLES
    Settings = HiRASettings
    prompt_roles: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("select", "recall", "distil", "distil_no_memory"), "coordinator"
    )
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "no-transfer": {"transfer": False},
        "no-memory": {"memory": False},
        "no-search": {"experts": "code,multimodal"},
        "no-code": {"experts": "search,multimodal,deep"},
        "no-multimodal": {"experts": "search,code,deep"},
        "no-expert-info": {"expert_info": False},
    }

    def __init__(
        self,
        model: Engine | Mapping[str, Engine],
        search: Search | None = None,
        *,
        plug_ins: Sequence[Expert] = (),
        **options: Any,
    ) -> None:
        """`plug_ins` are experts in addition to those of the settings."""
        super().__init__(model, search, **options)
        self.experts = find_experts(self.settings.experts, self, plug_ins)

    def actions(self) -> Mapping[str, Sequence[Action]]:
        queries = (QUERY,) if tables_of(self.search) else ()
        return {"planner": (SUBTASK, BOXED), **EXPERT_ACTIONS, "code": (*queries, *EXPERT_ACTIONS["code"])}

    async def work(self, run: Run, kit: Toolkit) -> Answer:
        """The meta planner's reasoning, from the question to a box."""
        settings = self.settings
        question = run.question.question
        planner = await self._open_planner(run, kit, question)
        memory = Memory(lambda url: url in kit.failed_urls) if settings.memory else None
        coordinator = Coordinator(run, self.prompts, self.experts, memory, settings.chain_tokens)
        findings: list[Finding] = []
        given: set[str] = set()
        silent = repeats = 0
        try:
            while True:
                turn = await planner.write()
                tasks = [content for _, content in calls(turn, CALL)]
                jobs = self._jobs(run, planner, coordinator, kit, tasks, given)
                if tasks and not jobs:
                    raise LimitReached(f"{settings.subtasks} sub-tasks")
                if jobs:
                    done = await asyncio.gather(*jobs)
                    found = [finding for _, finding in done if finding is not None]
                    findings += found
                    silent, repeats = 0, repeats + (not found)
                    self._insert(planner, turn, [text for text, _ in done])
                    if repeats > _REPEATS:
                        raise LimitReached(f"{repeats} repeated sub-tasks")
                elif not turn.text.endswith(_RESULT_ENDS) and (answer := box_in(turn)):
                    await planner.close("answered", answer)
                    return Answer(answer, confidence=confidence(turn), findings=findings)
                elif silent == _REMINDERS:
                    raise LimitReached("the planner neither calls nor answers")
                else:
                    silent += 1
                    planner.remind(turn, f"\n\n{self.prompts.text('planner_remind')}\n")
        except (LimitReached, EngineError) as stopped:
            force = functools.partial(force_answer, planner, f"\n\n{self.prompts.text('planner_force')}\n")
            return await conclude_early(planner, stopped, findings, force)

    async def _open_planner(self, run: Run, kit: Toolkit, question: str) -> Context:
        settings = self.settings
        prompt = "planner" if settings.transfer else "planner_no_transfer"
        info = "\n".join(f"- {e.name}: {e.description}" for e in self.experts.values())
        if settings.transfer and not settings.expert_info:
            info = "not told"
        messages = self.prompts.messages(
            prompt, question=question, experts=info, subtasks=str(settings.subtasks), files=kit.inventory()
        )
        stop = (f"<|begin_{RESULT}|>", f"<|end_{CALL}|>", _RESULT_ENDS)
        limits = Limits(turns=(settings.subtasks + 1) * (_REMINDERS + 1) + 1)
        return await run.open(
            "planner", question, messages, mode="completion", stop=stop, limits=limits, shielded=settings.transfer
        )

    def _jobs(
        self,
        run: Run,
        planner: Context,
        coordinator: Coordinator,
        kit: Toolkit,
        tasks: Sequence[str],
        given: set[str],
    ) -> list[Awaitable[tuple[str, Finding | None]]]:
        """The work on each sub-task of a turn, up to the limit of sub-tasks; repeated ones are refused."""
        jobs: list[Awaitable[tuple[str, Finding | None]]] = []
        fresh: list[str] = []
        for task in tasks:
            if same_call(task) in given:
                jobs.append(self._refused(planner, task))
            elif len(given) < self.settings.subtasks:
                given.add(same_call(task))
                fresh.append(task)
                jobs.append(self._subtask(run, planner, coordinator, kit, task, len(given)))
            else:
                run.events.emit("limit", planner.id, what=f"{self.settings.subtasks} sub-tasks", message=task)
        if fresh:
            run.events.emit("plan", planner.id, steps=fresh)
        return jobs

    async def _refused(self, planner: Context, task: str) -> tuple[str, None]:
        planner.run.events.emit("limit", planner.id, what="repeated sub-task", message=task)
        return _REPEATED, None

    async def _subtask(
        self,
        run: Run,
        planner: Context,
        coordinator: Coordinator,
        kit: Toolkit,
        task: str,
        number: int,
    ) -> tuple[str, Finding]:
        """Delegation, execution and distillation of one sub-task, which has ten context ids below the planner."""
        settings, place = self.settings, 10 * number
        if settings.transfer:
            expert = await coordinator.select(planner, task, place + 1)
        else:
            expert, task = self._named(run, planner, task)
        known = await coordinator.recall(planner, task, settings.memory_entries, place + 2)
        desk = Desk(run, planner, kit, self.prompts, settings, task, rendered(known), place + 3)
        report = await carry_out(expert, desk)
        if settings.transfer or settings.memory:
            distilled = await coordinator.distil(planner, task, report, place + 9)
        text = distilled.text if settings.transfer else report.conclusion or NO_RESULT
        result = distilled.conclusion if settings.transfer else report.conclusion
        run.events.emit("result", report.trajectory or planner.id, result=text, expert=expert.name)
        finding = Finding(task, result, report.conclusion, report.documents, report.trajectory)
        if not settings.transfer:
            text = report.chain or text
        return f"Result of the {expert.name} expert: {text}", finding

    def _named(self, run: Run, planner: Context, task: str) -> tuple[Expert, str]:
        """Without reasoning transfer the planner writes `expert: task`."""
        match = re.match(r"\s*\[?(\w[\w.-]*)\]?\s*[:,]\s*(.*)", task, re.DOTALL)
        expert = named_in(match[1], self.experts) if match else None
        if match is None or expert is None:
            cheapest = min(self.experts.values(), key=lambda e: e.cost)
            message = f"the planner named no expert; {cheapest.name}, the cheapest, takes the task"
            run.events.emit("error", planner.id, where="format", message=message, text=task)
            return cheapest, task
        return expert, match[2].strip()

    def _insert(self, planner: Context, turn: Turn, results: Sequence[str]) -> None:
        """Results in the planner's own reasoning, in the order of the sub-tasks."""
        cut = [cut_to_tokens(result, self.settings.result_tokens, planner.engine) for result in results]
        first, *rest = cut
        planner.tell(inserted(turn.text, first, RESULT) + "".join(inserted("", text, RESULT) for text in rest))


__all__ = ["Desk", "Expert", "HiRA", "HiRASettings", "Memory", "Report", "SystemExpert"]
