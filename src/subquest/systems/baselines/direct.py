"""Direct: the model answers at once, from what it has learnt.

answerer  {question}  →  <answer>...</answer>
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from ...engine.actions import Action
from ..actions import ANSWER
from ..base import NoSettings, System
from ..replies import conclude
from ..runtime import Answer, Run


class Direct(System[NoSettings]):
    name: ClassVar[str] = "direct"
    roles: ClassVar[tuple[str, ...]] = ("answerer",)
    reads: ClassVar[bool] = False

    def actions(self) -> Mapping[str, Sequence[Action]]:
        return {"answerer": (ANSWER,)}

    async def answer(self, run: Run) -> Answer:
        question = run.question.question
        messages = self.prompts.messages("answerer", question=question)
        return await conclude(await run.open("answerer", question, messages, stop=("</answer>",)))
