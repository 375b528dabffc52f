"""Direct: the model answers at once, from what it has learnt.

answerer  {question}  →  <answer>...</answer>
"""

from __future__ import annotations

from typing import ClassVar

from ..base import NoSettings, System
from ..replies import conclude
from ..runtime import Answer, Run


class Direct(System[NoSettings]):
    name: ClassVar[str] = "direct"
    roles: ClassVar[tuple[str, ...]] = ("answerer",)

    async def answer(self, run: Run) -> Answer:
        question = run.question.question
        messages = self.prompts.messages("answerer", question=question)
        return await conclude(await run.open("answerer", question, messages, stop=("</answer>",)))
