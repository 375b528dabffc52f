"""How long what is left will take: by measured speeds where a kind of work has been done, by a guess before.

Speeds are those of one process while as many run beside it as usually do, so minutes are questions over speed over
processes. Guesses are marked as such; the first slice replaces them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .book import BARE as NO_ADAPTER
from .book import Arm, Book, Training
from .measure import Stamps, known_as
from .results import Results

GUESSES = {"rag": 60.0, "search-r1": 30.0, "autorefine": 30.0, "coda": 24.0, "decor": 18.0, "apex": 20.0}
"""Questions a second of one process of six on an H200, with an adapter and three documents a search. CoDA's is measured
(four processes with 500 questions each, 23 seconds after their start); the others' follow from what they write."""
SLOW = 0.4
"""A model without an adapter writes to the end of its turns."""
PLAN_ONLY = 3.0
DOCUMENT = 0.06
"""What each document beyond three adds to the time."""
ORACLE = 45.0
"""Questions a second of one core: the oracle needs no GPU."""
STEP, STEP_SFT = 0.04, 0.25
"""Seconds of a training step, for each of its rollouts, or of 32 gold traces, four side by side. Measured of a single
agent; CoDA takes 0.06."""
UNSAID: Mapping[str, Any] = {"system": "coda", "rollout.questions": 48, "rollout.group": 8}
"""What a recipe means that does not say it."""
BEGIN_TRAINING = 25.0
"""Seconds before a training's first step: imports, worlds, the model, graphs."""
BEGIN_SLICE = 30.0
"""Seconds of a slice on a bare machine before its first question."""
REAL_SET = 485
"""Questions of a real set at least."""
TRAINED, START, BARE = range(3)
"""What is answered first, next and last."""


def speed_kind(arm: Arm) -> str:
    """Arms that are about as fast as each other."""
    if arm.oracle:
        return f"{arm.system} oracle"
    known = "bare" if NO_ADAPTER in arm.adapters.values() else "adapter"
    plan = " plan only" if arm.settings.get("plan_only") else ""
    return f"{arm.system}{plan} {known} k={arm.settings.get('k', 3)}"


def guess(arm: Arm) -> float:
    """Questions a second."""
    if arm.oracle:
        return ORACLE
    speed = GUESSES.get(arm.system, 25.0) / (1 + DOCUMENT * max(int(arm.settings.get("k", 3)) - 3, 0))
    speed *= SLOW if NO_ADAPTER in arm.adapters.values() else 1.0
    return speed * (PLAN_ONLY if arm.settings.get("plan_only") else 1.0)


def value_of(book: Book, arm: Arm) -> int:
    if any(name in book.trainings for name in arm.adapters.values()):
        return TRAINED
    return BARE if NO_ADAPTER in arm.adapters.values() else START


class Span(NamedTuple):
    """Some work and how long it takes."""

    name: str
    seconds: float
    """Of one process."""
    measured: bool


def evaluation_seconds(arm: Arm, questions: int, speeds: Mapping[str, Sequence[float]]) -> Span:
    kind = speed_kind(arm)
    done, took = speeds.get(kind, (0.0, 0.0))
    speed = done / took if took > 1 else 0.0
    return Span(kind, questions / (speed or guess(arm)), bool(speed))


def training_kind(training: Training) -> str:
    """Trainings whose steps take about as long as each other's."""
    if _setting(training, "kind") == "sft":
        return "fine-tuning"
    return f"training {_setting(training, 'system')}, {_rollouts(training)} rollouts"


def training_seconds(training: Training, speeds: Mapping[str, Sequence[float]], *, done: int = 0) -> Span:
    """From its start, or from step `done`, to its adapter."""
    kind = training_kind(training)
    steps = max(int(_setting(training, "optimiser.steps")) - done, 0)
    known, took = speeds.get(kind, (0.0, 0.0))
    step = STEP_SFT if kind == "fine-tuning" else STEP * _rollouts(training)
    return Span(kind, steps * took / known if known else BEGIN_TRAINING + steps * step, bool(known))


def _rollouts(training: Training) -> int:
    return int(_setting(training, "rollout.questions")) * int(_setting(training, "rollout.group"))


def _setting(training: Training, key: str) -> Any:
    """A setting of the training's recipe, as the training changes it."""
    if key in training.set:
        return training.set[key]
    found: Any = tomllib.loads(training.recipe.read_text(encoding="utf-8"))
    for part in key.split("."):
        found = found.get(part, {})
    return found or UNSAID[key]


def expected(book: Book, arm: Arm, source: str) -> int:
    """Questions of a source that an arm is asked: worlds say how many they have, real sets have at least so many."""
    told = book.sources[source].questions
    seeds = re.search(r"seeds=(\d+)-(\d+)", told)
    each = re.search(r"questions=(\d+)", told)
    size = int(each[1]) if each else REAL_SET
    if seeds is None:
        return size
    worlds = range(1, int(seeds[2]) - int(seeds[1]) + 2)
    return size * sum(book.asks(arm, f"{source}-{n}") for n in worlds)


def answered(book: Book, arm: Arm, source: str, results: Results, stamps: Stamps) -> int:
    """Questions with a fresh result, by what is stored alone (no world is made for it)."""
    found = results.arm(arm.id, stamps.of(arm))
    units = found.of(source, book.sources[source].told) if found else {}
    return sum(len(unit.hops) for name, unit in units.items() if book.asks(arm, name))


def unanswered(book: Book, arm: Arm, results: Results, stamps: Stamps) -> int:
    names = book.sources_of(arm)
    return sum(max(expected(book, arm, s) - answered(book, arm, s, results, stamps), 0) for s in names)


def untrained(
    book: Book, trainings: Iterable[Training], results: Results, stamps: Stamps, adapters: Mapping[str, str]
) -> list[Training]:
    """Trainings whose adapter is needed: not at hand, and with rows that are not complete."""
    out = []
    for training in trainings:
        if training.id in adapters:
            continue
        users = [a for a in book.arms.values() if training.id in a.adapters.values()]
        curve = results.training(training.id, known_as(book, training))
        if not curve or any(unanswered(book, a, results, stamps) for a in users):
            out.append(training)
    return out
