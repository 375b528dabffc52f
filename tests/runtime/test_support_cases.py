"""How often answers are called supported that are not, and the other way round, over hand-written cases."""

from subquest.record import Evidence
from subquest.runtime.evidence import support_of
from subquest.runtime.sentence_check import is_supported

from .support_cases import CITED, GROUPS

LIMIT = 0.05
"""Share of wrong answers that may be called supported, and of right ones that may not."""


def test_there_are_enough_cases_and_half_of_them_are_wrong() -> None:
    cases = [case for group in GROUPS for case in group.cases]
    assert len(cases) >= 120
    assert 0.4 <= sum(case.right for case in cases) / len(cases) <= 0.6
    assert len({case.kind for case in cases}) >= 9


def test_answers() -> None:
    judged = [
        (case, support_of(case.answer, case.question, group.findings(case))) for group in GROUPS for case in group.cases
    ]
    _within_limits([(case.right, bool(found.supported), f"{case.question} {case.answer}") for case, found in judged])
    assert all(bool(found.evidence) == bool(found.supported) for _, found in judged)


def test_sentences_of_reports() -> None:
    _within_limits(
        [(c.right, is_supported(c.sentence, [Evidence("d", c.title, c.quote)]), c.sentence) for c in CITED], 0.1
    )


def _within_limits(judged: list[tuple[bool, bool, str]], limit: float = LIMIT) -> None:
    for right in (False, True):
        those = [(supported, text) for is_right, supported, text in judged if is_right is right]
        mistaken = [text for supported, text in those if supported is not right]
        assert len(mistaken) <= limit * len(those), mistaken
