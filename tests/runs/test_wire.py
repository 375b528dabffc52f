"""Records on the way to the writing process: nothing of them is lost."""

import pickle

from hypothesis import HealthCheck, given, settings

from subquest.codec import from_dict
from subquest.events import Event
from subquest.record import Episode, Question, Step, Usage
from subquest.runs.wire import named, values_of

from ..strategies import episodes
from .samples import episode


def test_a_sample_comes_out_as_the_codec_writes_it() -> None:
    full = episode("e1")
    travelled = pickle.loads(pickle.dumps(values_of(full)))
    assert from_dict(Episode, named(Episode, travelled)) == full


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(episodes)
def test_any_episode_comes_out_as_the_codec_writes_it(any_episode: Episode) -> None:
    assert from_dict(Episode, named(Episode, values_of(any_episode))) == any_episode


def test_only_values_travel() -> None:
    assert values_of(Event(3, "turn", 0.5, "1.1", {"text": "hi"})) == (3, "turn", 0.5, "1.1", {"text": "hi"})
    question = Question("q", "Who?", ("a", "b"), decomposition=(Step("s", "t"),))
    assert named(Question, values_of(question)) == {
        "id": "q",
        "question": "Who?",
        "answers": ["a", "b"],
        "decomposition": [{"question": "s", "answer": "t"}],
    }
    assert named(Usage, values_of(Usage())) == {}
