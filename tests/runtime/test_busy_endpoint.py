"""What an episode ends with where its endpoint is busy (429) until the time limit: a forced answer, or the reason."""

import time
from collections.abc import Callable, Iterator

import pytest

from subquest.engine.openai import OpenAIEngine
from subquest.limits import Limits
from subquest.record import Document, Episode
from subquest.retrieval import Index
from subquest.systems import registry

from ..engine.loopback import Answer, Loopback, Request, chat

FOUND = "Lima is the capital of Peru."
SECONDS = 2.0
SYSTEMS = ("search-r1", "coda", "rag")


def busy(wait: float = 0.7) -> Answer:
    return Answer({"error": {"message": "slow down"}}, 429, {"Retry-After": str(wait)})


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    folder = tmp_path_factory.mktemp("index") / "peru.sq"
    with Index.build(folder, [Document("1", "Peru", FOUND)]) as index:
        yield index


async def ask(system: str, index: Index, model: Callable[[Request], Answer]) -> Episode:
    async with Loopback(model) as server:
        engine = OpenAIEngine("m", base_url=server.url)
        made = registry.get(system)(engine, index, limits=Limits(seconds=SECONDS))
        episode: Episode = await made.solve("What is the capital of Peru?")
        await engine.close()
    return episode


@pytest.mark.parametrize("system", SYSTEMS)
async def test_busy_from_the_first_request_on(system: str, index: Index) -> None:
    waits = iter((0.05, 0.05))
    episode = await ask(system, index, lambda _: busy(next(waits, 50.0)))
    assert episode.usage.seconds < SECONDS + 20, "no forced turn waits for it"
    assert (episode.answer, episode.stop_reason) == ("", "failed")
    (failure,) = [failure for failure in episode.errors if failure.fatal]
    assert failure.where == "engine"
    assert "slow down" in failure.message
    assert failure.message.endswith("(until the time limit)")


async def test_a_model_that_has_answered_before_is_asked_once_more(index: Index) -> None:
    began = time.monotonic()

    def model(request: Request) -> Answer:
        if FOUND not in str(request.body):
            return Answer(chat("<search>capital of Peru</search>"))
        return busy() if time.monotonic() - began < SECONDS + 0.5 else Answer(chat("<answer>Lima</answer>"))

    episode = await ask("search-r1", index, model)
    assert (episode.answer, episode.forced, episode.supported) == ("Lima", True, True)


@pytest.mark.parametrize("wait", [0.7, 50.0])
async def test_a_forced_turn_that_fails_has_the_reason(
    index: Index, monkeypatch: pytest.MonkeyPatch, wait: float
) -> None:
    monkeypatch.setattr("subquest.runtime.context.FORCED_SECONDS", 1.0)

    def model(request: Request) -> Answer:
        return busy(wait) if FOUND in str(request.body) else Answer(chat("<search>capital of Peru</search>"))

    episode = await ask("search-r1", index, model)
    assert episode.answer == ""
    assert any(f.where == "engine" and "slow down" in f.message for f in episode.errors), episode.errors
