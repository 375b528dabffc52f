"""Quick records are what `dataclass` makes of them, only sooner."""

import copy
import dataclasses
import inspect
import pickle
from dataclasses import dataclass, field

import pytest

from subquest.errors import DataError
from subquest.quick import quick
from subquest.record import Segment, Usage


@dataclass(frozen=True, slots=True)
class Usual:
    a: int
    b: str = "b"
    c: tuple[int, ...] = ()
    d: dict[str, int] = field(default_factory=dict)


@quick
@dataclass(frozen=True, slots=True)
class Quick:
    a: int
    b: str = "b"
    c: tuple[int, ...] = ()
    d: dict[str, int] = field(default_factory=dict)


class Below(Quick):
    __slots__ = ()


def test_it_is_frozen_and_compares_hashes_and_prints_as_before() -> None:
    record = Quick(1, c=(2,))
    assert type(record) is Quick
    assert dataclasses.astuple(record) == (1, "b", (2,), {})
    assert repr(record) == repr(Usual(1, c=(2,))).replace("Usual", "Quick")
    assert record == Quick(1, "b", (2,))
    assert record != Quick(1)
    assert hash(Usage(1)) == hash(Usage(1))
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.a = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del record.a  # type: ignore[misc]
    with pytest.raises((AttributeError, TypeError)):
        record.e = 2  # type: ignore[attr-defined]


def test_copies_and_changes_work() -> None:
    record = Quick(1, d={"x": 1})
    for twin in (pickle.loads(pickle.dumps(record)), copy.deepcopy(record), dataclasses.replace(record)):
        assert twin == record
        assert type(twin) is Quick
    assert dataclasses.replace(record, b="c").b == "c"
    assert Quick(1).d is not Quick(1).d


def test_arguments_are_checked_as_before() -> None:
    assert inspect.signature(Quick).parameters.keys() == inspect.signature(Usual).parameters.keys()
    for wrong in ((), (1, "b", (), {}, 5)):
        with pytest.raises(TypeError, match="__init__"):
            Quick(*wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unexpected keyword"):
        Quick(1, z=2)  # type: ignore[call-arg]


def test_a_subclass_stays_one() -> None:
    assert type(Below(1)) is Below
    assert Below(1, "x").b == "x"


def test_what_follows_the_making_still_runs() -> None:
    with pytest.raises(DataError, match="cannot have log-probs"):
        Segment("env", "x", (1,), (0.5,))
