"""How far two judges agree on the same cases, beyond what chance would give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ..record import Episode
from .cases import AnswerCase, AnswerJudge, StepCase, StepJudge, Verdict
from .steps import JUDGED_ROLES, steps_of


@dataclass(frozen=True, slots=True)
class Agreement:
    """Two judges over the same cases."""

    n: int
    """Cases that both decided."""
    undecided: int
    both_yes: int
    both_no: int
    first_only: int
    """Cases where only the first judge says yes."""
    second_only: int

    @property
    def share(self) -> float:
        return (self.both_yes + self.both_no) / self.n if self.n else 0.0

    @property
    def kappa(self) -> float:
        """Cohen's kappa: 1 is full agreement, 0 what chance gives. 1 where both say the same one thing throughout."""
        if not self.n:
            return 0.0
        first, second = (self.both_yes + self.first_only) / self.n, (self.both_yes + self.second_only) / self.n
        chance = first * second + (1 - first) * (1 - second)
        return 1.0 if chance == 1 else (self.share - chance) / (1 - chance)


def agreement(first: Sequence[Verdict], second: Sequence[Verdict]) -> Agreement:
    pairs = [(a.yes, b.yes) for a, b in zip(first, second, strict=True)]
    decided = [p for p in pairs if None not in p]
    return Agreement(
        len(decided),
        len(pairs) - len(decided),
        decided.count((True, True)),
        decided.count((False, False)),
        decided.count((True, False)),
        decided.count((False, True)),
    )


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One case on which the judges differ, for a person to look at."""

    what: str
    """answer, planner, filter or answerer"""
    episode: str
    trajectory: str
    content: str
    first: Verdict
    second: Verdict


class BothJudges(AnswerJudge, StepJudge, Protocol):
    """A judge of answers and of steps."""


async def compare(
    episodes: Sequence[Episode], first: BothJudges, second: BothJudges
) -> tuple[dict[str, Agreement], list[Disagreement]]:
    """Agreement on answers and on each role's steps, over all episodes that have them."""
    table: dict[str, Agreement] = {}
    differing: list[Disagreement] = []
    answered = [e for e in episodes if e.question.answers]
    answers = [AnswerCase(e.question.question, e.question.answers, e.stated_answer) for e in answered]
    if answers:
        one, two = await first.judge_answers(answers), await second.judge_answers(answers)
        table["answer"] = agreement(one, two)
        differing += [
            Disagreement("answer", e.id, "", e.answer, a, b)
            for e, a, b in zip(answered, one, two, strict=True)
            if a.yes is not b.yes
        ]
    steps: list[tuple[Episode, StepCase]] = [(e, s) for e in answered if e.system == "decor" for s in steps_of(e)]
    for role in JUDGED_ROLES:
        chosen = [(e, s) for e, s in steps if s.role == role]
        if not chosen:
            continue
        cases = [s for _, s in chosen]
        one, two = await first.judge_steps(cases), await second.judge_steps(cases)
        table[role] = agreement(one, two)
        differing += [
            Disagreement(role, e.id, s.trajectory, s.content, a, b)
            for (e, s), a, b in zip(chosen, one, two, strict=True)
            if a.yes is not b.yes
        ]
    return table, differing
