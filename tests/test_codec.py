from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subquest.codec import AboveZero, Record, Share, changed, checked, from_dict, to_dict, utf8, without_defaults
from subquest.errors import ConfigError, DataError, UsageError
from subquest.events import Event
from subquest.record import Document, Episode, Evidence, Failure, Hit, Question, Segment, Step, Usage

from . import strategies as some


@given(
    st.one_of(
        some.documents,
        some.hits,
        some.steps,
        some.questions,
        some.usages,
        some.segments(),
        some.events,
        some.evidence,
        some.failures,
    )
)
def test_every_record_survives_json(record: Any) -> None:
    data = json.loads(json.dumps(to_dict(record)))
    again = from_dict(type(record), data)
    assert again == record
    assert type(again) is type(record)


def test_defaults_are_left_out() -> None:
    assert to_dict(Question("q", "who?")) == {"id": "q", "question": "who?"}
    assert to_dict(Usage()) == {}
    assert to_dict(Segment("agent", "x", (1,), (-0.5,))) == {
        "kind": "agent",
        "text": "x",
        "token_ids": (1,),
        "logprobs": (-0.5,),
    }
    assert to_dict(Hit(Document("d", "t", "x"), 0.0)) == {
        "document": {"id": "d", "title": "t", "text": "x"},
        "score": 0.0,
    }


@pytest.mark.parametrize(
    ("cls", "data", "message"),
    [
        (Question, {"id": "q"}, "Question: missing key 'question'"),
        (
            Question,
            {"id": "q", "question": "?", "anwers": []},
            "Question: unknown key 'anwers'; did you mean 'answers'?",
        ),
        (Question, {"id": 1, "question": "?"}, "Question: id must be text, not 1"),
        (Question, {"id": "q", "question": "?", "answers": "yes"}, "Question: answers must be a list, not 'yes'"),
        (Question, {"id": "q", "question": "?", "answers": ["a", 2]}, "Question: answers[2] must be text, not 2"),
        (Question, {"id": "q", "question": "?", "hops": True}, "Question: hops must be a whole number, not True"),
        (Question, {"id": "q", "question": "?", "meta": []}, "Question: meta must be an object, not []"),
        (Question, [], "Question must be an object, not []"),
        (Usage, {"seconds": "1"}, "Usage: seconds must be a number, not '1'"),
        (Failure, {"where": "x", "message": "m", "fatal": 1}, "Failure: fatal must be true or false, not 1"),
        (Segment, {"kind": "human", "text": "x"}, "Segment: kind must be one of agent, env, prompt, not 'human'"),
        (
            Segment,
            {"kind": "env", "text": "x", "token_ids": [1, "2"]},
            "Segment: token_ids[2] must be a whole number, not '2'",
        ),
        (
            Segment,
            {"kind": "env", "text": "x", "token_ids": [1.5]},
            "Segment: token_ids[1] must be a whole number, not 1.5",
        ),
        (
            Episode,
            {
                "id": "e",
                "question": {"id": "q", "question": "?", "decomposition": [{"q": 1}]},
                "system": "s",
                "model": "m",
            },
            "Episode: question.decomposition[1]: unknown key 'q'",
        ),
        (
            Episode,
            {
                "id": "e",
                "question": {"id": "q", "question": "?"},
                "system": "s",
                "model": "m",
                "trajectories": [
                    {"id": "1", "role": "r", "task": "t", "segments": [{"kind": "env", "text": "x", "logprobs": []}]}
                ],
            },
            "'env' cannot have log-probs",
        ),
    ],
)
def test_what_does_not_fit_is_named(cls: type[Any], data: Any, message: str) -> None:
    with pytest.raises(DataError) as caught:
        from_dict(cls, data)
    assert message in str(caught.value)


def test_whole_numbers_are_floats_where_floats_are_due() -> None:
    usage = from_dict(Usage, {"seconds": 2})
    assert isinstance(usage.seconds, float)
    segment = from_dict(Segment, {"kind": "agent", "text": "", "token_ids": [1, 2], "logprobs": [0, -1.5]})
    assert segment.logprobs == (0.0, -1.5)
    assert all(isinstance(p, float) for p in segment.logprobs)


@dataclass(frozen=True)
class Leaf:
    name: str
    weight: float | None = None


@dataclass(frozen=True)
class Tree:
    leaves: tuple[Leaf, ...] = ()
    best: Leaf | None = None


def test_nested_records_and_optional_fields() -> None:
    tree = Tree((Leaf("a"), Leaf("b", 0.5)), Leaf("a"))
    assert to_dict(tree) == {"leaves": [{"name": "a"}, {"name": "b", "weight": 0.5}], "best": {"name": "a"}}
    assert from_dict(Tree, to_dict(tree)) == tree


def test_steps_and_evidence_read_from_published_forms() -> None:
    step = from_dict(Step, {"question": "Who wrote #1?", "answer": "A. Uthor"})
    assert step == Step("Who wrote #1?", "A. Uthor")
    assert from_dict(Evidence, {"id": "d", "title": "t", "quote": "q"}).start == 0
    assert from_dict(Event, {"seq": 0, "kind": "start", "time": 0}).data == {}


class Tool:
    """A class of a user."""


@dataclass(frozen=True)
class Settings:
    k: int
    mode: Literal["fast", "slow"] = "fast"
    shares: tuple[float, ...] = ()
    tool: Tool | None = None
    hook: Callable[[str], str] | None = None


def test_dataclasses_of_a_user_are_checked_field_by_field() -> None:
    tool, hook = Tool(), str.upper
    made = checked(Settings, {"k": 3, "shares": [1, 0.5], "tool": tool, "hook": hook}, "system 'mine'")
    assert made == Settings(3, shares=(1.0, 0.5), tool=tool, hook=hook)
    assert changed(made, {"mode": "slow"}, "system 'mine'").mode == "slow"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"k": "3"}, "system 'mine': k must be a whole number, not '3'"),
        ({"k": 3, "mode": "slwo"}, "system 'mine': mode must be one of fast, slow, not 'slwo'"),
        ({"k": 3, "mdoe": "slow"}, "system 'mine': unknown key 'mdoe'; did you mean 'mode'?"),
        ({"k": 3, "shares": [1, "x"]}, "system 'mine': shares[2] must be a number, not 'x'"),
        ({}, "system 'mine': missing key 'k'"),
    ],
)
def test_what_a_user_gets_wrong_is_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        checked(Settings, values, "system 'mine'")
    assert str(caught.value) == message


class Bounds(Record):
    share: Share = 0.5
    above: AboveZero = 1.0
    names: Mapping[str, float] = {}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"share": 1.5}, "x.toml: share must be a number from 0 to 1, not 1.5"),
        ({"above": 0}, "x.toml: above must be a number above 0, not 0"),
        ({"names": {"a": "b"}}, "x.toml: each value of names must be a number, not {'a': 'b'}"),
        ({"names": {1: 2}}, "x.toml: names must be an object with text as keys, not {1: 2}"),
        ([], "x.toml must be an object, not []"),
    ],
)
def test_bounds_stand_in_the_message(values: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        checked(Bounds, values, "x.toml", error=ConfigError)
    assert str(caught.value) == message


def test_text_is_read_as_numbers_where_it_may_be() -> None:
    assert checked(Bounds, {"share": "0.25"}, "?", text=True) == Bounds(0.25)
    with pytest.raises(UsageError):
        checked(Bounds, {"share": "0.25"}, "?")


def test_equal_defaults_are_left_out_where_it_matters() -> None:
    assert without_defaults(Usage(1, seconds=float("0"))) == {"prompt_tokens": 1}


FIRST_USES = """
import sys, threading
from subquest.codec import Record, from_dict

def declared(name, hint):
    body = {f"a{n}": None for n in range(60)}
    kind = type(Record)(name, (Record,), {**body, "__annotations__": dict.fromkeys(body, hint), "__module__": __name__})
    globals()[name] = kind
    return kind

sys.setswitchinterval(1e-6)
values = {f"a{n}": {"a1": {"x": 1}} for n in range(60)}
for number in range(20):
    declared(f"Inner{number}", "dict[str, int] | None")
    kind = declared(f"Outer{number}", f"Inner{number} | None")
    gate = threading.Barrier(8)
    threads = [threading.Thread(target=lambda: (gate.wait(), from_dict(kind, values))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_threads_use_a_declaration_for_the_first_time() -> None:
    """In a process of its own: what went wrong here was a segmentation fault."""
    assert subprocess.run([sys.executable, "-c", FIRST_USES], timeout=120).returncode == 0


@given(st.text(st.characters(exclude_categories=())))
def test_text_that_can_be_written(text: str) -> None:
    written = utf8(text)
    assert written.encode() == text.encode(errors="replace")
    assert utf8(written) == written
