"""The engines that answer a study: one model, whose adapters are swapped in when variants ask for them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..record import Question
from .design import BARE, Variant


class Setup(NamedTuple):
    """With what questions are answered."""

    model: str
    adapters: Mapping[str, str]
    """Where adapters are, by name."""
    cache: Path
    """For questions and indexes."""
    concurrency: int = 8
    until: float = math.inf
    """Unix time at which to stop."""
    device: str = ""


class Engines:
    """One engine for each adapter that is needed at the same time; adapters are swapped in when they are asked for."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._source: Any = None
        self._engines: list[Any] = []
        self._loaded: list[str] = []
        self._embedder: Any = None

    def of(self, variant: Variant, questions: Sequence[Question]) -> dict[str, Any]:
        """Engines by role. Not while questions of other weights are in flight."""
        if variant.oracle:
            from ..engine.scripted import ScriptedEngine
            from .oracle import HiraOracle

            return {"": ScriptedEngine(HiraOracle(questions))}
        # the adapter of all roles without one of their own comes first: it gets the larger engine
        wanted = list(dict.fromkeys(name for _, name in sorted(variant.adapters.items())))
        for place, name in enumerate(wanted):
            if place == len(self._engines):
                self._engines.append(self._open())
                self._loaded.append(BARE)
            if self._loaded[place] != name:
                self._swap(place, name)
        return {role: self._engines[wanted.index(name)] for role, name in variant.adapters.items()}

    def _open(self) -> Any:
        import torch

        from ..engine.torch.engine import TorchEngine
        from ..train.components import load_source

        device = self._setup.device or ("cuda" if torch.cuda.is_available() else "cpu")
        if self._source is None:
            dtype = torch.bfloat16 if device == "cuda" else torch.float32
            self._source = load_source(self._setup.model, [], device=device, dtype=dtype)
        return TorchEngine(self._source, device=device)

    def _swap(self, place: int, name: str) -> None:
        from ..engine.torch.loader import load_adapter
        from ..models import resolve

        if name == BARE:
            self._engines[place].refresh(state=self._source.state)
        else:
            base = resolve(self._setup.model)
            self._engines[place].refresh(adapter=load_adapter(Path(self._setup.adapters[name]), base))
        self._loaded[place] = name

    @property
    def broken(self) -> str:
        """Why an engine has failed for good (out of GPU memory, say); what it answers then is no answer."""
        return next((str(e.failure) for e in self._engines if e.failure is not None), "")

    @property
    def embedder(self) -> Any:
        if self._embedder is None:
            from ..metrics.embeddings import default_embedder

            self._embedder = default_embedder()
        return self._embedder

    def rerank(self, search: Any) -> Any:
        from ..retrieval.rerank import Reranked, Similarity

        return Reranked(search, Similarity(self.embedder))

    async def close(self) -> None:
        for engine in self._engines:
            await engine.close()
