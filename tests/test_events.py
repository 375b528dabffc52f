from __future__ import annotations

import inspect
import json
import re

import pytest

from subquest import events
from subquest.codec import from_dict, to_dict
from subquest.errors import DataError
from subquest.events import EVENT_KINDS, Event, EventLog


def test_a_log_numbers_its_events_without_gaps_and_tells_each_at_once() -> None:
    heard: list[Event] = []
    log = EventLog(heard.append)
    first = log.emit("start", question="who?")
    assert heard == [first]
    log.emit("search", "1.1", queries=["a", "b"], k=3)
    assert heard == log.events
    assert [(e.seq, e.kind, e.trajectory) for e in heard] == [(0, "start", ""), (1, "search", "1.1")]
    assert heard[1].data == {"queries": ["a", "b"], "k": 3}


def test_time_never_runs_backwards() -> None:
    log = EventLog()
    for _ in range(100):
        log.emit("turn", "1")
    times = [e.time for e in log.events]
    assert times == sorted(times)
    assert times[0] >= 0
    assert log.seconds >= times[-1] - 1e-6


def test_data_may_use_any_field_name() -> None:
    event = EventLog().emit("error", "1", kind="x", trajectory="y", self="z")
    assert (event.kind, event.trajectory) == ("error", "1")
    assert event.data == {"kind": "x", "trajectory": "y", "self": "z"}


def test_events_survive_json_and_unknown_kinds_are_refused() -> None:
    log = EventLog()
    for kind in EVENT_KINDS:
        log.emit(kind, "1", text="…", nested={"a": [1, None]})  # type: ignore[arg-type]
    lines = [json.dumps(to_dict(e)) for e in log.events]
    assert [from_dict(Event, json.loads(line)) for line in lines] == log.events
    with pytest.raises(DataError, match=r"Event: kind must be one of answer, close"):
        from_dict(Event, {"seq": 0, "kind": "surprise", "time": 0.0})


def test_every_kind_says_what_it_means() -> None:
    source = inspect.getsource(events)
    documented = set(re.findall(r'^    "(\w+)",  # \S', source, re.MULTILINE))
    assert documented == set(EVENT_KINDS)
