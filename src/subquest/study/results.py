"""What every question got, variant by variant: small enough to keep in the project, complete enough for paired
comparisons.

One file per variant, JSON in xz, with the stamp it was measured with. A *unit* is one variant on one part of a source
(a world, a real set). It is stored when all its questions are answered; until then `partial-VARIANT.json.xz` keeps what
a run that was cut off had answered. Processes that answer for different variants can share a folder. Metrics of answers
are kept per question (in thousandths), costs as means.
"""

from __future__ import annotations

import dataclasses
import json
import lzma
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ..codec import Record, from_dict
from ..record import Episode, Question
from ..runs.jsonl import entry_line, episode_entry, run_entry
from .design import Study, Training, Variant
from .stamps import Stamp, Stamps, digest, known_as

KEPT = ("em", "f1", "cem", "judge", "sepr", "interactions", "completion_tokens", "written_planner")
"""Figures that are kept for each question."""
PARTIAL = "partial"
REAL_SET = 485
"""Questions that a real set has at least."""

Scores = Mapping[str, float]


class Unit(Record):
    """One variant on one part of a source."""

    source: str
    asked: str
    """What the source was (`Source.description`)."""
    questions: str
    """Digest of questions, gold answers and index: units of two variants with the same digest can be compared."""
    hops: tuple[int, ...]
    values: Mapping[str, tuple[int, ...]]
    """Figure to thousandths, in the order of the questions."""
    means: Mapping[str, float] = {}

    def metric(self, name: str, *, hops: int = 0) -> list[float]:
        """The values of the questions with at least this many hops."""
        return [v / 1000 for v, h in zip(self.values.get(name, ()), self.hops, strict=False) if h >= hops]


class VariantResult(Record):
    stamp: Stamp
    units: Mapping[str, Unit] = {}

    def of(self, source: str, asked: str = "") -> dict[str, Unit]:
        """The units of a source; with `asked`, only those of the questions that it has now."""
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
        self._held: dict[str, VariantResult | None] = {}

    def stored(self, variant: str) -> VariantResult | None:
        """What is stored of a variant, whatever it was measured with."""
        if variant not in self._held:
            found = self.read(variant)
            self._held[variant] = from_dict(VariantResult, found) if found and "stamp" in found else None
        return self._held[variant]

    def fresh(self, variant: str, stamp: Stamp) -> VariantResult | None:
        """What is stored of a variant; None where it was measured with something else."""
        found = self.stored(variant)
        return found if found is not None and not stamp.differs(found.stamp) else None

    def stale(self, variant: str, stamp: Stamp) -> str:
        """Why what is stored of a variant does not count; empty where it does or nothing is stored."""
        found = self.stored(variant)
        return "" if found is None else stamp.differs(found.stamp)

    def unit(self, variant: str, stamp: Stamp, name: str, questions: str) -> Unit | None:
        """A unit that need not be asked again."""
        found = self.fresh(variant, stamp)
        unit = found.units.get(name) if found else None
        return unit if unit is not None and unit.questions == questions else None

    def add(self, variant: str, stamp: Stamp, name: str, unit: Unit) -> None:
        """Keep a finished unit. Units that were measured with something else are dropped: a result is one model's."""
        found = self.fresh(variant, stamp)
        units = dict(found.units) if found is not None else {}
        self._held[variant] = result = VariantResult(stamp, {**units, name: unit})
        self.write(variant, dataclasses.asdict(result))

    def partial(self, variant: str) -> dict[str, dict[int, dict[str, float]]]:
        """Scores by question of a variant's units that are not complete, by what they are (`partial_key`)."""
        found = self.read(f"{PARTIAL}-{variant}") or {}
        return {key: {int(n): scores for n, scores in answers.items()} for key, answers in found.items()}

    def keep_partial(self, variant: str, answers: Mapping[str, Mapping[int, Scores]]) -> None:
        """What was answered of units; those without answers are complete or were never begun."""
        if kept := {key: found for key, found in {**self.partial(variant), **answers}.items() if found}:
            self.write(f"{PARTIAL}-{variant}", kept)
        else:
            self._path(f"{PARTIAL}-{variant}").unlink(missing_ok=True)

    def keep_episode(self, variant: str, episode: Episode, scores: Scores) -> None:
        """An episode to be read: the file is an exported run."""
        place = self.folder / "episodes" / f"{_file_name(variant)}.jsonl"
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("a", encoding="utf-8") as file:
            entries = [] if file.tell() else [run_entry({"settings": {"variant": variant}})]
            entries += [episode_entry(episode, 0, time.time())]
            entries += [{"type": "scores", "episode": episode.id, "scores": dict(scores)}]
            file.writelines(entry_line(entry) + "\n" for entry in entries)

    def training(self, training: str, recipe: str) -> dict[str, Any]:
        """`adapter` (its digest, empty before the last step) and `figures` of a training; empty where it was not run
        or is another one now."""
        found = self.read(f"train-{training}") or {}
        return found if found.get("recipe") == recipe else {}

    def keep_training(
        self, training: str, recipe: str, adapter: str, figures: Mapping[str, Sequence[tuple[int, float]]]
    ) -> None:
        points = {name: list(map(list, found)) for name, found in figures.items()}
        self.write(f"train-{training}", {"recipe": recipe, "adapter": adapter, "figures": points})

    def read(self, name: str) -> Any:
        """The content of a file of the folder; None where there is none."""
        path = self._path(name)
        return json.loads(lzma.decompress(path.read_bytes())) if path.is_file() else None

    def write(self, name: str, data: Any) -> None:
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        building = path.with_suffix(".tmp")
        building.write_bytes(lzma.compress(json.dumps(data, separators=(",", ":")).encode(), preset=6))
        os.replace(building, path)

    def _path(self, name: str) -> Path:
        return self.folder / f"{_file_name(name)}.json.xz"


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9=.,@-]+", "_", name)


def partial_key(stamp: Stamp, name: str, questions: str) -> str:
    return f"{stamp.key}/{name}/{questions}"


class RowCount(NamedTuple):
    """Rows, each a variant on a source."""

    done: int
    left: int
    stale: int


class Progress:
    """How much of a study is answered, by what is stored alone (no world is generated for it)."""

    def __init__(self, study: Study, results: Results, stamps: Stamps) -> None:
        self.study, self.results, self.stamps = study, results, stamps

    def fresh(self, variant: Variant) -> VariantResult | None:
        return self.results.fresh(variant.name, self.stamps.of(variant))

    def stale(self, variant: Variant) -> str:
        return self.results.stale(variant.name, self.stamps.of(variant))

    def expected(self, variant: Variant, source: str) -> int:
        """Questions of a source that a variant is asked: worlds say how many they have, real sets have at least some
        hundreds."""
        dataset, limit = self.study.sources[source].dataset, self.study.sources[source].limit
        seeds, each = re.search(r"seeds=(\d+)-(\d+)", dataset), re.search(r"questions=(\d+)", dataset)
        size = int(each[1]) if each else REAL_SET
        size = min(size, limit or size)
        if seeds is None:
            return size
        worlds = range(1, int(seeds[2]) - int(seeds[1]) + 2)
        return size * sum(self.study.asks(variant, f"{source}-{n}") for n in worlds)

    def answered(self, variant: Variant, source: str) -> int:
        """Questions with a fresh result."""
        found = self.fresh(variant)
        units = found.of(source, self.study.sources[source].description) if found else {}
        return sum(len(unit.hops) for name, unit in units.items() if self.study.asks(variant, name))

    def unanswered(self, variant: Variant) -> int:
        """Questions to ask: a part of a set is answered with the set, where that is asked too."""
        names = self.study.sources_of(variant)
        left = {s: max(self.expected(variant, s) - self.answered(variant, s), 0) for s in names}
        return sum(count for s, count in left.items() if not left.get(self.study.sources[s].set))

    def rows(self, variants: Iterable[Variant]) -> RowCount:
        done = left = stale = 0
        for variant in variants:
            for name in self.study.sources_of(variant):
                complete = self.answered(variant, name) >= self.expected(variant, name)
                done, left = done + complete, left + (not complete)
                stale += not complete and bool(self.stale(variant))
        return RowCount(done, left, stale)

    def untrained(self, trainings: Iterable[Training]) -> list[Training]:
        """Trainings whose adapter is needed: not available, and with rows that are not complete."""
        out = []
        for training in trainings:
            if training.name in self.stamps.adapters:
                continue
            users = [v for v in self.study.variants.values() if training.name in v.adapters.values()]
            curve = self.results.training(training.name, known_as(self.study, training))
            if not curve or any(map(self.unanswered, users)):
                out.append(training)
        return out


def with_origins(study: Study, results: Results) -> Study:
    """The study with what its trainings start from: the adapters that were made as such, once there are any."""
    recipes = {name: known_as(study, study.trainings[name]) for name in study.starts}
    made = {name: results.training(name, recipe).get("adapter") for name, recipe in recipes.items()}
    return replace(study, origins={name: made[name] or recipe for name, recipe in recipes.items()})
