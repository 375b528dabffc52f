"""Tokens guessed from the context are kept only where the model writes them itself."""

import pytest

from subquest.engine import Message, Sampling
from subquest.engine.embedded import EmbeddedEngine
from subquest.engine.embedded.lookup import MOST, Lookup
from subquest.engine.embedded.model import Model, Stretch

from .conftest import Check

pytestmark = pytest.mark.embedded

LIST = "Item 1: copper lamp. Item 2: winter orchard. Item 3: glass river. Item 4: seven stones. Item 5: north paper."


def test_guesses_are_what_followed_last_time() -> None:
    lookup = Lookup()
    ids = [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2]
    assert lookup.guess(ids, 10) == [3]
    assert lookup.guess(ids, 0) == lookup.guess(ids, -1) == []
    lookup.learn(1, 1)
    assert lookup.guess(ids, 10) == [3, 4, 5]
    assert lookup.guess(ids, 2) == [3, 4]
    lookup.learn(3, 3)
    lookup.learn(7, 7)
    assert lookup.guess(ids, 10) == [3, 4, 5, 6, 7, 8, 9]
    lookup.learn(7, 2)
    assert lookup.guess(ids, 10) == [3]
    ids += [9, 1, 2]
    assert lookup.guess(ids, 10) == [9]  # the latest occurrence
    assert lookup.guess([*ids, 77], 10) == []
    assert Lookup().guess([1], 10) == []


@pytest.fixture
def alone(engine: EmbeddedEngine, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The widths of the passes that wrote; guessing is on whatever kernel runs here."""
    widths: list[int] = []
    step = Model.step

    def counted(self: Model, stretches: list[Stretch]) -> object:
        if all(stretch.wanted == len(stretch.tokens) for stretch in stretches):
            widths.append(sum(len(stretch.tokens) for stretch in stretches))
        return step(self, stretches)

    monkeypatch.setattr(Model, "step", counted)
    monkeypatch.setattr(engine.scheduler, "_guesses", True)
    return widths


async def test_a_copied_text_takes_fewer_passes(engine: EmbeddedEngine, alone: list[int], written_alone: Check) -> None:
    session = await engine.open([Message("user", f"Repeat this list exactly, twice.\n{LIST}")])
    turn = await session.generate(Sampling(max_tokens=40))
    passes = len(alone)
    assert len(turn.token_ids) - 1 > 1.5 * passes
    assert max(alone) == MOST + 1
    written_alone(session)
    await session.append("Once more.")
    await session.generate(Sampling(max_tokens=8))  # the cache holds what was written, and no wrong guesses
    written_alone(session)
    await session.close()


async def test_sampled_text_keeps_its_seed_limit_and_stop(engine: EmbeddedEngine, alone: list[int]) -> None:
    async def write(**settings: object) -> tuple[int, ...]:
        session = await engine.open([Message("user", f"Repeat this list exactly, twice.\n{LIST}")])
        turn = await session.generate(Sampling(temperature=0.7, seed=5, **settings))  # type: ignore[arg-type]
        await session.close()
        assert turn.logprobs is None or all(p <= 0 for p in turn.logprobs)
        assert turn.finish != "stop" or turn.text.endswith("river")
        return turn.token_ids

    whole = await write(max_tokens=24)
    assert max(alone) > 1
    for limit in (9, 12):
        assert await write(max_tokens=limit) == whole[:limit]
    stopped = await write(max_tokens=24, stop=("river",))
    assert stopped == whole[: len(stopped)]
