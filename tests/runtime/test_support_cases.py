"""How often answers are called supported that are not, and the other way round, over hand-written cases."""

import random

from subquest.record import Document, Evidence
from subquest.runtime.evidence import Finding, support_of
from subquest.runtime.sentence_check import is_supported
from subquest.worlds import make_world

from .support_cases import CITED, GROUPS

LIMIT = 0.05
"""Share of wrong answers that may be called supported, and of right ones that may be called unsupported."""


def test_there_are_enough_cases_and_half_of_them_are_wrong() -> None:
    cases = [case for group in GROUPS for case in group.cases]
    assert len(cases) >= 120
    assert 0.4 <= sum(case.right for case in cases) / len(cases) <= 0.6
    assert len({case.kind for case in cases}) >= 9


def test_answers() -> None:
    judged = [
        (case, support_of(case.answer, case.question, group.findings(case))) for group in GROUPS for case in group.cases
    ]
    _within_limits(
        [
            (case.right, bool(found.supported) or (case.right and found.parts), f"{case.question} {case.answer}")
            for case, found in judged
        ]
    )
    assert all(bool(found.evidence) == bool(found.supported or found.parts) for _, found in judged)
    assert sum(found.parts for _, found in judged) <= LIMIT * len(judged)


def test_sentences_of_reports() -> None:
    _within_limits(
        [(c.right, is_supported(c.sentence, [Evidence("d", c.title, c.quote)]), c.sentence) for c in CITED], 0.1
    )


def _within_limits(judged: list[tuple[bool, bool, str]], limit: float = LIMIT) -> None:
    for right in (False, True):
        those = [(supported, text) for is_right, supported, text in judged if is_right is right]
        mistaken = [text for supported, text in those if supported is not right]
        assert len(mistaken) <= limit * len(those), mistaken


def test_gold_answers_of_a_generated_world() -> None:
    """Texts that nobody wrote for these rules: right answers over their sub-results, and others that stand there."""
    world = make_world(seed=3, articles=200, questions=80)
    pages = {page.title: page for page in world.documents}
    chance = random.Random(1)
    right, wrong = [], []
    for question in world.questions:
        steps = [(step.question, step.answer, step.support) for step in question.decomposition]
        for n, (_, answer, _) in enumerate(steps, 1):
            steps = [(task.replace(f"#{n}", answer), found, page) for task, found, page in steps]
        read = [*(pages[page] for _, _, page in steps if page in pages), *chance.sample(world.documents, 6)]
        answer = question.answers[0]
        if answer not in " ".join(page.text for page in read):
            continue  # yes, no, or counted
        right.append(support_of(answer, question.question, [Finding(task, a, "", read) for task, a, _ in steps]))
        texts = " ".join(page.text for page in read)
        others = {q.answers[0] for q in world.questions if q.answers[0] in texts} - {answer}
        alike = sorted(other for other in others if other.isdigit() == answer.isdigit())
        if alike:
            other = chance.choice(alike)
            wrong.append(support_of(other, question.question, [Finding(steps[-1][0], other, "", read)]))
    assert len(right) > 50
    assert len(wrong) > 40
    assert sum(bool(found.supported) for found in right) >= 0.8 * len(right)
    assert sum(bool(found.supported) for found in wrong) <= 0.2 * len(wrong)


def test_the_name_of_a_column_is_no_value() -> None:
    table = "Month: March; Electricity: 310 kWh; Water: 41 m3\nMonth: April; Electricity: 290 kWh; Water: 38 m3"
    question = "How much electricity was used in March?"

    def supported(answer: str) -> bool:
        return bool(
            support_of(
                answer, question, [Finding(question, answer, "", [Document("m", "meters.csv", table)])]
            ).supported
        )

    assert supported("310 kWh")
    assert not supported("water")
