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
from ...runtime.run import Answer, Run, confidence
from ...runtime.tool_system import ToolSettings, ToolSystem
from ...runtime.toolkit import Toolkit
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
        settings, question = self.settings, run.question.question
        desk = Desk(
            run=run,
            planner=None,
            kit=kit,
            prompts=self.prompts,
            task=question,
            memory="none",
            actions=settings.actions,
            k=settings.k,
            tokens=settings.tool_tokens,
            number=1,
        )
        report = await self.expert().run(desk)
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
    name: ClassVar[str] = "webthinker"
    roles: ClassVar[tuple[str, ...]] = DeepSearch.roles
    stand_ins: ClassVar[Mapping[str, str]] = dict.fromkeys(DeepSearch.roles[1:], "deep")
    expert: ClassVar[type[Expert]] = DeepSearch


class CodeAct(Alone):
    name: ClassVar[str] = "codeact"
    roles: ClassVar[tuple[str, ...]] = ("code",)
    expert: ClassVar[type[Expert]] = Code


class MultimodalEnhanced(Alone):
    name: ClassVar[str] = "multimodal"
    roles: ClassVar[tuple[str, ...]] = ("multimodal",)
    expert: ClassVar[type[Expert]] = Multimodal
