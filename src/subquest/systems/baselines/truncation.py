"""The naive-truncation agent: documents are removed from the history once they have been read (CoDA's paper, 3.1.1).

It keeps the context short without any redesign, and shows why that fails: the model continues histories that it never
saw in training (training-inference skew). Each turn is a context of its own, in which the earlier turns are prompt.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...engine import Message
from ...errors import EngineError
from ...limits import Limits, Repeats
from ...record import Hit
from ...runtime.context import Context, LimitReached
from ...runtime.run import Answer, Run
from ...runtime.turn import confidence
from ...runtime.window import Groups, Shown, Text, missing_tokens
from .search_agent import SearchAgent, findings

REMOVED = "(removed)"


class Truncation(SearchAgent):
    name = "truncation"
    description = "Search-R1 that forgets the documents of earlier turns."
    queries = 1
    tool_roles = ()

    async def answer(self, run: Run) -> Answer:
        history: list[tuple[str, Text]] = []
        found: dict[str, Sequence[Hit]] = {}
        queries = Repeats(allowed=2)  # what it found leaves the context after one turn
        ended = LimitReached(f"{self.turns} turns of agent")
        for _ in range(self.turns):
            agent = await self._open(run, history)
            agent.queries = queries  # all contexts are one agent's
            try:
                turn = await agent.write()
            except (LimitReached, EngineError) as stopped:
                kept = await self._fitting(run, history) if isinstance(stopped, LimitReached) else history
                if len(kept) < len(history):
                    await agent.close("context window")
                    agent = await self._open(run, kept)
                return await self._conclude(run, agent, stopped, found)
            action = self.dialect.action(turn.text)
            if action is not None and action.answer:
                await agent.close("answered", action.answer)
                said = "\n".join(text for text, _ in history)
                return Answer(action.answer, confidence=confidence(turn), findings=findings(found, agent.id, said))
            if action is None:
                agent.format_errors.append("no action")
                observed: Text = self.aside("remind") + "\n"
            else:
                try:
                    observed = await self.observe(run, agent, self._first(agent, action.queries), found)
                except LimitReached as again:
                    await agent.close("turn", turn.text)
                    ended = again
                    break
            history.append((turn.text, observed))
            await agent.close("turn", turn.text)
        agent = await self._open(run, await self._fitting(run, history))
        return await self._conclude(run, agent, ended, found)

    async def _fitting(self, run: Run, history: Sequence[tuple[str, Text]]) -> Sequence[tuple[str, Text]]:
        """For a forced answer: as many of the newest turns as fit; here earlier turns are part of the prompt."""
        setup, kept = self.setup("agent"), history
        opening = "".join(message.content for message in await self.opening(run))
        while len(kept) > 1:
            turns = "".join(text for text, _ in kept)
            if not missing_tokens(setup.engine, 0, f"{opening}{turns}", setup.sampling.max_tokens):
                break
            kept = kept[1:]
        if left := len(history) - len(kept):
            run.events.emit(
                "limit", what="context window", message=f"the oldest are removed from the context: {left} turns"
            )
        return kept

    async def _open(self, run: Run, history: Sequence[tuple[str, Text]]) -> Context:
        """A context with the turns so far; only the newest documents are still in it."""
        opening = await self.opening(run)
        newest = history[-1][1] if history else ""
        removed = self.dialect.frame(REMOVED)

        def messages(observed: str) -> list[Message]:
            texts = [(text, removed) for text, _ in history[:-1]] + [(text, observed) for text, _ in history[-1:]]
            pairs = [(text, str(self.dialect.after(text, observed))) for text, observed in texts]
            if self.dialect.mode == "completion" and pairs:
                return [*opening, Message("assistant", "".join(text + observed for text, observed in pairs))]
            return [
                *opening,
                *(m for text, observed in pairs for m in (Message("assistant", text), Message("user", observed))),
            ]

        def shown(groups: Groups, nothing: str) -> list[Message]:
            assert isinstance(newest, Shown)
            return messages(newest.render(groups, nothing))

        return await run.open(
            "agent",
            run.question.question,
            Shown(newest.groups, shown, newest.tokens) if isinstance(newest, Shown) else messages(newest),
            mode=self.dialect.mode,
            stop=self.dialect.stops,
            limits=Limits(turns=1),
        )
