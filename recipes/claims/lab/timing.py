"""How long what is left will take: by measured speeds where a kind of work has been done before, else by a guess.

Speeds are those of one process while as many run beside it as usual, so minutes are questions / speed / processes.
Guesses are marked as such; the first slice of time replaces them. Measured speeds are kept with the results, in
`speeds.json.xz`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from subquest.errors import UsageError
from subquest.study import Study, Training, Variant
from subquest.study.design import BARE as NO_ADAPTER
from subquest.study.results import Progress, Results

SPEEDS = "speeds"
GUESSES = {"rag": 60.0, "search-r1": 30.0, "autorefine": 30.0, "coda": 24.0, "decor": 18.0, "apex": 20.0}
"""Questions a second of one process of six on an H200, with an adapter and three documents per search. CoDA's was
measured (four processes with 500 questions each, 23 seconds after their start); the others are estimated."""
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
DEFAULTS: Mapping[str, Any] = {"system": "coda", "rollout.questions": 48, "rollout.group": 8}
"""What `subquest train` takes where a recipe says nothing."""
BEGIN_TRAINING = 25.0
"""Seconds before a training's first step: imports, worlds, the model, graphs."""
BEGIN_SLICE = 30.0
"""Seconds of a slice on a bare machine before its first question."""
TRAIN = 0.6
"""Share of a slice that trainings may take where both are asked for."""
BESIDE = 0.85
"""The same, where questions are answered all the while: the last adapter must still be answered with."""
TRAINED, START, BARE = range(3)
"""What is answered first, next and last."""


def speed_kind(variant: Variant) -> str:
    """Variants that are about as fast as each other."""
    if variant.oracle:
        return f"{variant.system} oracle"
    known = "bare" if NO_ADAPTER in variant.adapters.values() else "adapter"
    plan = " plan only" if variant.settings.get("plan_only") else ""
    return f"{variant.system}{plan} {known} k={variant.settings.get('k', 3)}"


def guess(variant: Variant) -> float:
    """Questions a second."""
    if variant.oracle:
        return ORACLE
    speed = GUESSES.get(variant.system, 25.0) / (1 + DOCUMENT * max(int(variant.settings.get("k", 3)) - 3, 0))
    speed *= SLOW if NO_ADAPTER in variant.adapters.values() else 1.0
    return speed * (PLAN_ONLY if variant.settings.get("plan_only") else 1.0)


def value_of(study: Study, variant: Variant) -> int:
    if any(name in study.trainings for name in variant.adapters.values()):
        return TRAINED
    return BARE if NO_ADAPTER in variant.adapters.values() else START


class Span(NamedTuple):
    """Some work and how long it takes."""

    name: str
    seconds: float
    """Of one process."""
    measured: bool


def evaluation_seconds(variant: Variant, questions: int, speeds: Mapping[str, Sequence[float]]) -> Span:
    kind = speed_kind(variant)
    done, took = speeds.get(kind, (0.0, 0.0))
    speed = done / took if took > 1 else 0.0
    return Span(kind, questions / (speed or guess(variant)), bool(speed))


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
    return training.setting(key) or DEFAULTS.get(key)


def speeds_of(results: Results) -> dict[str, list[float]]:
    """Measured speed by kind of work: how much was done, and the seconds of one process that it took."""
    return results.read(SPEEDS) or {}


def keep_speed(results: Results, kind: str, count: float, seconds: float) -> None:
    found = speeds_of(results)
    done, took = found.get(kind, [0.0, 0.0])
    found[kind] = [round(done + count, 1), round(took + seconds, 1)]
    results.write(SPEEDS, found)


class Task(NamedTuple):
    """A variant that is not complete."""

    variant: Variant
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


def tasks_of(progress: Progress, variants: Sequence[Variant]) -> list[Task]:
    """Variants with questions left, each measurement once, in the order of the claims."""
    speeds = speeds_of(progress.results)
    seen: set[str] = set()
    out = []
    for variant in variants:
        stamp = progress.stamps.of(variant)
        key = stamp.key if all(stamp.weights.values()) else variant.name
        questions = progress.unanswered(variant)
        if questions and key not in seen:
            out.append(Task(variant, questions, evaluation_seconds(variant, questions, speeds)))
        seen.add(key)
    return out


def waiting_trainings(progress: Progress, variants: Sequence[Variant]) -> list[Training]:
    """Trainings whose adapters these variants need."""
    needed = {name for variant in variants for name in variant.adapters.values()}
    study = progress.study
    wanted = [t for t in study.select_trainings(()) if t.name in needed] if study.trainings else []
    return progress.untrained(wanted)


def slices_of(progress: Progress, variants: Sequence[Variant], *, minutes: float, workers: int) -> list[Slice]:
    """How slices of `--train --run --minutes M` are likely to go: trainings first, then the variants that can run."""
    if minutes <= BEGIN_SLICE / 60:
        raise UsageError(f"--minutes {minutes:g}: a slice takes {BEGIN_SLICE:g} seconds before its first question")
    speeds = speeds_of(progress.results)
    waiting = waiting_trainings(progress, variants)
    missing = {t.name for t in waiting}
    todo = sorted(tasks_of(progress, variants), key=lambda t: value_of(progress.study, t.variant))
    left = {t.variant.name: t.span.seconds / 60 / workers for t in todo}
    slices: list[Slice] = []
    while waiting or any(left.values()):
        one = Slice()
        while waiting and one.minutes + _batch(waiting, speeds) <= max(TRAIN * minutes, _batch(waiting, speeds) + 1):
            batch, waiting = waiting[:workers], waiting[workers:]
            one.training += _batch(batch, speeds)
            one.trainings += batch
            missing -= {t.name for t in batch}
        for task in todo:
            room = minutes - one.minutes
            if room > 0 and left[task.variant.name] and not missing & set(task.variant.adapters.values()):
                taken = min(room, left[task.variant.name])
                one.evaluation += taken
                left[task.variant.name] = 0 if taken == left[task.variant.name] else left[task.variant.name] - taken
                count = round(task.questions * taken * workers * 60 / task.span.seconds)
                one.questions[task.span.name] = one.questions.get(task.span.name, 0) + count
        slices.append(one)
    return slices


def _batch(trainings: Sequence[Training], speeds: Mapping[str, Sequence[float]]) -> float:
    return training_seconds(trainings[0], speeds).seconds / 60 if trainings else 0.0


def describe(slices: Sequence[Slice]) -> list[str]:
    """The slices in lines."""
    lines = []
    for number, one in enumerate(slices, 1):
        lines.append(f"slice {number}: {one.minutes:.1f} min")
        if one.trainings:
            names = ", ".join(t.name for t in one.trainings)
            lines.append(f"  {one.training:4.1f} min  {len(one.trainings)} trainings: {names}")
        if one.questions:
            kinds = "; ".join(f"{kind} {count:,}" for kind, count in one.questions.items())
            lines.append(f"  {one.evaluation:4.1f} min  {sum(one.questions.values()):,} questions: {kinds}")
    total = sum(one.minutes for one in slices)
    return [*lines, f"together: {total:.0f} min"] if lines else ["nothing is left"]


def left_by_kind(progress: Progress, variants: Sequence[Variant], *, workers: int) -> list[tuple[str, float, bool]]:
    """Kind of work, minutes that are left of it, and whether its speed was measured."""
    speeds = speeds_of(progress.results)
    spans = [task.span for task in tasks_of(progress, variants)]
    spans += [training_seconds(training, speeds) for training in waiting_trainings(progress, variants)]
    found: dict[str, tuple[float, bool]] = {}
    for span in spans:
        before = found.get(span.name, (0.0, True))[0]
        found[span.name] = (before + span.seconds / 60 / workers, span.measured)
    return [(kind, *entry) for kind, entry in sorted(found.items(), key=lambda item: -item[1][0])]
