"""What an episode ends with where its endpoint is busy (429) until the time limit: a forced answer, or the reason."""

from collections.abc import Callable, Iterator

import pytest

from subquest.engine.openai import OpenAIEngine
from subquest.limits import Limits
from subquest.record import Document, Episode
from subquest.retrieval import Index
from subquest.systems import registry

from ..engine.loopback import Answer, Loopback, Request, chat
from ..late_clock import LIMITS, LateClock, late_clock

__all__ = ["late_clock"]
FOUND = "Lima is the capital of Peru."
SEARCH = "<search>capital of Peru</search>"
SYSTEMS = ("search-r1", "coda", "rag")


def busy(wait: float = 0.7) -> Answer:
    return Answer({"error": {"message": "slow down"}}, 429, {"Retry-After": str(wait)})


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    folder = tmp_path_factory.mktemp("index") / "peru.sq"
    with Index.build(folder, [Document("1", "Peru", FOUND)]) as index:
        yield index


async def ask(system: str, index: Index, model: Callable[[Request], Answer], limits: Limits = LIMITS) -> Episode:
    async with Loopback(model) as server:
        engine = OpenAIEngine("m", base_url=server.url)
        made = registry.get(system)(engine, index, limits=limits)
        episode: Episode = await made.solve("What is the capital of Peru?")
        await engine.close()
    return episode


@pytest.mark.parametrize("system", SYSTEMS)
async def test_busy_from_the_first_request_on(system: str, index: Index) -> None:
    waits = iter((0.05, 0.05))
    episode = await ask(system, index, lambda _: busy(next(waits, 500.0)), Limits(seconds=2.0))
    assert episode.usage.seconds < 100, "no forced turn waits for it"
    assert (episode.answer, episode.stop_reason) == ("", "failed")
    (failure,) = [failure for failure in episode.errors if failure.fatal]
    assert failure.where == "engine"
    assert "slow down" in failure.message
    assert failure.message.endswith("(until the time limit)")


async def test_a_model_that_has_answered_before_is_asked_once_more(index: Index, late_clock: LateClock) -> None:
    asked: list[str] = []

    def model(request: Request) -> Answer:
        if FOUND not in str(request.body):
            late_clock.run(left=2.0)
            return Answer(chat(SEARCH))
        asked.append(str(request.body["messages"]))
        return busy() if asked[-1] == asked[0] else Answer(chat("<answer>Lima</answer>"))  # where it is told to

    episode = await ask("search-r1", index, model)
    assert (episode.answer, episode.forced, episode.supported) == ("Lima", True, True)


@pytest.mark.parametrize("wait", [0.7, 50.0])
async def test_a_forced_turn_that_fails_has_the_reason(
    index: Index, late_clock: LateClock, monkeypatch: pytest.MonkeyPatch, wait: float
) -> None:
    monkeypatch.setattr("subquest.runtime.context.FORCED_SECONDS", 1.0)

    def model(request: Request) -> Answer:
        late_clock.run(left=2.0)
        return busy(wait) if FOUND in str(request.body) else Answer(chat(SEARCH))

    episode = await ask("search-r1", index, model)
    assert episode.answer == ""
    assert any(f.where == "engine" and "slow down" in f.message for f in episode.errors), episode.errors
