"""Questions over the facts of an organisation, each answered again from the statements alone."""

from __future__ import annotations

import re
from datetime import datetime

import pytest

from subquest.paperwork.organisation import Fact, Organisation, Vocabulary, draw
from subquest.paperwork.papers import plan_papers
from subquest.paperwork.questions import Asked, Drafter, Facts
from subquest.paperwork.writing import QUESTIONS
from subquest.worlds.random_stream import RandomStream

from .rule_writer import answer


def facts_of(organisation: Organisation) -> list[Fact]:
    return [fact for paper in plan_papers(organisation) for fact in paper.facts]


@pytest.fixture(scope="module")
def drawn() -> list[tuple[Organisation, Asked]]:
    made = []
    for number in range(12):
        organisation = draw(5, number, Vocabulary())
        drafter = Drafter(Facts(organisation, facts_of(organisation)), RandomStream(5, number))
        made += [(organisation, asked) for asked in drafter.questions(QUESTIONS)]
    return made


def number(value: str) -> int:
    if re.fullmatch(r"\d+ \w+ \d{4}", value):
        return datetime.strptime(value, "%d %B %Y").toordinal()
    return int(re.sub(r"\D", "", value))


def resolved(asked: Asked) -> list[str]:
    """The steps with their references filled in."""
    answers = [step.answer for step in asked.steps]
    return [re.sub(r"#(\d+)", lambda m: answers[int(m[1]) - 1], step.question) for step in asked.steps]


def test_steps_follow_from_what_papers_state(drawn: list[tuple[Organisation, Asked]]) -> None:
    checked = 0
    for organisation, asked in drawn:
        statements = "\n".join(fact.statement for fact in facts_of(organisation))
        for text, step in zip(resolved(asked), asked.steps, strict=True):
            policy = re.search(r"the current version of (policy \S+-P\d+)", text)
            if policy:
                newest = max(name for name in organisation.of_kind("policy") if name.endswith(policy[1]))
                text = text.replace(policy[0], newest)
            found = answer(f"{statements}\nQuestion: {text}")
            if step.answer == "":
                assert found == "<answer>None</answer>", asked
            elif found != "<answer>None</answer>":  # the rules read only towards values
                assert found == f"<answer>{step.answer}</answer>", asked
                checked += 1
    assert checked > 300


def test_operations_give_the_answer(drawn: list[tuple[Organisation, Asked]]) -> None:
    seen = set()
    for _, asked in drawn:
        name, *rest = asked.operation
        seen.add(name)
        values = [asked.steps[n - 1].answer for n in rest[:2] if isinstance(n, int)]
        if name == "last" and asked.type not in ("list", "unanswerable"):
            assert asked.answers == (asked.steps[-1].answer,)
        elif name == "sum":
            assert number(asked.answers[0]) == number(values[0]) + number(values[1])
        elif name == "difference":
            assert number(asked.answers[0]) == number(values[0]) - number(values[1]) > 0
        elif name == "order":
            assert (asked.answers[0] == "yes") == (number(values[0]) < number(values[1]))
        elif name == "same":
            assert (asked.answers[0] == "yes") == (values[0] == values[1])
        elif name == "pick":
            best = (min if rest[2] == "min" else max)(range(2), key=lambda n: number(values[n]))
            assert asked.answers[0] == rest[3 + best]
        elif name == "count":
            assert int(asked.answers[0]) == len(asked.items["1"])
    assert seen == {"last", "sum", "difference", "order", "same", "pick", "count"}


def test_no_question_gives_its_answer_away(drawn: list[tuple[Organisation, Asked]]) -> None:
    for _, asked in drawn:
        if asked.operation[0] in ("last", "sum", "difference"):
            assert asked.answers[0] not in asked.text
        assert all(re.sub(r"^version \d of ", "", name) in asked.text for name in asked.names)
        assert all(int(n) < place for place, s in enumerate(asked.steps, 1) for n in re.findall(r"#(\d+)", s.question))


def test_questions_reach_over_several_files(drawn: list[tuple[Organisation, Asked]]) -> None:
    several = 0
    for organisation, asked in drawn:
        where = {(f.subject, f.relation): p.file for p in plan_papers(organisation) for f in p.facts}
        several += len({where[key] for keys in asked.needs for key in keys}) > 1
    assert several > len(drawn) / 3
    assert {len(asked.steps) for _, asked in drawn} >= {1, 2, 3, 4}


def test_cases_close_and_versions_follow_after_what_came_before() -> None:
    for n in range(20):
        known = {(f.subject, f.relation): f.value for f in draw(5, n, Vocabulary()).facts}
        for (subject, relation), value in known.items():
            if relation == "closed":
                assert number(value) > number(known[subject, "date"])
            if relation == "in force since" and subject.startswith("version 2"):
                assert number(value) > number(known[subject.replace("version 2", "version 1"), relation])
