"""One of HiRA's experts alone, without planner, coordinator and memory: the paper's single-capability baselines.

webthinker   the deep search agent: searches in its reasoning, an explorer reads, clicks and reports
codeact      the computational agent: Python in the sandbox
multimodal   the multimodal agent: a tool that reads images, sound and video
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from ...engine.actions import Action
from ...runtime.evidence import Finding
from ...runtime.run import Answer, Run
from ...runtime.tool_system import ToolSettings, ToolSystem
from ...runtime.toolkit import Toolkit
from ...runtime.turn import confidence
from ..hira import HiRA
from ..hira.actions import EXPERT_ACTIONS
from ..hira.deep_search import DeepSearch
from ..hira.expert import Desk, Expert
from ..hira.experts import Code, Multimodal


class Alone(ToolSystem[ToolSettings]):
    expert: ClassVar[type[Expert]]

    @classmethod
    def prompt_folder(cls) -> Path:
        return HiRA.prompt_folder()

    def actions(self) -> Mapping[str, Sequence[Action]]:
        return EXPERT_ACTIONS

    async def work(self, run: Run, kit: Toolkit) -> Answer:
        question = run.question.question
        report = await self.expert().run(Desk(run, None, kit, self.prompts, self.settings, question))
        root = next(context for context in run.contexts if context.id == report.trajectory)
        reason = root.trajectories[-1].stop_reason
        findings = [Finding(question, report.conclusion, "", report.documents, report.trajectory)]
        return Answer(
            report.conclusion,
            forced=root.forced,
            confidence=confidence(root.last_turn),
            findings=findings,
            stop_reason=reason,
        )


class WebThinker(Alone):
    name = "webthinker"
    description = "A single reasoning agent that searches and opens web pages."
    roles = DeepSearch.roles
    stand_ins = dict.fromkeys(DeepSearch.roles[1:], "deep")
    tool_roles = ("deep",)
    expert = DeepSearch


class CodeAct(Alone):
    name = "codeact"
    description = "A single agent that solves the task by writing and running code."
    roles = ("code",)
    tool_roles = ("code",)
    expert = Code


class MultimodalEnhanced(Alone):
    name = "multimodal"
    description = "A single agent that reads images, sound and video."
    roles = ("multimodal",)
    tool_roles = ("multimodal",)
    expert = Multimodal
