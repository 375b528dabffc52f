"""Curves of training runs: what was watched over the steps, runs side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ...errors import DataError, UsageError
from ...plots import Point, Series, picture
from ...runs import RunStore
from .content import run_names

DRAWN = {
    "dev_em": "held-out EM, by step",
    "dev_reward": "held-out reward, by step",
    "reward": "reward of the rollouts, by step",
    "em": "EM of the rollouts, by step",
    "loss": "loss, by step",
}
"""What is drawn where nothing else is asked for, as far as a run has it."""
MOST = 120
"""Points a curve is drawn with; where there are more steps, neighbours are averaged."""


def is_training(path: str | Path) -> bool:
    """Whether this is a run of `subquest train`: it names its recipe."""
    with RunStore.open(path) as store:
        return "recipe" in store.settings


class Curves:
    """The figures of training runs by step."""

    def __init__(self, paths: Sequence[str | Path]) -> None:
        settings, figures = {}, {}
        for path in map(Path, paths):
            with RunStore.open(path) as store:
                settings[path] = store.settings
                found: dict[str, list[tuple[int, float]]] = {}
                for step, name, value in store.metrics():
                    found.setdefault(name, []).append((step, value))
            if not found:
                raise DataError(f"{path} holds no training figures yet: look again when its first step is done")
            figures[path] = found
        names = run_names(settings)
        self._figures = {names[path]: found for path, found in figures.items()}

    def table(self) -> Mapping[str, Mapping[str, Sequence[tuple[int, float]]]]:
        """(step, value) of each figure of each run."""
        return self._figures

    def drawn(self, metrics: Sequence[str] = (), *, title: str = "") -> str:
        """An SVG with a panel a figure; `metrics` instead of the usual ones."""
        known = {name for found in self._figures.values() for name in found}
        if unknown := [name for name in metrics if name not in known]:
            raise UsageError(f"no run has a figure {unknown[0]!r}; there are {', '.join(sorted(known))}")
        wanted = metrics or [name for name in DRAWN if name in known]
        panels = {
            DRAWN.get(name, f"{name}, by step"): [
                Series(run, averaged(found[name])) for run, found in self._figures.items() if name in found
            ]
            for name in wanted
        }
        return picture(title or "Training: " + ", ".join(self._figures), panels, y_log=False)


def averaged(points: Sequence[tuple[int, float]], most: int = MOST) -> list[Point]:
    """A curve with a limited number of points, each the mean of equally many neighbouring steps."""
    width = -(-len(points) // most)
    out = []
    for at in range(0, len(points), width):
        part = points[at : at + width]
        steps, values = zip(*part, strict=True)
        span = f"step {steps[0]}" if len(part) == 1 else f"steps {steps[0]} to {steps[-1]}"
        mean = sum(values) / len(values)
        out.append(Point(sum(steps) / len(steps), mean, note=f"{span}: {mean:.4g}"))
    return out
