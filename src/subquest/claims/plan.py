"""What is left of the table, and the slices of time it will take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..errors import UsageError
from .book import Arm, Book, Training
from .measure import Stamps
from .results import Results
from .timing import (
    BEGIN_SLICE,
    Span,
    answered,
    evaluation_seconds,
    expected,
    training_seconds,
    unanswered,
    untrained,
    value_of,
)

TRAIN = 0.6
"""Share of a slice that trainings may take where both are asked for."""
BESIDE = 0.85
"""The same, where questions are answered all the while: what is trained last must still be answered with."""


class Task(NamedTuple):
    """An arm that is not complete."""

    arm: Arm
    questions: int
    span: Span


@dataclass(slots=True)
class Slice:
    trainings: list[Training] = field(default_factory=list)
    training: float = 0.0
    """Minutes."""
    questions: dict[str, int] = field(default_factory=dict)
    evaluation: float = 0.0
    begin: float = BEGIN_SLICE / 60

    @property
    def minutes(self) -> float:
        return self.begin + self.training + self.evaluation


class Rows(NamedTuple):
    """Rows of the table: an arm on a source."""

    done: int
    left: int
    stale: int


def rows_of(book: Book, arms: Sequence[Arm], results: Results, stamps: Stamps) -> Rows:
    done = left = stale = 0
    for arm in arms:
        for name in book.sources_of(arm):
            complete = answered(book, arm, name, results, stamps) >= expected(book, arm, name)
            done, left = done + complete, left + (not complete)
            stale += not complete and bool(results.stale(arm.id, stamps.of(arm)))
    return Rows(done, left, stale)


def tasks_of(book: Book, arms: Sequence[Arm], results: Results, stamps: Stamps) -> list[Task]:
    """Arms with questions left, each measurement once, in the order of the claims."""
    speeds = results.speeds()
    seen: set[str] = set()
    out = []
    for arm in arms:
        stamp = stamps.of(arm)
        key = stamp.key if all(stamp.weights.values()) else arm.id
        questions = unanswered(book, arm, results, stamps)
        if questions and key not in seen:
            out.append(Task(arm, questions, evaluation_seconds(arm, questions, speeds)))
        seen.add(key)
    return out


def slices_of(
    book: Book, arms: Sequence[Arm], results: Results, stamps: Stamps, *, minutes: float, workers: int
) -> list[Slice]:
    """How slices of `--train --run --minutes M` are likely to go: trainings first, then the arms that can be run."""
    if minutes <= BEGIN_SLICE / 60:
        raise UsageError(f"--minutes {minutes:g}: a slice takes {BEGIN_SLICE:g} seconds before its first question")
    speeds = results.speeds()
    needed = {name for arm in arms for name in arm.adapters.values()}
    wanted = [t for t in book.trained(()) if t.id in needed] if book.trainings else []
    waiting = untrained(book, wanted, results, stamps, stamps.adapters)
    missing = {t.id for t in waiting}
    todo = sorted(tasks_of(book, arms, results, stamps), key=lambda t: value_of(book, t.arm))
    left = {t.arm.id: t.span.seconds / 60 / workers for t in todo}
    slices: list[Slice] = []
    while waiting or any(left.values()):
        one = Slice()
        while waiting and one.minutes + _batch(waiting, speeds) <= max(TRAIN * minutes, _batch(waiting, speeds) + 1):
            batch, waiting = waiting[:workers], waiting[workers:]
            one.training += _batch(batch, speeds)
            one.trainings += batch
            missing -= {t.id for t in batch}
        for task in todo:
            room = minutes - one.minutes
            if room > 0 and left[task.arm.id] and not missing & set(task.arm.adapters.values()):
                taken = min(room, left[task.arm.id])
                one.evaluation += taken
                left[task.arm.id] = 0 if taken == left[task.arm.id] else left[task.arm.id] - taken
                count = round(task.questions * taken * workers * 60 / task.span.seconds)
                one.questions[task.span.name] = one.questions.get(task.span.name, 0) + count
        slices.append(one)
    return slices


def _batch(trainings: Sequence[Training], speeds: Mapping[str, Sequence[float]]) -> float:
    return training_seconds(trainings[0], speeds).seconds / 60 if trainings else 0.0


def told(slices: Sequence[Slice]) -> list[str]:
    """The slices in lines."""
    lines = []
    for number, one in enumerate(slices, 1):
        lines.append(f"slice {number}: {one.minutes:.1f} min")
        if one.trainings:
            names = ", ".join(t.id for t in one.trainings)
            lines.append(f"  {one.training:4.1f} min  {len(one.trainings)} trainings: {names}")
        if one.questions:
            kinds = "; ".join(f"{kind} {count:,}" for kind, count in one.questions.items())
            lines.append(f"  {one.evaluation:4.1f} min  {sum(one.questions.values()):,} questions: {kinds}")
    total = sum(one.minutes for one in slices)
    return [*lines, f"together: {total:.0f} min"] if lines else ["nothing is left"]


def left_by_kind(
    book: Book, arms: Sequence[Arm], results: Results, stamps: Stamps, *, workers: int
) -> list[tuple[str, float, bool]]:
    """Kind of work, minutes that are left of it, and whether its speed was measured."""
    found: dict[str, tuple[float, bool]] = {}
    for task in tasks_of(book, arms, results, stamps):
        before = found.get(task.span.name, (0.0, True))[0]
        found[task.span.name] = (before + task.span.seconds / 60 / workers, task.span.measured)
    needed = {name for arm in arms for name in arm.adapters.values()}
    wanted = [t for t in book.trained(()) if t.id in needed] if book.trainings else []
    for training in untrained(book, wanted, results, stamps, stamps.adapters):
        span = training_seconds(training, results.speeds())
        before = found.get(span.name, (0.0, True))[0]
        found[span.name] = (before + span.seconds / 60 / workers, span.measured)
    return [(kind, *entry) for kind, entry in sorted(found.items(), key=lambda item: -item[1][0])]
