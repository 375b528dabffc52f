"""What may be asked."""

from typing import Any

import pytest

from subquest.engine.scripted import ScriptedEngine
from subquest.errors import UsageError
from subquest.record import Question, checked_question


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("", "is empty"),
        ("  \n", "is empty"),
        ("\ud800?", "not valid UTF-8"),
        (None, "a text or a Question, not None"),
        (b"Who?", "a text or a Question"),
        ({"question": "Who?"}, "a text or a Question"),
    ],
)
def test_what_is_no_question_is_refused(asked: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        checked_question(asked)


def test_a_text_becomes_a_record_and_a_record_stays_itself() -> None:
    assert checked_question("Who?", 3) == Question("q3", "Who?")
    record = Question("a", "Who?", ("Ann",))
    assert checked_question(record) is record


async def test_what_is_written_is_passed_on_by_context() -> None:
    from subquest.systems.coda import CoDA

    from ..serve.conftest import QUESTION, reply
    from ..systems.fakes import FakeSearch

    heard: dict[str, str] = {}

    def hear(trajectory: str, piece: str) -> None:
        heard[trajectory] = heard.get(trajectory, "") + piece

    episode = await CoDA(ScriptedEngine(reply), FakeSearch()).solve(QUESTION, on_text=hear)
    assert heard == {t.id: "".join(t.written_turns) for t in episode.trajectories}
    assert len(heard) == 3


async def test_without_support_only_what_is_said_about_documents_is_missing() -> None:
    from subquest.systems.coda import CoDA

    from ..serve.conftest import QUESTION, reply
    from ..systems.fakes import FakeSearch

    whole, bare = [
        await CoDA(ScriptedEngine(reply), FakeSearch()).solve(QUESTION, support=support) for support in (True, False)
    ]
    assert whole.supported is not None
    assert (bare.evidence, bare.supported) == ((), None)
    assert bare.answer == whole.answer
    assert [t.segments for t in bare.trajectories] == [t.segments for t in whole.trajectories]
    assert [event.kind for event in bare.events] == [event.kind for event in whole.events]
