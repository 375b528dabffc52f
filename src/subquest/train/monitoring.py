"""Monitoring a run: a live table in the terminal, TensorBoard files, and trackers such as Weights & Biases.

All of them get the same figures, once a step, from the first process.
"""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TextIO

from ..errors import UsageError
from .recipe import Recipe

TRACKERS = ("wandb", "trackio")
"""Packages with `init`, `log` and `finish` as Weights & Biases has them."""

COLUMNS: Mapping[str, Sequence[tuple[str, str]]] = {
    "rl": (
        ("reward", "reward"), ("f1", "f1"), ("em", "em"), ("dev_em", "dev em"), ("dev_f1", "dev f1"), ("kl", "kl"),
        ("entropy", "entropy"), ("clip_fraction", "clipped"), ("tasks", "tasks"),
        ("one_task", "one task"), ("turns", "turns"),
        ("idle_executors", "idle"), ("cut_turns", "cut"), ("gradient_norm", "grad"), ("tokens_s_rollout", "roll tok/s"),
        ("tokens_s_update", "upd tok/s"), ("seconds", "s"),
    ),
    "plan": (
        ("reward", "reward"), ("dev_reward", "dev reward"), ("kl", "kl"), ("entropy", "entropy"),
        ("clip_fraction", "clipped"), ("cut_turns", "cut"), ("gradient_norm", "grad"),
        ("tokens_s_rollout", "roll tok/s"), ("tokens_s_update", "upd tok/s"), ("seconds", "s"),
    ),
    "sft": (
        ("loss", "loss"), ("dev_em", "dev em"), ("dev_f1", "dev f1"), ("gradient_norm", "grad"),
        ("learning_rate", "rate"), ("epoch", "epoch"), ("tokens_per_second", "tok/s"), ("seconds", "s"),
    ),
}  # fmt: skip
"""Figures in the table and their headings, by kind of recipe; `plan` is reinforcement learning of plans only."""
HEADING_EVERY = 20
STEPS, SECONDS_LEFT = "steps", "seconds_left"
"""Figures that say how far a run is, for those who watch it; they are not stored with it."""


class Monitor(Protocol):
    def log(self, step: int, figures: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


class Table:
    """One row per step. On a terminal the last line shows the current activity."""

    def __init__(self, kind: str, out: TextIO, *, live: bool) -> None:
        self._columns = COLUMNS[kind]
        self._out, self._live = out, live
        self._rows = 0
        self._status = False

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        self._clear()
        if self._rows % HEADING_EVERY == 0:
            self._line(["step", *(heading for _, heading in self._columns), "left"])
        self._rows += 1
        total, left = figures.get(STEPS), figures.get(SECONDS_LEFT)
        row = [number(figures.get(name)) for name, _ in self._columns]
        self._line([f"{step}/{total:.0f}" if total else str(step), *row, clock(left) if left is not None else "-"])

    def status(self, text: str) -> None:
        """Show the current activity; the next row or status replaces it."""
        if self._live:
            width = shutil.get_terminal_size().columns - 1
            self._out.write(f"\r\x1b[2K{text[:width]}")
            self._out.flush()
            self._status = True

    def close(self) -> None:
        self._clear()

    def _clear(self) -> None:
        if self._status:
            self._out.write("\r\x1b[2K")
            self._status = False

    def _line(self, cells: Sequence[str]) -> None:
        widths = [9, *(max(len(heading), 7) for _, heading in self._columns), 8]
        self._out.write("  ".join(f"{c:>{w}}" for c, w in zip(cells, widths, strict=True)).rstrip() + "\n")
        self._out.flush()


class JsonLines:
    """Each step's figures as a line of JSON, for programs."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        self._out.write(json.dumps({"step": step, **figures}) + "\n")
        self._out.flush()

    def close(self) -> None:
        """Nothing to close."""


class TensorBoardFiles:
    """Curves for TensorBoard, in event files that a resumed run adds to; none where tensorboardX is not installed."""

    def __init__(self, folder: Path) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            self._writer: Any = None
        else:
            self._writer = SummaryWriter(str(folder))

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        if self._writer is not None:
            for name, value in figures.items():
                self._writer.add_scalar(name, value, step)
            self._writer.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


class Tracker:
    """Weights & Biases, trackio, or anything with their three functions."""

    def __init__(self, package: str, recipe: Recipe, folder: Path) -> None:
        if package not in TRACKERS:
            raise UsageError(f"unknown tracker {package!r}; there are {', '.join(TRACKERS)}")
        try:
            self._module: Any = importlib.import_module(package)
        except ImportError:
            raise UsageError(f"{package} is not installed. Install it with: pip install {package}") from None
        self._module.init(project="subquest", name=f"{recipe.name}-{folder.name}", config=recipe.as_dict())

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        self._module.log(dict(figures), step=step)

    def close(self) -> None:
        self._module.finish()


class Monitors:
    """All monitors of one run."""

    def __init__(self, monitors: Sequence[Monitor], status: Callable[[str], None] | None = None) -> None:
        self._monitors = monitors
        self.status = status

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        for monitor in self._monitors:
            monitor.log(step, figures)

    def close(self) -> None:
        for monitor in self._monitors:
            monitor.close()


def open_monitors(
    recipe: Recipe, folder: Path, out: TextIO, *, as_json: bool = False, trackers: Sequence[str] = ()
) -> Monitors:
    """The table (or JSON lines) on `out`, TensorBoard's files in the run's folder, and the trackers named."""
    plans = recipe.kind == "rl" and recipe.settings.get("plan_only")
    table = Table("plan" if plans else recipe.kind, out, live=out.isatty())
    first: Monitor = JsonLines(out) if as_json else table
    others: list[Monitor] = [Tracker(name, recipe, folder) for name in trackers]
    files = TensorBoardFiles(folder / "tensorboard")
    return Monitors([first, files, *others], None if as_json else table.status)


def clock(seconds: float) -> str:
    """A duration as `4:05` or `1:04:05`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def number(value: float | None) -> str:
    """A number in at most four digits."""
    if value is None:
        return "-"
    if abs(value) >= 10_000:
        return f"{value / 1000:.0f}k"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
