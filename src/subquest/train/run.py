"""A training run on disk: its recipe, checkpoints, curves and sample episodes. Made once, resumed at will."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..record import Episode
from ..runs import RunStore
from .checkpoint import Checkpoints
from .policy import Policy
from .recipe import Recipe


class TrainRun:
    """The folder of one run.

    recipe.json   what is trained; resuming with another recipe is refused
    run.sqlite    curves and sample episodes
    checkpoints/  the last few
    best/         the adapter (or weights) that did best on the dev questions
    """

    def __init__(self, folder: str | Path, recipe: Recipe, *, minutes: float | None = None) -> None:
        self.folder = Path(folder)
        self.recipe = recipe
        self.folder.mkdir(parents=True, exist_ok=True)
        self._keep_recipe()
        self.store = RunStore.resume(self.folder / "run.sqlite", settings={"recipe": recipe.name, "kind": recipe.kind})
        self.checkpoints = Checkpoints(self.folder / "checkpoints", keep=recipe.keep)
        self._deadline = math.inf if minutes is None else time.monotonic() + 60 * minutes
        self._longest_step = 0.0

    def _keep_recipe(self) -> None:
        path = self.folder / "recipe.json"
        text = json.dumps(self.recipe.as_dict(), indent=2, sort_keys=True)
        if path.exists() and path.read_text(encoding="utf-8") != text:
            raise UsageError(
                f"the run {self.folder} was begun with another recipe (see {path}); resume it with that one, "
                "or give this one another folder"
            )
        path.write_text(text, encoding="utf-8")

    def time_is_up(self) -> bool:
        """Whether another step as long as the longest so far would overrun the slice."""
        return time.monotonic() + 1.2 * self._longest_step > self._deadline

    def record(self, step: int, figures: Mapping[str, float], episodes: Sequence[Episode] = ()) -> None:
        """Keep a step's figures and a few of its episodes."""
        self._longest_step = max(self._longest_step, figures.get("seconds", 0.0))
        self.store.add_metrics(step, {k: v for k, v in figures.items() if math.isfinite(v)})
        for episode in episodes:
            self.store.add_episode(episode, attempt=step)

    def save_best(self, policy: Policy, figures: Mapping[str, Any]) -> None:
        """Keep the weights that did best on the dev questions so far."""
        from .export import save_trained

        folder = self.folder / "best"
        save_trained(policy, folder, base=self.recipe.model.path)
        (folder / "dev.json").write_text(json.dumps(dict(figures)), encoding="utf-8")

    def close(self) -> None:
        self.store.close()
