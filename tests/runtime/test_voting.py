"""Self-consistency: several attempts at a question, and the answer that most of them give."""

import asyncio
from typing import ClassVar

import pytest

from subquest.engine import Generation, Message, Mode, Sampling, Session
from subquest.engine.scripted import Reply, ScriptedEngine
from subquest.errors import EngineRefused, SearchError, UsageError
from subquest.limits import Limits
from subquest.record import Episode
from subquest.runtime.context import LimitReached
from subquest.runtime.run import Answer, Run
from subquest.runtime.system import NoSettings, System
from subquest.runtime.voting import TEMPERATURE, is_decided, normalize_answer
from subquest.systems import registry

from ..systems.fakes import FakeSearch

QUESTION = "Where was the designer of the Orvane Bridge born?"


def said(*answers: str | Exception) -> list[Reply]:
    return [a if isinstance(a, Exception) else f"<answer>{a}</answer>" for a in answers]


def ask(script: list[Reply], **options: object) -> Episode:
    return registry.get("direct")(ScriptedEngine(script), **options).ask_many([QUESTION])[0]  # type: ignore[arg-type]


def test_most_attempts_decide() -> None:
    episode = ask(said("Kestel", "Torrun", "Kestel", "torrun.", "the Torrun"), votes=5)
    assert episode.answer == "Torrun"
    assert episode.confidence == 3 / 5
    assert [t.id for t in episode.roots] == ["1", "2", "3", "4", "5"]
    assert episode.usage.model_calls == 5
    told = next(e for e in episode.events if e.kind == "answer")
    assert told.data["votes"] == {"Kestel": 2, "Torrun": 3}
    assert episode.settings["votes"] == 5


def test_what_cannot_be_overtaken_ends_the_vote() -> None:
    episode = ask(said("Kestel", "Kestel"), votes=3)  # a third reply is not there to be asked for
    assert (episode.answer, len(episode.roots), episode.errors) == ("Kestel", 2, ())
    assert not is_decided(["a"], 2)
    assert not is_decided(["a", "b"], 1)
    assert not is_decided(["a", "a", "b"], 1)
    assert is_decided(["a", "a", "b"], 0)
    assert is_decided(["a", "a", ""], 1)
    assert not is_decided(["", ""], 3)


def test_evidence_of_a_later_attempt_names_its_query() -> None:
    attempt = ["<task>Where was Mila Torrun born?</task>", "<answer>Kestel</answer>"]
    executor = ["<search>Mila Torrun born</search>", "<result>Kestel</result>"]
    engine = ScriptedEngine({"planner": ["<answer>Torrun</answer>", *attempt, *attempt], "executor": executor * 2})
    episode = registry.get("coda")(engine, FakeSearch(), votes=3).ask(QUESTION)
    assert [(e.trajectory, e.query) for e in episode.evidence] == [("2.1", "Mila Torrun born")] * 2


def test_of_several_with_as_many_votes_the_first_counts() -> None:
    assert ask(said("Kestel", "Torrun"), votes=2).answer == "Kestel"


def test_one_vote_is_as_before() -> None:
    episode = ask(said("Kestel"))
    assert "votes" not in episode.settings
    assert "votes" not in next(e for e in episode.events if e.kind == "answer").data
    with pytest.raises(UsageError, match="votes must be from 1"):
        ask(said("Kestel"), votes=0)


def test_a_failed_attempt_has_no_vote_and_is_on_the_trace() -> None:
    down = EngineRefused("no")
    episode = ask(said(down, "Kestel", "Torrun", "Torrun"), votes=4)
    assert episode.answer == "Torrun"
    assert [(e.where, e.message) for e in episode.errors] == [("engine", "no")]


class Flaky(System[NoSettings]):
    """Raises what it is told to, or answers it."""

    name: ClassVar[str] = "flaky"
    ends: ClassVar[list[str | Exception]] = []

    async def answer(self, run: Run) -> Answer:
        end = self.ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return Answer(end)


def test_an_attempt_that_ends_by_an_error_is_noted_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Flaky, "ends", [SearchError("gone"), "Torrun", LimitReached("turns"), "Torrun", "Kestel"])
    episode = Flaky(ScriptedEngine([]), votes=5).ask(QUESTION)
    assert (episode.answer, episode.stop_reason) == ("Torrun", "answered")
    assert [(e.where, e.message, e.fatal) for e in episode.errors] == [
        ("attempt 1", "gone", False),
        ("attempt 3", "turns", False),
    ]
    monkeypatch.setattr(Flaky, "ends", [SearchError("gone"), SearchError("still"), SearchError("for good")])
    (failed,) = Flaky(ScriptedEngine([]), votes=3).ask_many([QUESTION])
    assert (failed.answer, failed.stop_reason) == ("", "failed")
    assert [e.message for e in failed.errors] == ["gone", "still", "for good", "gone"]
    assert [e.fatal for e in failed.errors] == [False, False, False, True]


def test_where_nobody_answers_there_is_no_answer() -> None:
    episode = ask(said(*[EngineRefused("no")] * 3), votes=3)
    assert episode.answer == ""
    assert episode.stop_reason not in ("", "answered")


def test_the_budget_is_that_of_the_episode() -> None:
    episode = ask(said("Kestel", "Torrun"), votes=5, limits=Limits(calls=2))
    assert (episode.answer, episode.usage.model_calls) == ("Kestel", 2)


class Listening:
    """An engine that notes how it was asked to decode."""

    name = "listening"
    context_window = None

    def __init__(self) -> None:
        self.inner = ScriptedEngine(said("a", "b", "c"))
        self.samplings: list[Sampling] = []

    async def open(self, messages: list[Message], *, mode: Mode = "chat") -> Session:
        session = await self.inner.open(messages, mode=mode)
        generate = session.generate

        async def listened(sampling: Sampling) -> Generation:
            self.samplings.append(sampling)
            return await generate(sampling)

        session.generate = listened  # type: ignore[method-assign]
        return session

    def count_tokens(self, text: str) -> int:
        return self.inner.count_tokens(text)


@pytest.mark.parametrize("given", [0.0, 1.0])
def test_the_first_attempt_decodes_as_alone_and_the_others_draw(given: float) -> None:
    engine = Listening()
    system = registry.get("direct")(engine, votes=3, sampling=Sampling(temperature=given))  # type: ignore[arg-type]
    asyncio.run(system.solve(QUESTION, seed=7))
    assert [s.temperature for s in engine.samplings] == [given, given or TEMPERATURE, given or TEMPERATURE]
    assert len({s.seed for s in engine.samplings}) == 3


@pytest.mark.parametrize("name", registry.names())
def test_every_system_can_vote(name: str) -> None:
    turns = iter(range(10_000))

    def reply(context: object) -> Reply:
        said = ("Kestel", "Torrun", "Orvane")[next(turns) % 3]
        return f"<answer>{said}</answer>\\boxed{{{said}}}\nAction: Finish[{said}]"

    episode = registry.get(name)(ScriptedEngine(reply), FakeSearch(), votes=3).ask(QUESTION)
    ids = [t.id for t in episode.trajectories]
    assert len(set(ids)) == len(ids)
    assert all(t.parent in (None, *ids) for t in episode.trajectories)
    told = next(e for e in episode.events if e.kind == "answer").data
    assert sum(told["votes"].values()) in (2, 3)
    assert told["votes"][episode.answer] == max(told["votes"].values())
    assert Episode.from_json(episode.to_json()) == episode


def test_answers_are_compared_without_case_punctuation_and_articles() -> None:
    assert normalize_answer("The  Old Mill!") == normalize_answer("old mill")
    assert normalize_answer("1,947") == normalize_answer("1947")
    assert normalize_answer("東京") == "東京"
    assert normalize_answer("!?") == "!?"
