"""What every question got, arm by arm: small enough to keep in the project, whole enough for paired comparisons.

One file an arm, JSON in xz, with the stamp it was measured with. A *unit* is one arm on one part of a source (a world,
a real set); it is stored when all its questions are answered. What a run that was cut off had answered of a unit stands
in `partial.json.xz` until the rest is there. Metrics of answers are kept a question each (in thousandths), costs as
means.
"""

from __future__ import annotations

import dataclasses
import json
import lzma
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..record import Question
from .measure import Stamp, digest

KEPT = ("em", "f1", "cem", "judge", "sepr", "interactions", "completion_tokens")
"""Figures that are kept for each question."""
PARTIAL, SPEEDS = "partial", "speeds"

Scores = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Unit:
    """One arm on one part of a source."""

    source: str
    asked: str
    """The source as the book tells it (`Source.told`)."""
    questions: str
    """Digest of questions, gold answers and index: units of two arms with the same one can be compared."""
    hops: tuple[int, ...]
    values: Mapping[str, tuple[int, ...]]
    """Figure to thousandths, in the order of the questions."""
    means: Mapping[str, float] = field(default_factory=dict)

    def metric(self, name: str, *, hops: int = 0) -> list[float]:
        """The values of the questions with at least so many hops."""
        return [v / 1000 for v, h in zip(self.values.get(name, ()), self.hops, strict=False) if h >= hops]


@dataclass(frozen=True, slots=True)
class ArmResult:
    stamp: Stamp
    units: Mapping[str, Unit] = field(default_factory=dict)

    def of(self, source: str, asked: str = "") -> dict[str, Unit]:
        """The units of a source; with `asked`, of the questions that it has now."""
        return {n: u for n, u in self.units.items() if u.source == source and (not asked or u.asked == asked)}


def questions_digest(questions: Sequence[Question], index: str) -> str:
    """What is asked, of which passages (`evaluate.fingerprint.of_index`)."""
    return digest(*(json.dumps([q.id, q.question, q.answers]) for q in questions), index)


def unit_of(source: str, asked: str, questions: str, hops: Sequence[int], scores: Sequence[Scores]) -> Unit:
    """The scores of all questions of a unit, in their order."""
    kept = [m for m in KEPT if any(m in s for s in scores)]
    values = {m: tuple(round(1000 * s.get(m, 0.0)) for s in scores) for m in kept}
    means = {}
    for name in sorted({name for s in scores for name in s} - {"em", "f1", "cem", "judge", "sepr"}):
        found = [s[name] for s in scores if name in s]
        means[name] = round(sum(found) / len(found), 4)
    return Unit(source, asked, questions, tuple(hops), values, means)


class Results:
    """The stored results of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._held: dict[str, ArmResult | None] = {}

    def stored(self, arm: str) -> ArmResult | None:
        """What is stored of an arm, whatever it was measured with."""
        if arm not in self._held:
            self._held[arm] = _read(self._path(arm))
        return self._held[arm]

    def arm(self, arm: str, stamp: Stamp) -> ArmResult | None:
        """What is stored of an arm; nothing where it was measured with something else."""
        found = self.stored(arm)
        return found if found is not None and not stamp.differs(found.stamp) else None

    def stale(self, arm: str, stamp: Stamp) -> str:
        """Why what is stored of an arm does not count; empty where it does or nothing is stored."""
        found = self.stored(arm)
        return "" if found is None else stamp.differs(found.stamp)

    def unit(self, arm: str, stamp: Stamp, name: str, questions: str) -> Unit | None:
        """A unit that need not be asked again."""
        found = self.arm(arm, stamp)
        unit = found.units.get(name) if found else None
        return unit if unit is not None and unit.questions == questions else None

    def add(self, arm: str, stamp: Stamp, name: str, unit: Unit) -> None:
        """Keep a finished unit. Units that were measured with something else are dropped: an arm is one model's."""
        found = self.arm(arm, stamp)
        units = dict(found.units) if found is not None else {}
        self._held[arm] = result = ArmResult(stamp, units | {name: unit})
        _write(self._path(arm), dataclasses.asdict(result))

    # ---- what is under way

    def partial(self) -> dict[str, dict[int, dict[str, float]]]:
        """Scores by question of the units that are not complete, by what they are (`partial_key`)."""
        found = _json(self._path(PARTIAL)) or {}
        return {key: {int(n): scores for n, scores in answers.items()} for key, answers in found.items()}

    def keep_partial(self, answers: Mapping[str, Mapping[int, Scores]]) -> None:
        path = self._path(PARTIAL)
        if kept := {key: found for key, found in answers.items() if found}:
            _write(path, kept)
        else:
            path.unlink(missing_ok=True)

    def speeds(self) -> dict[str, list[float]]:
        """Measured speed by kind of work: how much was done, and the seconds of one process that it took."""
        return _json(self._path(SPEEDS)) or {}

    def keep_speed(self, kind: str, count: float, seconds: float) -> None:
        found = self.speeds()
        done, took = found.get(kind, [0.0, 0.0])
        found[kind] = [round(done + count, 1), round(took + seconds, 1)]
        _write(self._path(SPEEDS), found)

    # ---- trainings

    def training(self, training: str, recipe: str) -> dict[str, Any]:
        """`adapter` (its digest, empty before the last step) and `figures` of a training; empty where it was not run
        or is another one now."""
        found = _json(self._path(f"train-{training}")) or {}
        return found if found.get("recipe") == recipe else {}

    def keep_training(
        self, training: str, recipe: str, adapter: str, figures: Mapping[str, Sequence[tuple[int, float]]]
    ) -> None:
        points = {name: list(map(list, found)) for name, found in figures.items()}
        _write(self._path(f"train-{training}"), {"recipe": recipe, "adapter": adapter, "figures": points})

    def _path(self, name: str) -> Path:
        return self.folder / f"{re.sub(r'[^A-Za-z0-9=.,@-]+', '_', name)}.json.xz"


def partial_key(stamp: Stamp, name: str, questions: str) -> str:
    return f"{stamp.key}/{name}/{questions}"


def _json(path: Path) -> Any:
    return json.loads(lzma.decompress(path.read_bytes())) if path.is_file() else None


def _read(path: Path) -> ArmResult | None:
    data: dict[str, Any] | None = _json(path)
    if data is None or "stamp" not in data:
        return None
    units = {
        name: Unit(**{**u, "hops": tuple(u["hops"]), "values": {m: tuple(v) for m, v in u["values"].items()}})
        for name, u in data["units"].items()
    }
    return ArmResult(Stamp(**data["stamp"]), units)


def _write(path: Path, data: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    building = path.with_suffix(".tmp")
    building.write_bytes(lzma.compress(json.dumps(data, separators=(",", ":")).encode(), preset=6))
    os.replace(building, path)
