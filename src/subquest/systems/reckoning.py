"""Reckoning in a planner's thoughts, checked.

A small model that works an answer out of several results slips: it counts years wrongly, calls the smaller number the
larger, overlooks a title that stands in both lists. What it writes down on the way can be checked without a model:

    1964 to 1968 6                     years from one to another, also in steps (`1964 to 1970 6, 1975 11`)
    44200 is smaller than 40700        also larger, earlier, later
    the later of 1973 and 2020 is 1973: Ashes      the name too, where the tasks tell whose each value is
    07-07 is not before 09-02: 54      a birthday in the year of an age
    17 - 9 = 9
    in both: Salt Horizon              an item of two listed results
    Who wrote Ashes: Ana Brel          a task and its result, written down again
    Ana Brel and Ana Brel are not the same

`slips` says what should stand there instead, in the same words.
"""

from __future__ import annotations

import calendar
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

_MONTHS = {name.lower(): n for n, name in enumerate(calendar.month_name) if name}
_MONTH = "|".join(_MONTHS)
_DATE = re.compile(rf"\b(?:(\d{{1,2}}) ({_MONTH})|({_MONTH}) (\d{{1,2}}),) (\d{{4}})\b", re.IGNORECASE)
_YEAR = re.compile(r"(?<![\d,.])\d{4}(?![\d,.]\d)\b")
_NUMBER = re.compile(r"(\d[\d,]*(?:\.\d+)?)(?: (thousand|million|billion))?")
_SCALE = {"": 1, "thousand": 10**3, "million": 10**6, "billion": 10**9}

_NUMERAL = r"\d(?:[\d,]{0,30}\d)?(?:\.\d{1,12})?"
_VALUE = rf"{_NUMERAL}(?:-\d\d-\d\d)?"
_COUNTED = re.compile(r"\b(\d{3,4}) to (\d{3,4} \d{1,4}(?:, \d{3,4} \d{1,4})*)\b")
_BIRTHDAY = re.compile(
    r"\b(\d\d-\d\d) is (not )?before (\d\d-\d\d)(?:: (?:(\d{1,4}) - 1 = (\d{1,4})|(\d{1,4})))?(?![\d-])", re.IGNORECASE
)
_THAN = re.compile(rf"(?<![\d.,-])({_VALUE}) is (smaller|larger|earlier|later) than ({_VALUE})(?!\d)")
_EXTREME = re.compile(
    rf"\bthe (smaller|larger|earlier|later|smallest|largest|earliest|latest) of "
    rf"({_VALUE}(?:, {_VALUE})*) and ({_VALUE}) is ({_VALUE})(?!\d)"
)
_SAID = re.compile(r": ([^;\n<]+)")
_WORD = re.compile(r"\w+")
_EQUATION = re.compile(rf"(?<![\d.,/*+-])(-?{_NUMERAL}) ?([-+*/×−]) ?({_NUMERAL}) ?= ?(-?{_NUMERAL})(?!\d)")
_IN_BOTH = re.compile(r"\bin both: (.+?)\s*(?:$|[;\n]|</)")
_SEPARATOR = re.compile(r", and |, | and ")
_LEAST = frozenset({"smaller", "smallest", "earlier", "earliest"})
_OPERATIONS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": operator.add,
    "-": operator.sub,
    "−": operator.sub,
    "*": operator.mul,
    "×": operator.mul,
    "/": operator.truediv,
}


class Slip(NamedTuple):
    """A line that is wrong."""

    right: str
    """The line as it should be."""
    taken: str = ""
    """The value that the line comes to, where an answer may be just that."""
    value: str = ""
    """The value that it should come to."""

    def replaced(self, text: str) -> str:
        """The text with the right value for the wrong one, where that stands by itself."""
        return re.sub(rf"(?<!\w){re.escape(self.taken)}(?!\w)", lambda _: self.value, text)


LONGEST_COPY = 300
"""Characters of a result that a thought is expected to repeat as it is."""


LONGEST_NAME = 12
"""Words with a capital of a name that is looked for in a question."""


class Measure(NamedTuple):
    """A value that can be compared: a date (year, month, day as far as known) or a number."""

    key: tuple[float, ...]
    shown: str
    dated: bool


def measure(text: str) -> Measure | None:
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


def slips(thought: str, steps: Sequence[tuple[str, str]] = (), question: str = "") -> list[Slip]:
    """What a thought about a question reckons wrongly; `steps` are the tasks handed out so far and their results."""
    return [
        *_copies(thought, steps),
        *_counts(thought, [result for _, result in steps]),
        *_comparisons(thought, steps, question),
        *_equations(thought),
        *_sameness(thought),
        *_shared(thought, [result for _, result in steps]),
    ]


def _copies(thought: str, steps: Sequence[tuple[str, str]]) -> Iterator[Slip]:
    """Results that were written down wrongly and are reckoned with: numbers, dates, and what is compared as it is."""
    compared = " the same" in thought or "in both" in thought
    for task, result in steps:
        asked, plain = task.strip().rstrip("?"), result.strip()
        _, found, rest = thought.partition(f"{asked}: ")
        copied = rest.partition(";")[0]
        if not asked or not found or len(plain) > LONGEST_COPY:
            continue
        same = rest.startswith(plain) or _bare(copied) in _bare(plain)
        if not same and (compared or measure(plain) != measure(copied)):
            yield Slip(f"{asked}: {plain}")


def _bare(text: str) -> str:
    return re.sub(r"[^\w ]", "", text).casefold().strip()


def _counts(thought: str, results: Sequence[str]) -> Iterator[Slip]:
    """Years that passed, less one where a birthday had not been. They are counted between two results."""
    counted = list(_COUNTED.finditer(thought))
    birthday = _BIRTHDAY.search(thought)
    told, said, right, wrong = "", "", "", False
    if counted:
        start, steps = int(counted[-1][1]), [step.split() for step in counted[-1][2].split(", ")]
        end, said = int(steps[-1][0]), steps[-1][1]
        years = [int(found.key[0]) for found in map(measure, results) if found and found.dated]
        wrong = len(years) == 2 and {start, end} != set(years)
        if wrong:
            start, end = min(years), max(years)
        if end < start:
            return
        wrong |= any(int(year) - start != int(passed) for year, passed in steps)
        told, right = count_up(start, end), str(end - start)
    if birthday:
        early = birthday[1] < birthday[3]
        said = birthday[5] or birthday[6] or said
        wrong |= early == bool(birthday[2])
        after = f"{birthday[1]} is {'before' if early else 'not before'} {birthday[3]}"
        if right:
            passed, right = right, str(int(right) - early)
            wrong |= bool(birthday[5] or birthday[6]) and said != right
            after += f": {passed} - 1 = {right}" if early else f": {passed}"
        told = "; ".join(filter(None, [told, after]))
    if wrong:
        yield Slip(told, said if right else "", right)


def _comparisons(thought: str, steps: Sequence[tuple[str, str]], question: str) -> Iterator[Slip]:
    for found in _THAN.finditer(thought):
        one, two = _key(found[1]), _key(found[3])
        dated = found[2] in ("earlier", "later")
        less, more = ("earlier", "later") if dated else ("smaller", "larger")
        if one != two and (one < two) != (found[2] in _LEAST):
            yield Slip(f"{found[1]} is {less if one < two else more} than {found[3]}")
    for found in _EXTREME.finditer(thought):
        values = [*found[2].split(", "), found[3]]
        best = (min if found[1] in _LEAST else max)(values, key=_key)
        told = f"the {found[1]} of {found[2]} and {found[3]} is {best}"
        said = _SAID.match(thought, found.end())
        taken = said[1].strip(" .") if said else ""
        name = _owner(best, values, taken, steps, question) if taken else ""
        if name:
            yield Slip(f"{told}: {name}", taken, name)
        elif _key(best) != _key(found[4]):
            yield Slip(told)


def _owner(best: str, values: Sequence[str], taken: str, steps: Sequence[tuple[str, str]], question: str) -> str:
    """Whose value the best is, where a thought has `taken`, whose value is another. Empty where that cannot be told.

    A value has come out of a chain of tasks; `taken` stands in one of them, and the name wanted at the same place of
    the other chain: what an earlier result has brought into that task, or else what the question has in it.
    """
    chains = {value: _chain(value, steps) for value in values}
    holders = [value for value, chain in chains.items() if any(_within(taken, steps[n][0]) for n in chain)]
    if len(holders) != 1 or holders[0] == best:
        return ""
    for other, own in zip(reversed(chains[holders[0]]), reversed(chains[best]), strict=False):
        if _within(taken, steps[other][0]):
            task = steps[own][0]
            brought = [s for _, result in steps[:own] for s in _spans(result).values() if s[0].isupper()]
            return max((s for s in brought if _within(s, task)), key=len, default="") or _named_in(task, question)
    return ""


def _chain(value: str, steps: Sequence[tuple[str, str]]) -> list[int]:
    """The steps that led to a value, the last of them asked for it; nothing where several results are that value."""
    key = tuple(map(float, _key(value)))
    found = [n for n, (_, result) in enumerate(steps) if (m := measure(result)) and m.key[: len(key)] == key]
    if len(found) != 1:
        return []
    chain = found
    for n in reversed(range(chain[0])):
        if _within(steps[n][1], steps[chain[0]][0]):
            chain.insert(0, n)
    return chain


def _within(name: str, text: str) -> bool:
    """Whether a name stands in a text, as whole words."""
    return bool(name) and bool(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE))


def _named_in(task: str, question: str) -> str:
    """The longest name of a task that the question has too: words in a row, the first and the last with a capital."""
    asked = f" {' '.join(_WORD.findall(question)).casefold()} "
    words = list(_WORD.finditer(task))[1:]  # the first one asks
    capital = [n for n, word in enumerate(words) if word[0][0].isupper()]
    runs = (words[i : j + 1] for at, i in enumerate(capital) for j in capital[at : at + LONGEST_NAME])
    known = (run for run in runs if f" {' '.join(word[0] for word in run).casefold()} " in asked)
    best = max(known, key=len, default=[])
    return task[best[0].start() : best[-1].end()] if best else ""


def _key(value: str) -> tuple[Fraction, ...]:
    number, *rest = value.replace(",", "").split("-")
    return Fraction(number), *(Fraction(part) for part in rest)


def _equations(thought: str) -> Iterator[Slip]:
    for found in _EQUATION.finditer(thought):
        one, two, said = (Fraction(found[n].replace(",", "")) for n in (1, 3, 4))
        if found[2] == "/" and not two:
            continue
        right = _OPERATIONS[found[2]](one, two)
        places = len(found[4].partition(".")[2])
        if abs(right - said) * 10**places > (Fraction(1, 2) if found[2] == "/" else 0):
            shown = f"{float(right):g}" if right.denominator != 1 else str(right)
            yield Slip(f"{found[1]} {found[2]} {found[3]} = {shown}", found[4], shown)


def _sameness(thought: str) -> Iterator[Slip]:
    """One thing said to be two; names that differ may still be one, so the reverse is not checked."""
    for found in re.finditer(r"(?:^|; )([^;]+?) and ([^;]+?) are not the same\b", thought):
        if found[1].casefold() == found[2].casefold():
            yield Slip(f"{found[1]} and {found[2]} are the same")


def _shared(thought: str, results: Sequence[str]) -> Iterator[Slip]:
    """An item that is not in both lists, where the last two results that are lists share exactly one."""
    lists = [spans for spans in map(_spans, results) if len(spans) > 1][-2:]
    if not (found := _IN_BOTH.search(thought)) or len(lists) < 2:
        return
    one, two = lists
    common = {key: text for key, text in one.items() if key in two}
    largest = [text for key, text in common.items() if not any(key != other and key in other for other in common)]
    taken = found[1].strip(" .")
    if len(largest) == 1 and largest[0].casefold() != taken.casefold():
        yield Slip(f"in both: {largest[0]}", taken, largest[0])


def _spans(text: str) -> dict[str, str]:
    """Every run of whole parts of a list that may be an item: titles have `and` and commas of their own."""
    text = text.strip(" .")
    cuts = [(0, 0), *((m.start(), m.end()) for m in _SEPARATOR.finditer(text)), (len(text), len(text))]
    spans = [text[cuts[i][1] : cuts[j][0]] for i in range(len(cuts) - 1) for j in range(i + 1, min(i + 4, len(cuts)))]
    return {span.casefold(): span for span in spans if span}
