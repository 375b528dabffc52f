"""Questions that must be computed, each computed again from the answers of its steps."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

from subquest.paperwork.computed_questions import COUNTS, TYPE, ComputingDrafter
from subquest.paperwork.organisation import Vocabulary, draw
from subquest.paperwork.papers import plan_papers
from subquest.paperwork.questions import Facts
from subquest.worlds.random_stream import RandomStream


def day(value: str) -> datetime:
    return datetime.strptime(value, "%d %B %Y")


def amount(value: str) -> int:
    return int(value.strip("£$€").replace(",", ""))


def computed(name: str, first: str, second: str) -> str:
    if name == "days":
        return f"{abs((day(first) - day(second)).days):,}"
    if name == "product":
        return f"{first[0]}{amount(first) * int(second):,}"
    moved = day(first) + timedelta(int(second)) * (-1 if name == "before" else 1)
    return f"{moved.day} {moved:%B %Y}"


def test_answers_follow_from_the_steps() -> None:
    kinds: Counter[str] = Counter()
    for number in range(40):
        organisation = draw(5, number, Vocabulary())
        facts = Facts(organisation, [fact for paper in plan_papers(organisation) for fact in paper.facts])
        for asked in ComputingDrafter(facts, RandomStream(5, number)).questions(COUNTS):
            name, *operands = asked.operation
            found = [asked.steps[n - 1].answer if isinstance(n, int) else n for n in operands]
            first, second = found
            assert computed(str(name), first, second) == asked.answers[0], asked
            assert asked.type == TYPE
            assert all(name in asked.text or name.startswith("version ") for name in asked.names), asked
            kinds[str(name)] += 1
    assert min(kinds[name] for name in ("days", "product", "before", "after")) > 15, kinds
