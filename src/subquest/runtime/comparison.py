"""Whether sub-results bear a comparison: which of two was first, whether two are the same.

*Which film came out first, A or B?* is answered by two sub-results that are dates. A value belongs to what its sub-task
names, and to what an earlier sub-task named that led there (*A >> director >> date of birth*). What the question asks
for is told by one word (first, older, more); a question with none, or with two that disagree, cannot be decided here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from .dates import Value, date_of
from .normalization import compared_words, folded_words, is_number
from .passages import names_in
from .relevance import asked_of
from .statements import claim_of, words_of, yes_or_no

_EARLY = frozenset(("before", "earlier", "earliest", "first", "older", "oldest"))
_LATE = frozenset(("after", "last", "later", "latest", "newer", "newest", "recent", "recently", "younger", "youngest"))
_MORE = frozenset(
    (
        *("bigger", "biggest", "deeper", "deepest", "faster", "fastest", "greater", "greatest", "heavier", "heaviest"),
        *("higher", "highest", "larger", "largest", "longer", "longest", "more", "most", "older", "oldest"),
        *("taller", "tallest", "wider", "widest"),
    )
)
_LESS = frozenset(
    (
        *("cheaper", "cheapest", "fewer", "fewest", "least", "less", "lighter", "lightest", "lower", "lowest"),
        *("shorter", "shortest", "slower", "slowest", "smaller", "smallest", "younger", "youngest"),
    )
)
ORDERED = frozenset(("after", "before", "than"))
"""Words of a question that a yes or a no answers by comparing."""
_SAME = frozenset(("alike", "equal", "identical", "same"))
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


class _Leaf(NamedTuple):
    """A sub-result that no later sub-task builds on, and the lines of all sub-tasks and results that led to it."""

    result: str
    lines: tuple[str, ...]


def decides(question: str, answer: str, steps: Sequence[tuple[str, str]]) -> bool | None:
    """Whether sub-tasks with their results bear an answer, or bear another one; None if they do not tell."""
    leaves = _leaves(steps)
    word, _ = yes_or_no(answer)
    if word:
        found = _is_so(question, leaves)
        return None if found is None else found is (word in ("true", "yes"))
    line = claim_of(answer).line
    mine = [leaf for leaf in leaves if any(line in text for text in leaf.lines)]
    others = [leaf for leaf in leaves if leaf not in mine]
    if len(mine) != 1 or not others:
        return None
    values = _values([*mine, *others])
    sign = direction(question, dates=values is not None and len(values[0]) > 1)
    if values is None or not sign:
        return None
    return all(sign * order(values[0], other) > 0 for other in values[1:])


def is_one_of_several(question: str, answer: str, steps: Sequence[tuple[str, str]]) -> bool:
    """Whether a date or a number is the result of one of several sub-tasks that ask the same of different things, and
    not the one that the question asks for (the highest, the last): a sum or a difference of them is something else."""
    mine = [step for step in steps if claim_of(step[1]).line == claim_of(answer).line]
    if not mine:
        return False
    task, result = mine[-1]
    plain = asked_of(task).words - asked_of(task).named
    same = [(t, r) for t, r in steps if t != task and plain and asked_of(t).words - asked_of(t).named == plain]
    values = _values([_Leaf(each, ()) for each in (result, *(r for _, r in same))])
    if not same or values is None:
        return False
    sign = direction(question, dates=len(values[0]) > 1)
    names = asked_of(question).named
    if not sign and asked_of(task).named <= names and not any(asked_of(t).named <= names for t, _ in same):
        return False  # it asks of that one thing
    return not sign or any(sign * order(values[0], other) < 0 for other in values[1:])


def _is_so(question: str, leaves: Sequence[_Leaf]) -> bool | None:
    words = frozenset(folded_words(question))
    if len(leaves) != 2:
        return None
    if words & _SAME:
        first, second = (claim_of(leaf.result).words for leaf in leaves)
        return bool(first and second) and (first <= second or second <= first)
    if "both" in words:
        said = [yes_or_no(leaf.result)[0] for leaf in leaves]
        return all(word in ("true", "yes") for word in said) if all(said) else None
    values = _values(_as_named(question, leaves)) if words & ORDERED else None
    sign = direction(question, dates=values is not None and len(values[0]) > 1)
    return sign * order(*values) > 0 if values is not None and sign else None


def _as_named(question: str, leaves: Sequence[_Leaf]) -> Sequence[_Leaf]:
    """Sub-results in the order in which the question names what they are about."""
    line = words_of(question).line
    names = [words_of(name).line for name in names_in(question)]
    return sorted(
        leaves, key=lambda leaf: min((line.find(n) for n in names if any(n in s for s in leaf.lines)), default=0)
    )


def _leaves(steps: Sequence[tuple[str, str]]) -> list[_Leaf]:
    traced: list[_Leaf] = []
    used: set[int] = set()
    for task, result in steps:
        line = words_of(task).line
        led = [n for n, leaf in enumerate(traced) if (found := claim_of(leaf.result).line) and found in line]
        used.update(led)
        before = tuple(text for n in led for text in traced[n].lines)
        traced.append(_Leaf(result, (*before, line, words_of(result).line)))
    return [leaf for n, leaf in enumerate(traced) if n not in used]


def _values(leaves: Sequence[_Leaf]) -> list[Value] | None:
    """The dates, or the numbers, of all sub-results; None if they are not all of one sort."""
    dates = [date_of(leaf.result) for leaf in leaves]
    if all(dates):
        return dates
    numbers = [number_of(leaf.result) for leaf in leaves]
    return numbers if all(numbers) and not any(dates) else None


def number_of(text: str) -> Value:
    """The number of a text; empty if it has none or several."""
    numbers = [match[0] for word in compared_words(text) if is_number(word) and (match := _NUMBER.match(word))]
    return (float(numbers[0]),) if len(numbers) == 1 else ()


def direction(question: str, *, dates: bool) -> int:
    """-1 if the question asks for the smaller or earlier of two, 1 for the other, 0 if that is not clear."""
    words = frozenset(folded_words(question))
    less, more = (_EARLY, _LATE) if dates else (_LESS, _MORE)
    return bool(words & more) - bool(words & less)


def order(first: Value, second: Value) -> int:
    """-1, 0 or 1; dates are compared as far as both are known."""
    for a, b in zip(first, second, strict=False):
        if not (a and b) and len(first) > 1:
            return 0
        if a != b:
            return 1 if a > b else -1
    return 0
