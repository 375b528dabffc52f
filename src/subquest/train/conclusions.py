"""Gold thoughts: how an answer is worked out of several results, written out step by step.

A small model that must jump from the results to the answer guesses. So the thought before the answer compares numbers
with the same number of digits, counts years decade by decade, and looks items up in the other list.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ..english import MONTHS
from ..record import Question
from .facts import Fact, in_order

_MONTHS = {name.lower(): number for number, name in enumerate(MONTHS, 1)}
_MONTH = "|".join(_MONTHS)
_DATE = re.compile(rf"\b(?:(\d{{1,2}}) ({_MONTH})|({_MONTH}) (\d{{1,2}}),) (\d{{4}})\b", re.IGNORECASE)
_YEAR = re.compile(r"(?<![\d,.])\d{4}(?![\d,.]\d)\b")
_NUMBER = re.compile(r"(\d[\d,]*(?:\.\d+)?)(?: (thousand|million|billion))?")
_SCALE = {"": 1, "thousand": 10**3, "million": 10**6, "billion": 10**9}

SEVERAL = frozenset(
    {
        *("comparison", "bridge-comparison", "temporal", "superlative", "intersection", "sum", "difference", "yes-no"),
        "double",
    }
)
"""Question types whose answer is worked out from results rather than being the last of them."""


class Measure(NamedTuple):
    """A value that can be compared: a date (year, month, day as far as known) or a number."""

    key: tuple[float, ...]
    shown: str
    dated: bool


def conclusion(question: Question, facts: Sequence[Fact], results: Sequence[str]) -> str:
    """The thought before the final answer; empty where the answer is simply the last result."""
    if question.type.replace("_", "-") not in SEVERAL:
        return ""
    stated = [f"{fact.task.rstrip('?')}: {result}" for fact, result in zip(facts, results, strict=True)]
    return "; ".join(filter(None, [*stated, worked_out(question, facts, results)]))


def worked_out(question: Question, facts: Sequence[Fact], results: Sequence[str]) -> str:
    """What follows from several results, such as the larger of two numbers; empty where nothing has to."""
    if question.type.replace("_", "-") not in SEVERAL:
        return ""
    answer = question.answers[0]
    name, *rest = question.meta.get("operation") or _operation(question, facts)
    if name == "both":
        items = in_order(facts[0].items, results[0]) if facts[0].items else []
        return in_both(items, answer) if answer in items else f"in both: {answer}"
    if name == "best":
        values = [measure(result) for fact, result in zip(facts, results, strict=True) if fact.about]
        return _extreme(values, "min" if rest[0] == "min" else "max", answer)
    if name in ("sum", "difference"):
        values = [measure(results[int(n) - 1]) for n in rest]
        return f"{(' + ' if name == 'sum' else ' - ').join(v.shown for v in values if v)} = {answer}"
    if name == "is":
        return _alike(results[int(rest[0]) - 1], str(rest[1]), answer)
    if name in ("pick", "order", "same", "years", "age"):
        first, second = (results[int(n) - 1] for n in rest[:2])
        if name == "same":
            return _alike(first, second, answer)
        pair = [measure(first), measure(second)]
        if name == "pick":
            return _extreme(pair, str(rest[2]), answer)
        return _ordered(pair) if name == "order" else _passed(pair, name == "age")
    return ""


def _alike(first: str, second: str, answer: str) -> str:
    return f"{first} and {second} are {'the same' if answer == 'yes' else 'not the same'}"


def _operation(question: Question, facts: Sequence[Fact]) -> tuple[str | int, ...]:
    """The operation of a comparison whose data set does not say it, from its answer; nothing where it is not clear."""
    last = [n for n, fact in enumerate(facts, 1) if not any(fact.answer in later.task for later in facts[n:])]
    if "comparison" not in question.type or len(last) != 2:
        return ("",)
    if question.answers[0].lower() in ("yes", "no"):
        return "same", *last
    values = _comparable([measure(facts[n - 1].answer) for n in last])
    winner = next((n for n in last if question.answers[0].casefold() in _root(facts, n).task.casefold()), 0)
    if values is None or not winner or values[0].key == values[1].key:
        return ("",)
    least = min(values) == values[last.index(winner)]
    return "pick", *last, "min" if least else "max"


def _root(facts: Sequence[Fact], n: int) -> Fact:
    """The step that begins the chain which the n-th step ends."""
    fact = facts[n - 1]
    for earlier in reversed(facts[: n - 1]):
        if earlier.answer in fact.task:
            fact = earlier
    return fact


def _comparable(values: Sequence[Measure | None]) -> list[Measure] | None:
    """The values in one form: years where they differ, whole dates where years do not, else nothing."""
    known = [v for v in values if v is not None]
    if len(known) < max(len(values), 2) or len({v.dated for v in known}) > 1:
        return None
    if not known[0].dated:
        return _aligned(known) if len({v.key for v in known}) == len(known) else None
    years = [Measure(v.key[:1], v.shown[:4], True) for v in known]
    if len({v.key for v in years}) == len(years):
        return years
    return known if len({len(v.key) for v in known}) == 1 and len({v.key for v in known}) == len(known) else None


def _aligned(values: Sequence[Measure]) -> list[Measure]:
    """Numbers with as many digits before the point as the longest, so that they compare digit by digit."""
    width = max(len(v.shown.partition(".")[0]) for v in values)
    return [v._replace(shown="0" * (width - len(v.shown.partition(".")[0])) + v.shown) for v in values]


def _extreme(found: Sequence[Measure | None], which: str, answer: str) -> str:
    values = _comparable(found)
    if values is None:
        return ""
    best = min(values) if which == "min" else max(values)
    two, dated = len(values) == 2, values[0].dated
    words = {
        "min": (("earlier", "earliest"), ("smaller", "smallest")),
        "max": (("later", "latest"), ("larger", "largest")),
    }
    word = words[which][0 if dated else 1][0 if two else 1]
    listed = f"{', '.join(v.shown for v in values[:-1])} and {values[-1].shown}"
    return f"the {word} of {listed} is {best.shown}: {answer}"


def _ordered(found: Sequence[Measure | None]) -> str:
    values = _comparable(found)
    if values is None:
        return ""
    a, b = values
    less, more = ("earlier", "later") if a.dated else ("smaller", "larger")
    return f"{a.shown} is {less if a.key < b.key else more} than {b.shown}"


def _passed(found: Sequence[Measure | None], birthdays: bool) -> str:
    """Years between two dates; for an age the birthday counts too."""
    first, second = found
    if first is None or second is None:
        return ""
    start, end = (first, second) if birthdays else sorted((first, second), key=lambda m: m.key[0])
    gap = int(end.key[0] - start.key[0])
    counted = count_up(int(start.key[0]), int(end.key[0]))
    if not birthdays or len(start.key) < 3 or len(end.key) < 3:
        return counted
    early = end.key[1:] < start.key[1:]
    reached = f"{end.shown[5:]} is {'before' if early else 'not before'} {start.shown[5:]}"
    return f"{counted}; {reached}: {f'{gap} - 1 = {gap - 1}' if early else gap}"


def measure(text: str) -> Measure | None:
    """The first date of a text, else its first year, else its first number."""
    if found := _DATE.search(text):
        day, month = found[1] or found[4], _MONTHS[(found[2] or found[3]).lower()]
        return Measure((int(found[5]), month, int(day)), f"{found[5]}-{month:02}-{int(day):02}", True)
    if found := _YEAR.search(text):
        return Measure((int(found[0]),), found[0], True)
    if found := _NUMBER.search(text):
        digits = found[1].replace(",", "")
        value = float(digits) * _SCALE[found[2] or ""]
        return Measure((value,), f"{value:.0f}" if value.is_integer() else digits, False)
    return None


def count_up(start: int, end: int) -> str:
    """`1871 to 1880 9, 1890 19, 1900 29, 1910 39, 1920 49, 1925 54`: years reached and years passed, ten by ten."""
    reached = [*range(start - start % 10 + 10, end, 10), end]
    return f"{start} to " + ", ".join(f"{year} {year - start}" for year in reached)


def in_both(items: Sequence[str], shared: str) -> str:
    """Look up the items of a list in another list, up to the one that is in both."""
    looked_up = [*items[: items.index(shared)], shared]
    return ", ".join(f"{item} {'yes' if item == shared else 'no'}" for item in looked_up) + f"; in both: {shared}"
