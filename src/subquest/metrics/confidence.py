"""A confidence in words, calibrated: how often answers like this one were right on dev questions.

What a system says about its certainty (the probability of its tokens, a share of votes, nothing at all) is no chance of
being right. A *calibration* is fitted on evaluated runs, for each system and model: supported answers and unsupported
ones are kept apart, and in each group the share of right answers is a function of the confidence that never falls
(isotonic regression, by pooling adjacent violators). Without confidences it is the share of the group.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ..codec import Record, checked
from ..errors import UsageError
from ..input_file import read_json
from ..models import default_adapter, file_digest, is_language_model
from ..record import Episode

FEWEST = 20
"""Answers of a group; with fewer, nothing is said about it."""
WORDS = ((0.9, "very likely right"), (0.7, "probably right"), (0.4, "uncertain"), (0.0, "probably wrong"))
"""By the chance that an answer is right, from this value on."""


class Judged(NamedTuple):
    """An answer to a dev question."""

    right: bool
    confidence: float | None
    supported: bool | None


class Curve(Record):
    """The share of right answers by confidence, for supported or for unsupported answers."""

    supported: bool | None
    n: int
    share: float
    """Of all answers of the group."""
    confidences: tuple[float, ...] = ()
    """From each of these on, the share is that of the same place in `shares`; empty if the system has no confidence."""
    shares: tuple[float, ...] = ()

    def chance(self, confidence: float | None) -> float:
        if confidence is None or not self.confidences:
            return self.share
        return self.shares[max(0, bisect_right(self.confidences, confidence) - 1)]


class SystemCalibration(Record):
    """How often the answers of a system on a model are right."""

    system: str
    model: str
    """Empty in a file beside the weights that answered: it holds for them by whatever engine they run."""
    curves: tuple[Curve, ...]

    def chance(self, confidence: float | None, supported: bool | None) -> float | None:
        """The chance that an answer is right; None if there were too few like it."""
        found = (curve for curve in self.curves if curve.supported is supported)
        curve = next(found, None)
        return curve.chance(confidence) if curve is not None else None


class Measured(Record):
    """On what a calibration was measured."""

    data: tuple[str, ...]
    """Names of the question sets."""
    n: int
    """Answers of all systems."""
    date: str
    adapter: str = ""
    """SHA-256 of the adapter, or of the model's file, that answered: the calibration holds for no other."""
    documents: tuple[str, ...] = ()
    """What was read, `passages` of a corpus or `files`: the calibration holds for nothing else. Empty if not known."""


class Calibrations(Record):
    """What a calibration file holds."""

    systems: tuple[SystemCalibration, ...] = ()
    measured: Measured | None = None
    """None in files of earlier versions."""

    @property
    def about(self) -> str:
        """`worlds, hotpotqa; n=160; 2026-11-01`, for records; empty where it is not known."""
        found = self.measured
        return f"{', '.join(found.data)}; n={found.n}; {found.date}" if found else ""

    def find(self, system: str, model: str) -> SystemCalibration | None:
        return next((found for found in self.systems if found.system == system and found.model in ("", model)), None)


def in_words(chance: float) -> str:
    """`probably right`, for example."""
    return next(words for least, words in WORDS if chance >= least)


def read_calibrations(path: str | Path) -> Calibrations:
    """A file of `subquest runs calibrate`."""
    try:
        data = read_json(path, "the calibration")
    except UsageError as error:
        raise UsageError(f"{error}; make one with: subquest runs calibrate") from None
    return checked(Calibrations, data, f"the calibration {path}")


def calibration_place(weights: Path) -> Path:
    """Where the calibration of an adapter or a model is: beside its file, or in its folder."""
    return weights / "calibration.json" if weights.is_dir() else weights.with_name(f"{weights.stem}.calibration.json")


def own_calibration(model: str | Mapping[str, str], adapter: str | None) -> Calibrations | None:
    """The calibration that came with the adapter, or the model, that `--model` and `--adapter` name.

    None if there is none, or if it was measured with other weights.
    """
    weights = _weights(model, adapter) if isinstance(model, str) else None
    if weights is None or not calibration_place(weights).is_file():
        return None
    found = read_calibrations(calibration_place(weights))
    if found.measured is None or weights.is_dir() or found.measured.adapter == file_digest(weights):
        return found
    return None


def _weights(model: str, adapter: str | None) -> Path | None:
    """The file or folder that a calibration belongs to: the adapter, or the model without one."""
    kind, _, place = model.partition(":")
    known = "smollm2" if model == "embedded" else model.removeprefix("torch:")
    if adapter not in (None, "", "none", "default"):
        return Path(adapter) if is_language_model(known) or kind in ("gguf", "torch") else None
    if is_language_model(known):
        return default_adapter(known) if adapter != "none" else None
    return Path(place) if kind in ("gguf", "torch") and Path(place).exists() else None


def likely(episode: Episode, calibrations: Calibrations | None) -> str:
    """How likely a short answer is right, in words and as a share of answers like it on dev questions.

    Empty if answers of this kind, or from documents of this kind, were not measured: whether it is supported says what
    is known.
    """
    if calibrations is None or not episode.answer or (episode.report and episode.report.style == "report"):
        return ""
    if episode.parts_supported:
        return ""
    found = calibrations.find(episode.system, episode.model)
    if found is None:
        return f"confidence not calibrated for {episode.system} on {episode.model}"
    measured = calibrations.measured
    if measured is not None and measured.documents and documents_of(episode) not in measured.documents:
        return ""
    chance = found.chance(episode.confidence, episode.supported)
    if chance is None:
        return "too few answers like this one on dev questions to say how likely it is right"
    return f"{in_words(chance)}: {chance:.0%} of answers like this one were right on dev questions"


def documents_of(episode: Episode) -> str:
    """What an answer's quotes come from, `files` or `passages` of a corpus; empty if it has none."""
    if not episode.evidence:
        return ""
    return "files" if any("file" in quote.place for quote in episode.evidence) else "passages"


def calibrate(system: str, model: str, answers: Iterable[Judged]) -> SystemCalibration:
    """The calibration that answers to dev questions give."""
    groups: dict[bool | None, list[Judged]] = {}
    for answer in answers:
        groups.setdefault(answer.supported, []).append(answer)
    curves = (_curve(supported, found) for supported, found in groups.items() if len(found) >= FEWEST)
    return SystemCalibration(system, model, tuple(curves))


def _curve(supported: bool | None, answers: Sequence[Judged]) -> Curve:
    n = len(answers)
    share = _share(sum(a.right for a in answers), n)
    sure = sorted((a.confidence, a.right) for a in answers if a.confidence is not None)
    if len(sure) < FEWEST:
        return Curve(supported, n, share)
    pools: list[list[float]] = []  # least confidence, right answers, answers; the share of each is above the one before
    for confidence, right in sure:
        if pools and pools[-1][0] == confidence:
            pools[-1][1] += right
            pools[-1][2] += 1
        else:
            pools.append([confidence, float(right), 1.0])
    merged: list[list[float]] = []
    for pool in pools:
        merged.append(pool)
        while len(merged) > 1 and merged[-2][1] / merged[-2][2] >= merged[-1][1] / merged[-1][2]:
            _, right_answers, count = merged.pop()
            merged[-1][1] += right_answers
            merged[-1][2] += count
    shares = tuple(_share(right_answers, count) for _, right_answers, count in merged)
    return Curve(supported, n, share, tuple(pool[0] for pool in merged), shares)


def _share(right: float, n: float) -> float:
    """Laplace's: a few answers that are all right do not make the next one certain."""
    return round((right + 1) / (n + 2), 4)
