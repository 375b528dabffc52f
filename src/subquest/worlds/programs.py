"""Programs: what a question asks, as steps over facts that can be run without understanding its words.

    get S R     the value of relation R of S
    of S R      the one thing whose relation R is S (an inverse look-up that must be unique)
    all S R     every thing whose relation R is S

S is an entity's id, `#n` for the value of step n, `#n.i` for item i of its list, or `#n&m` for what two lists share.
The last step's value is the answer unless an operation says otherwise. `subquest world check` runs programs over the
facts that articles state.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec

from ..codec import checked
from ..errors import DataError
from .relations import INVERSES, RELATIONS

Atom = str | int
StepRow = tuple[Literal["get", "of", "all"], str, str]
"""(action, subject, relation)"""
_ARGUMENTS = {
    "last": "", "count": "n", "both": "nn", "same": "nn", "years": "nn", "age": "nn", "order": "nn", "best": "mnn",
    "pick": "nnmss",
}  # fmt: skip
"""What follows an operation's name: the number of a step (n), min or max (m), an id or `#n` (s)."""
_REFERENCE = re.compile(r"#([0-9]{1,4})(?:\.[0-9]{1,4}|&([0-9]{1,4}))?")


class Program(msgspec.Struct, frozen=True):
    """What a question asks, as its `meta` holds it."""

    program: Annotated[list[StepRow], msgspec.Meta(min_length=1)]
    operation: list[Atom]


def parse_program(meta: Mapping[str, Any]) -> Program:
    """The program in a question's `meta`; raises DataError where it refers to a relation or step that is not there."""
    made = checked(Program, dict(meta), "meta", error=DataError)
    for n, (action, subject, relation) in enumerate(made.program, 1):
        if relation not in (RELATIONS if action == "get" else INVERSES):
            raise DataError(f"step {n} of the program: there is no relation {relation!r} to {action}")
        if not _is_subject(subject, n - 1):
            raise DataError(f"step {n} of the program: {subject!r} is no earlier step")
    if not _is_operation(made.operation, len(made.program)):
        raise DataError(
            f"meta: operation must be one of {', '.join(_ARGUMENTS)} with its arguments, not {made.operation!r:.80}"
        )
    return made


def _is_subject(subject: str, before: int) -> bool:
    """Whether a text is an id, or refers to earlier steps."""
    if not subject.startswith("#"):
        return True
    match = _REFERENCE.fullmatch(subject)
    return match is not None and all(1 <= int(n) <= before for n in match.groups() if n)


def _is_operation(operation: Sequence[Atom], steps: int) -> bool:
    name, *arguments = operation or [""]
    kinds = _ARGUMENTS.get(str(name))
    return (
        kinds is not None
        and len(kinds) == len(arguments)
        and all(_is_argument(kind, value, steps) for kind, value in zip(kinds, arguments, strict=True))
    )


def _is_argument(kind: str, value: Atom, steps: int) -> bool:
    if kind == "n":
        return isinstance(value, int) and 1 <= value <= steps
    if kind == "m":
        return value in ("min", "max")
    return isinstance(value, str) and _is_subject(value, steps) and not re.match(r"#[0-9]*[.&]", value)


class Undecided(Exception):
    """The stated facts give no answer, or more than one."""


@dataclass(slots=True)
class FactBase:
    """Facts as articles state them, by subject and relation and by relation and object."""

    forward: dict[tuple[str, str], set[Atom]] = field(default_factory=dict)
    backward: dict[tuple[str, Atom], set[str]] = field(default_factory=dict)

    def add(self, subject: str, relation: str, value: Atom) -> None:
        self.forward.setdefault((subject, relation), set()).add(value)
        self.backward.setdefault((relation, value), set()).add(subject)

    def get(self, subject: Atom, relation: str) -> Atom:
        values = self.forward.get((str(subject), relation), set())
        if len(values) != 1:
            raise Undecided(f"{relation} of {subject}: {len(values)} values stated")
        return next(iter(values))

    def all(self, value: Atom, relations: Iterable[str]) -> list[str]:
        found: set[str] = set()
        for relation in relations:
            found |= self.backward.get((relation, value), set())
        return sorted(found)


def resolve(subject: str, values: Sequence[Atom | list[str]]) -> Atom:
    """What a step's subject stands for, given the values of the steps before."""
    if not subject.startswith("#"):
        return subject
    if "&" in subject:
        one, two = (values[int(n) - 1] for n in subject[1:].split("&"))
        return shared(one, two)
    number, _, item = subject[1:].partition(".")
    source = values[int(number) - 1]
    if isinstance(source, list):
        if not item:
            raise Undecided(f"step {number} gives a list")
        if int(item) >= len(source):
            raise Undecided(f"step {number} gives {len(source)} things")
        return source[int(item)]
    return source


def shared(one: Atom | list[str], two: Atom | list[str]) -> str:
    """The only thing in both lists."""
    common = sorted(set(one if isinstance(one, list) else ()) & set(two if isinstance(two, list) else ()))
    if len(common) != 1:
        raise Undecided(f"{len(common)} things in both lists")
    return common[0]


def run_steps(steps: Sequence[StepRow], facts: FactBase) -> list[Atom | list[str]]:
    """The value of every step; raises Undecided where the facts do not settle one."""
    values: list[Atom | list[str]] = []
    for action, subject, relation in steps:
        source = resolve(subject, values)
        if action == "get":
            values.append(facts.get(source, relation))
            continue
        found = facts.all(source, INVERSES[relation])
        if action == "all":
            values.append(found)
        elif len(found) == 1:
            values.append(found[0])
        else:
            raise Undecided(f"{relation} of {source}: {len(found)} things stated")
    return values


def year_of(value: Atom) -> int:
    """The year of a date or a year; raises Undecided for what is neither."""
    if isinstance(value, int):
        return value
    if not value[:4].isdecimal():
        raise Undecided(f"{value} is no date")
    return int(value[:4])


def run_operation(operation: Sequence[Atom], values: Sequence[Atom | list[str]]) -> Atom:
    """The answer as an atom: an entity id, a number, a date, `yes` or `no`."""
    name, *rest = operation
    if name in ("pick", "order", "same", "years", "age"):
        i, j = values[int(rest[0]) - 1], values[int(rest[1]) - 1]
        if isinstance(i, list) or isinstance(j, list):
            raise Undecided("a list where one value is needed")
        answer = _pair(str(name), i, j, rest[2:])
        if isinstance(answer, str) and answer.startswith("#"):
            value = values[int(answer[1:]) - 1]
            if isinstance(value, list):
                raise Undecided("a list where one value is needed")
            return value
        return answer
    if name == "count":
        found = values[int(rest[0]) - 1]
        return len(found) if isinstance(found, list) else 1
    if name == "both":
        return shared(values[int(rest[0]) - 1], values[int(rest[1]) - 1])
    if name == "best":
        return _best(str(rest[0]), values[int(rest[1]) - 1], values[int(rest[2]) - 1 :])
    last = values[-1]
    if isinstance(last, list):
        raise Undecided("a list where one value is needed")
    return last


def _pair(name: str, i: Atom, j: Atom, rest: Sequence[Atom]) -> Atom:
    if name == "same":
        return "yes" if i == j else "no"
    if name == "years":
        return abs(year_of(i) - year_of(j))
    if name == "age":
        a, b = str(i), str(j)
        return year_of(b) - year_of(a) - (b[5:] < a[5:])
    if type(i) is not type(j):
        i, j = year_of(i), year_of(j)
    if i == j:
        raise Undecided("the compared values are equal")
    less = i < j  # type: ignore[operator]
    if name == "order":
        return "yes" if less else "no"
    smaller, first, second = rest
    return first if less == (smaller == "min") else second


def _best(which: str, things: Atom | list[str], values: Sequence[Atom | list[str]]) -> Atom:
    if not isinstance(things, list) or len(things) != len(values):
        raise Undecided("the list and its values do not match")
    found = [(v, t) for v, t in zip(values, things, strict=True) if not isinstance(v, list)]
    if len(found) < 2 or len({type(v) for v, _ in found}) > 1:
        raise Undecided("the values cannot be compared")
    keyed = sorted(found)
    if which == "max":
        keyed.reverse()
    if keyed[0][0] == keyed[1][0]:
        raise Undecided("the best value is shared")
    return keyed[0][1]
