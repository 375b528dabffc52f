"""Search-o1: one long reasoning that searches, and a reader of the documents (Reason-in-Documents).

agent   {question, its reasoning, what readers reported}  →  <|begin_search_query|>, final \\boxed{}
reader  {reasoning so far, query, documents}              →  the information that helps the reasoning on
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...engine import Sampling
from ...errors import EngineError, SearchError
from ...limits import Limits
from ...record import Hit
from ...runtime.context import Context
from ...runtime.rendering import cut_to_tokens
from ...runtime.run import Run
from ...runtime.window import Text
from .dialect import SIMPLE_DEEP_SEARCHER
from .search_agent import SearchAgent

SEARCH_O1 = replace(SIMPLE_DEEP_SEARCHER, name="search-o1", k=10, turns=11)
"""The same tags; at most 10 searches of 10 documents."""

REASONING_TOKENS = 512
"""How much of the reasoning so far a reader sees, counted from its end."""


class SearchO1(SearchAgent):
    name = "search-o1"
    description = "A reasoning agent whose search results are read and condensed by a second reader."
    roles = ("agent", "reader")
    sampling = Sampling(temperature=0.7, top_p=0.8, top_k=20)
    own_dialect = SEARCH_O1
    shielded = True
    tool_roles = ()  # it must not read raw text from outside
    queries = 1

    async def observe(self, run: Run, agent: Context, queries: Sequence[str], found: dict[str, Sequence[Hit]]) -> Text:
        query = queries[0]
        if agent.repeats(query):
            return self.repeated()
        try:
            hits = (await run.search(agent, [query], self.k))[0]
        except SearchError as error:
            return self.dialect.frame(f"The search failed: {error}")
        found[query] = hits
        return self.dialect.frame(await self._read(run, agent, query, hits) if hits else "No documents were found.")

    async def _read(self, run: Run, agent: Context, query: str, hits: Sequence[Hit]) -> str:
        engine, documents = self.setup("reader").engine, [hit.document for hit in hits]
        reasoning = cut_to_tokens(agent.reasoning[::-1], REASONING_TOKENS, engine)[::-1] or "none"
        opening = self.shown("reader", documents, self.settings.document_tokens, reasoning=reasoning, query=query)
        try:
            reader = await run.open("reader", query, opening, parent=agent, limits=Limits(turns=1))
            run.events.emit("task", agent.id, task=query, child=reader.id)
            reader.read(hits)
            turn = await reader.write()
        except EngineError as error:
            run.fail("engine", error, agent)
            return "The documents could not be read."
        text = turn.parsed.outside or "No helpful information was found."
        await reader.close("read", text)
        run.events.emit("refine", reader.id, text=text)
        return run.without_verbatim_text(text, agent.id)
