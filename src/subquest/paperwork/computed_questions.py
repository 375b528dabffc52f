"""Questions whose answer must be computed from what their steps find: spans of time, dates, several years of a sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, timedelta

from ..english import day_in_words
from ..record import Step
from .questions import Asked, Drafter, Path, as_date, further, is_fair, measure
from .relations import RELATIONS

TYPE = "calculation"
COUNTS: Mapping[str, int] = {"days": 1, "years": 1, "notice": 1, "delivery": 1}
"""Questions of each kind that are drawn for an organisation."""


class ComputingDrafter(Drafter):
    """Draws them at random."""

    @property
    def makers(self) -> dict[str, Callable[[], Asked | None]]:
        return {"days": self.days, "years": self.over_years, "notice": self.notice, "delivery": self.delivery}

    def days(self) -> Asked | None:
        """How many days lie between two dates."""
        found = self.pair(("date",))
        if found is None:
            return None
        one, two = found[1]
        text = self.stream.pick(
            (
                "How many days lie between {0} and {1}?",
                "How many days apart are {0} and {1}?",
                "How many days are there between {0} and {1}?",
            )
        ).format(one.phrase, two.phrase)
        answer = f"{abs(measure(one.end) - measure(two.end)):,.0f}"
        operation = ("days", len(one.steps), len(one.steps) + len(two.steps))
        return self.of_pair(text, TYPE, answer, one, two, operation)

    def over_years(self) -> Asked | None:
        """What a contract comes to in some years."""
        path = self._measured_path("contract", "annual value")
        if path is None:
            return None
        years = self.stream.between(2, 6)
        text = self.stream.pick(
            ("What does {s} come to over {n} years?", "How much is paid under {s} in {n} years?")
        ).format(s=f"contract {path.owner}" if len(path.steps) == 1 else path.owner, n=years)
        answer = f"{path.end[0]}{measure(path.end) * years:,.0f}"
        operation = ("product", len(path.steps), str(years))
        made = Asked(text, TYPE, (answer,), path.steps, path.needs, operation, names=(path.name,))
        return made if is_fair(made) else None

    def notice(self) -> Asked | None:
        """The last day on which notice can be given."""
        name = self.stream.pick(self.facts.organisation.of_kind("contract"))
        ends, period = (self.facts.stated.get((name, r)) for r in ("ends", "notice period in days"))
        if ends is None or period is None:
            return None
        text = self.stream.pick(
            (
                "By which date must notice be given so that contract {s} ends on its end date?",
                "What is the last day to give notice on contract {s} before it ends?",
            )
        ).format(s=name)
        answer = day_before(ends.value, int(period.value))
        steps = tuple(Step(f.about.question.format(s=name), f.value) for f in (ends, period))
        needs = tuple(((f.subject, f.relation),) for f in (ends, period))
        return Asked(text, TYPE, (answer,), steps, needs, ("before", 1, 2), names=(name,))

    def delivery(self) -> Asked | None:
        """The day on which what is ordered on some day is delivered at the latest."""
        path = self._measured_path("supplier", "delivery time in days")
        if path is None:
            return None
        day = day_in_words(date(2025, 1, 1) + timedelta(self.stream.below(700)))
        text = self.stream.pick(
            (
                "If we order from {s} on {d}, by which date is it delivered?",
                "We order from {s} on {d}. On which date does it arrive at the latest?",
            )
        ).format(s=path.owner, d=day)
        operation = ("after", day, len(path.steps))
        answer = day_before(day, -int(measure(path.end)))
        made = Asked(text, TYPE, (answer,), path.steps, path.needs, operation, names=(path.name, day))
        return made if is_fair(made) else None

    def _measured_path(self, kind: str, name: str) -> Path | None:
        """A path to a number of something, now and then over a step."""
        relation = RELATIONS[kind, name]
        found = [f for f in self.facts.stated.values() if f.about == relation]
        if not found:
            return None
        fact = self.stream.pick(found)
        path = Path(fact.subject, fact.subject, fact.kind, fact.subject)
        if self.stream.chance(0.35):
            path = self.towards(fact) or path
        return further(path, relation, fact.value, (fact,), relation.noun, relation.question)


def day_before(value: str, days: int) -> str:
    """The date that lies so many days before another; after it, where they are below 0."""
    return day_in_words(as_date(value) - timedelta(days))
