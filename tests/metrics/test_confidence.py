"""Calibrated confidences against curves worked out by hand and against generated answers with a known chance."""

import random

import pytest

from subquest.metrics.confidence import (
    FEWEST,
    Calibrations,
    Curve,
    Judged,
    Measured,
    SystemCalibration,
    calibrate,
    in_words,
    likely,
)
from subquest.record import Episode, Evidence, Question


def test_shares_are_pooled_until_they_never_fall() -> None:
    answers = [Judged(c >= 0.5, c, True) for c in (0.2, 0.9) for _ in range(20)]
    answers += [Judged(n < 2, 0.3, True) for n in range(8)]  # 2 of 8 right
    answers += [Judged(n < 1, 0.4, True) for n in range(8)]  # 1 of 8: falls, so pooled with the one before
    (curve,) = calibrate("s", "m", answers).curves
    assert curve.confidences == (0.2, 0.3, 0.9)
    assert curve.shares == (round(1 / 22, 4), round(4 / 18, 4), round(21 / 22, 4))
    assert curve.chance(0.05) == curve.shares[0]
    assert curve.chance(0.35) == curve.chance(0.89) == curve.shares[1]
    assert curve.chance(None) == curve.share


def test_supported_answers_and_others_are_kept_apart_and_few_say_nothing() -> None:
    answers = [Judged(True, None, True)] * FEWEST + [Judged(False, None, False)] * (FEWEST - 1)
    found = calibrate("s", "m", answers)
    assert found.chance(None, True) == round((FEWEST + 1) / (FEWEST + 2), 4)
    assert found.chance(None, False) is None
    assert found.chance(0.99, None) is None


def test_an_overconfident_system_is_put_right_on_new_answers() -> None:
    draw = random.Random(7)

    def answer() -> Judged:
        chance = draw.random()
        return Judged(draw.random() < chance, 0.8 + 0.2 * chance, True)  # never says less than 0.8

    found = calibrate("s", "m", [answer() for _ in range(4000)])
    fresh = [answer() for _ in range(4000)]
    gaps = []
    for low in range(0, 10, 2):
        near = [a for a in fresh if a.confidence is not None and low <= (a.confidence - 0.8) * 50 < low + 2]
        told = [found.chance(a.confidence, True) or 0.0 for a in near]
        gaps.append(abs(sum(told) / len(told) - sum(a.right for a in near) / len(near)))
    assert max(gaps) < 0.06
    assert sum((a.confidence or 0) for a in fresh) / 4000 - sum(a.right for a in fresh) / 4000 > 0.3


@pytest.mark.parametrize(
    ("chance", "words"),
    [
        (1.0, "very likely right"),
        (0.9, "very likely right"),
        (0.89, "probably right"),
        (0.5, "uncertain"),
        (0.0, "probably wrong"),
    ],
)
def test_words(chance: float, words: str) -> None:
    assert in_words(chance) == words


def test_nothing_is_said_about_documents_of_another_kind() -> None:
    curves = (Curve(True, 40, 0.38), Curve(False, 40, 0.31))
    about = Measured(("hotpotqa_dev",), 80, "2026-11-01", documents=("passages",))
    calibrations = Calibrations((SystemCalibration("rag", "", curves),), about)

    def said(place: dict[str, str], supported: bool = True) -> str:
        quotes = (Evidence("d", "T", "It is 30 days.", place=place),) if supported else ()
        answer = Episode("e", Question("q", "Q?"), "rag", "m", answer="30", evidence=quotes, supported=supported)
        return likely(answer, calibrations)

    assert said({}).startswith("probably wrong: 38%")
    assert said({"file": "handbook.docx"}) == ""
    assert said({}, supported=False) == ""
    quotes = (Evidence("d", "T", "It is 30 days."),)
    parts = Episode("e", Question("q", "Q?"), "rag", "m", "", (), "yes", quotes, supported=False, parts_supported=True)
    assert likely(parts, calibrations) == ""
