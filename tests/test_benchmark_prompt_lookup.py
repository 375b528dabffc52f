"""`subquest bench prompt-lookup`: which turns it writes again, and what it calls a gain."""

from typing import Any

import pytest

from subquest.cli.bench import _load, benchmarks
from subquest.record import Segment, Trajectory

lookup: Any = _load(benchmarks()["prompt-lookup"])


def test_every_turn_is_written_again_after_what_stood_before_it() -> None:
    prompt, search = Segment("prompt", "Find it.", (1, 2)), Segment("agent", "<search>x</search>", (3, 4, 5))
    documents, result = Segment("env", "<documents>x</documents>", (6,)), Segment("agent", "<result>x</result>", (7, 8))
    executor = Trajectory("1.1", "executor", "", segments=(prompt, search, documents, result))
    planner = Trajectory("1", "planner", "", segments=(prompt, documents, search))
    assert lookup.turns_of(planner) == [(False, [1, 2, 6], 3)]
    assert lookup.turns_of(executor) == [(False, [1, 2], 3), (True, [1, 2, 3, 4, 5, 6], 2)]


def test_the_gain_is_that_of_all_seconds_together() -> None:
    turns = [lookup.Timed(True, 10, guessing=1.0, plain=2.0), lookup.Timed(False, 4, guessing=3.0, plain=3.0)]
    assert lookup._gain(turns) == pytest.approx(5 / 4)
