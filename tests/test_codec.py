from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subquest.codec import from_dict, to_dict
from subquest.errors import DataError
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
