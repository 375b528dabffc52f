"""Answers from what the model has learned, without search.

direct  {question}  →  <answer>...</answer>                      at once
cot     {question}  →  <think>...</think><answer>...</answer>    after thinking step by step
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...engine.actions import Action
from ...runtime.actions import ANSWER
from ...runtime.answering import conclude
from ...runtime.run import Answer, Run
from ...runtime.system import NoSettings, System


class Direct(System[NoSettings]):
    name = "direct"
    description = "Answers from the model's memory, without searching."
    roles = ("answerer",)
    reads = False

    def actions(self) -> Mapping[str, Sequence[Action]]:
        return {"answerer": (ANSWER,)}

    async def answer(self, run: Run) -> Answer:
        question = run.question.question
        messages = self.prompts.messages("answerer", question=question)
        return await conclude(await run.open("answerer", question, messages, stop=("</answer>",)))


class ChainOfThought(Direct):
    """`Direct` with a prompt that asks for the steps."""

    name = "cot"
    description = "Thinks step by step and answers from memory, without searching."
