"""What every question got, arm by arm: small enough to keep in the project, whole enough for paired comparisons.

One file an arm, JSON in xz. A *unit* is one arm on one part of a source (a world, a real set); it is stored when all
its questions are answered, so a run that is cut off repeats at most the units it was at. Metrics of answers are kept a
question each (in thousandths), costs as means.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import lzma
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .book import Arm

KEPT = ("em", "f1", "cem", "judge", "sepr")
"""Metrics that are kept for each question."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One arm on one part of a source."""

    source: str
    questions: str
    """Digest of the questions' ids: units of two arms with the same digest can be compared question by question."""
    hops: tuple[int, ...]
    values: Mapping[str, tuple[int, ...]]
    """Metric to thousandths, in the order of the questions."""
    means: Mapping[str, float] = field(default_factory=dict)

    def metric(self, name: str, *, hops: int = 0) -> list[float]:
        """The values of the questions with at least so many hops."""
        return [v / 1000 for v, h in zip(self.values.get(name, ()), self.hops, strict=True) if h >= hops]


@dataclass(frozen=True, slots=True)
class ArmResult:
    definition: str
    weights: str
    units: Mapping[str, Unit] = field(default_factory=dict)

    def of(self, source: str) -> dict[str, Unit]:
        return {name: unit for name, unit in self.units.items() if unit.source == source}


def definition(arm: Arm) -> str:
    """What the arm's numbers depend on, weights and questions aside."""
    told = dataclasses.asdict(arm) | {"sources": ()}
    return digest(json.dumps(told, sort_keys=True, default=dict))


def digest(*texts: str) -> str:
    return hashlib.sha256("\x1f".join(texts).encode()).hexdigest()[:16]


def unit_of(source: str, ids: Sequence[str], hops: Sequence[int], scores: Sequence[Mapping[str, float]]) -> Unit:
    """The scores of all questions of a unit, in their order."""
    kept = [m for m in KEPT if any(m in s for s in scores)]
    values = {m: tuple(round(1000 * s.get(m, 0.0)) for s in scores) for m in kept}
    names = sorted({name for s in scores for name in s} - set(KEPT))
    means = {}
    for name in names:
        found = [s[name] for s in scores if name in s]
        means[name] = round(sum(found) / len(found), 4)
    return Unit(source, digest(*ids), tuple(hops), values, means)


class Results:
    """The stored results of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._held: dict[str, ArmResult | None] = {}

    def arm(self, arm: Arm) -> ArmResult | None:
        """What is stored of an arm; nothing where it was defined otherwise then."""
        if arm.id not in self._held:
            self._held[arm.id] = _read(self._path(arm.id))
        found = self._held[arm.id]
        return found if found is not None and found.definition == definition(arm) else None

    def done(self, arm: Arm, unit: str, questions: str, weights: str) -> bool:
        found = self.arm(arm)
        if found is None or found.weights != weights or unit not in found.units:
            return False
        return found.units[unit].questions == questions

    def add(self, arm: Arm, name: str, unit: Unit, weights: str) -> None:
        """Keep a finished unit. Units that other weights answered are dropped: an arm is one model's."""
        found = self.arm(arm)
        units = dict(found.units) if found is not None and found.weights == weights else {}
        self._held[arm.id] = result = ArmResult(definition(arm), weights, units | {name: unit})
        _write(self._path(arm.id), dataclasses.asdict(result))

    def curve(self, training: str) -> dict[str, list[list[float]]]:
        """Figure to pairs of step and value; empty where the training was not run."""
        path = self._path(f"train-{training}")
        return json.loads(lzma.decompress(path.read_bytes())) if path.is_file() else {}

    def keep_curve(self, training: str, figures: Mapping[str, Sequence[tuple[int, float]]]) -> None:
        _write(self._path(f"train-{training}"), {name: list(map(list, points)) for name, points in figures.items()})

    def _path(self, name: str) -> Path:
        return self.folder / f"{re.sub(r'[^A-Za-z0-9=.,@-]+', '_', name)}.json.xz"


def _read(path: Path) -> ArmResult | None:
    if not path.is_file():
        return None
    data: dict[str, Any] = json.loads(lzma.decompress(path.read_bytes()))
    units = {
        name: Unit(
            u["source"], u["questions"], tuple(u["hops"]), {m: tuple(v) for m, v in u["values"].items()}, u["means"]
        )
        for name, u in data["units"].items()
    }
    return ArmResult(data["definition"], data["weights"], units)


def _write(path: Path, data: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    building = path.with_suffix(".tmp")
    building.write_bytes(lzma.compress(json.dumps(data, separators=(",", ":")).encode(), preset=6))
    os.replace(building, path)
