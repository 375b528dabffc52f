"""A worker's models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..record import Question
from .book import Arm

SECOND = 0.25
"""Share of a worker's memory that the second model of an arm with two takes: it is the planner's, whose contexts are
short."""


class Setup(NamedTuple):
    """What a worker needs to know."""

    model: str
    adapters: Mapping[str, str]
    """Name to place, for those that are at hand."""
    cache: Path
    concurrency: int
    share: float
    """Part of the GPU's memory that a worker's contexts may take."""
    until: float
    """Unix time at which to stop."""
    device: str = ""


class Engines:
    """A worker's models: one engine for each adapter that is needed at the same time, adapters put in when asked."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._source: Any = None
        self._engines: list[Any] = []
        self._holds: list[str] = []
        self._embedder: Any = None

    def of(self, arm: Arm, questions: Sequence[Question]) -> dict[str, Any]:
        """Engines by role. Not while questions of other weights are under way."""
        if arm.oracle:
            from ..engine.scripted import ScriptedEngine
            from .oracle import HiraOracle

            return {"": ScriptedEngine(HiraOracle(questions))}
        # the adapter of all roles without one of their own comes first: it gets the larger engine
        wanted = list(dict.fromkeys(name for _, name in sorted(arm.adapters.items())))
        for place, name in enumerate(wanted):
            if place == len(self._engines) or self._holds[place] != name:
                self._put(name, place)
        return {role: self._engines[wanted.index(name)] for role, name in arm.adapters.items()}

    def _put(self, name: str, at: int) -> None:
        import torch

        from ..engine.torch.engine import TorchEngine
        from ..engine.torch.loader import load_adapter
        from ..models import embedded_model
        from ..train.components import load_source

        setup = self._setup
        if self._source is None:
            self._source = load_source(setup.model, [])
        if at == len(self._engines):
            device = setup.device or ("cuda" if torch.cuda.is_available() else "cpu")
            room = None
            if device == "cuda":
                a = self._source.architecture
                share = setup.share * (SECOND if self._engines else 1 - SECOND)
                room = int(share * torch.cuda.mem_get_info()[1] / (2 * a.cache_values()))
            self._engines.append(TorchEngine(self._source, device=device, cache_tokens=room))
            self._holds.append("none")
        if name != self._holds[at]:
            if name == "none":
                self._engines[at].refresh(state=self._source.state)
            else:
                base = embedded_model() if setup.model == "smollm2" else Path(setup.model)
                self._engines[at].refresh(adapter=load_adapter(Path(setup.adapters[name]), base))
            self._holds[at] = name

    @property
    def broken(self) -> str:
        """What an engine has failed of for good (the GPU's memory, say); what it answers then is no answer."""
        return next((str(e.failure) for e in self._engines if e.failure is not None), "")

    @property
    def embedder(self) -> Any:
        if self._embedder is None:
            import torch

            from ..metrics.embed import MiniLM

            self._embedder = MiniLM(device="cuda" if torch.cuda.is_available() else "cpu")
        return self._embedder

    def reranked(self, search: Any) -> Any:
        from ..retrieval.rerank import Reranked, Similarity

        return Reranked(search, Similarity(self.embedder))

    async def close(self) -> None:
        for engine in self._engines:
            await engine.close()
