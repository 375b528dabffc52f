"""ZeroSearch: the Search-R1 protocol, trained against a language model that plays the search engine.

`SimulatedSearch` is that search engine: a model writes the documents a query might find, useful or, with probability
`noise`, misleading; raising the noise over training is the paper's curriculum. Its documents are invented: good for
training an agent to search, never for answering anyone's question.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from ...engine import Engine, Sampling
from ...errors import EngineError, SearchError, UsageError
from ...protocol import parse
from ...record import Document, Hit, Usage
from ...runtime.prompts import Prompts, prompt_set_of
from .dialect import ZEROSEARCH
from .search_agent import SearchAgent

_START = re.compile(r"^[ \t\r*#]*(?:Doc(?:ument)?\s*\d+\s*[:.)]|\d+\s*[:.)])[\s*]*", re.IGNORECASE | re.MULTILINE)


class ZeroSearch(SearchAgent):
    name = "zerosearch"
    description = "One agent trained on documents that a model makes up; searches like Search-R1."
    needs_training = True
    own_dialect = ZEROSEARCH


class SimulatedHits(list[Hit]):
    """Documents that a model wrote, and their cost, which the runtime adds to the usage and budget of the episode."""

    def __init__(self, hits: Iterable[Hit], usage: Usage) -> None:
        super().__init__(hits)
        self.usage = usage


class SimulatedSearch:
    """A search in which a model writes the documents. The same seed and query give the same kind of documents."""

    name = "simulated"

    def __init__(
        self,
        engine: Engine,
        *,
        noise: float = 0.0,
        seed: int = 0,
        sampling: Sampling | None = None,
        prompts: str | Path | None = None,
    ) -> None:
        if not 0 <= noise <= 1:
            raise UsageError(f"noise is a probability, not {noise}")
        self._engine = engine
        self._noise = noise
        self._seed = seed
        self._sampling = sampling or Sampling(max_tokens=512, temperature=0.8)
        own, given = Path(__file__).parent / "prompts" / "zerosearch", Path(prompts) if prompts else None
        self._prompts = Prompts(own, given, lambda name: prompt_set_of(engine))

    async def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        return list(await asyncio.gather(*(self._write(query, k) for query in queries)))

    async def _write(self, query: str, k: int) -> list[Hit]:
        number = int.from_bytes(hashlib.blake2b(f"{self._seed}/{query}".encode(), digest_size=4).digest())
        kind = "noisy" if number / 2**32 < self._noise else "useful"
        try:
            session = await self._engine.open(self._prompts.messages(kind, query=query, count=str(k)))
            try:
                generation = await session.generate(self._sampling)
            finally:
                await session.close()
        except EngineError as error:
            raise SearchError(f"the simulated search failed: {error}") from error
        texts = _documents(generation.text)
        hits = (
            Hit(Document(f"simulated:{number:08x}:{at}", query, text, {"simulated": kind}), 1 / at)
            for at, text in enumerate(texts[:k], 1)
        )
        return SimulatedHits(hits, generation.usage)


def _documents(text: str) -> list[str]:
    """The numbered documents of a reply, without what comes before them; the whole reply if nothing is numbered."""
    thoughts = [block for block in parse(text, ("think",)).blocks if block.closed]
    before, *numbered = _START.split(text[thoughts[-1].end if thoughts else 0 :])
    return [document.strip() for document in numbered or [before] if document.strip()]
