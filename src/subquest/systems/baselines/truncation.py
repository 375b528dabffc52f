"""The naive-truncation agent: documents are removed from the history once they have been read (seed 000, 3.1.1).

It keeps the context short without any redesign, and shows why that fails: the model continues histories that it never
saw in training (training-inference skew). Each turn is a context of its own, in which the earlier turns are prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ...engine import Message
from ...errors import EngineError
from ...limits import Limits, Repeats
from ...record import Hit
from ..runtime import Answer, Context, LimitReached, Run, confidence
from .agent import SearchAgent, findings

REMOVED = "(removed)"


class Truncation(SearchAgent):
    name: ClassVar[str] = "truncation"

    async def answer(self, run: Run) -> Answer:
        history: list[tuple[str, str]] = []
        found: dict[str, Sequence[Hit]] = {}
        queries = Repeats()
        for _ in range(self.turns):
            agent = await self._open(run, history)
            agent.queries = queries  # all contexts are one agent's
            try:
                turn = await agent.write()
            except (LimitReached, EngineError) as stopped:
                return await self._conclude(run, agent, stopped, found)
            action = self.dialect.action(turn.text)
            if action is not None and action.answer:
                await agent.close("answered", action.answer)
                said = "\n".join(text for text, _ in history)
                return Answer(action.answer, confidence=confidence(turn), findings=findings(found, agent.id, said))
            if action is None:
                agent.format_errors.append("no action")
                told = self.aside("remind") + "\n"
            else:
                told = await self.observe(run, agent, action.queries[:1], found)
            history.append((turn.text, told))
            await agent.close("turn", turn.text)
        agent = await self._open(run, history)
        return await self._conclude(run, agent, LimitReached(f"{self.turns} turns of agent"), found)

    async def _open(self, run: Run, history: Sequence[tuple[str, str]]) -> Context:
        """A context with the turns so far; only the newest documents are still in it."""
        texts: list[tuple[str, str]] = [
            (text, self.dialect.after(text, told if at == len(history) - 1 else self.dialect.frame(REMOVED)))
            for at, (text, told) in enumerate(history)
        ]
        messages = await self.opening(run)
        if self.dialect.mode == "completion" and texts:
            messages.append(Message("assistant", "".join(text + told for text, told in texts)))
        else:
            messages += [m for text, told in texts for m in (Message("assistant", text), Message("user", told))]
        return await run.open(
            "agent",
            run.question.question,
            messages,
            mode=self.dialect.mode,
            stop=self.dialect.stop,
            limits=Limits(turns=1),
        )
