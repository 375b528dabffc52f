"""Prompt lookup: guesses worked out by hand, and the real model, which writes the same with them in fewer passes."""

import asyncio
from collections.abc import Sequence

import pytest

from subquest.engine import Generation, Message, Sampling
from subquest.engine.embedded import EmbeddedEngine
from subquest.engine.embedded.lookup import LONG, SHORT, Guess, Lookup, look_up
from subquest.engine.embedded.model import Model, Stretch

from .conftest import Check, make

LIST = (
    "Copy this list word for word: granite, sandstone, limestone, basalt, marble, slate, chalk, flint, pumice, gneiss."
)


def tokens(*ids: int) -> str:
    return "".join(map(chr, ids))


def test_what_followed_the_latest_occurrence_is_guessed() -> None:
    assert look_up(tokens(1, 2, 3, 4, 5, 6, 7, 9, 1, 2, 3, 4)) == Guess(LONG, (5, 6, 7))
    assert look_up(tokens(1, 2, 3, 4, 5, 8, 1, 2, 3, 4, 6, 8, 1, 2, 3, 4)) == Guess(LONG, (6, 8, 1)), "the latest"
    assert look_up(tokens(5, 7, 8, 5)) == Guess(SHORT, (7,)), "one token after a short match"
    assert look_up(tokens(3, 3, 3, 3, 3)) == Guess(LONG, (3,)), "an occurrence may overlap the end"
    assert look_up(tokens(1, 2, 3)) == look_up(tokens(1)) == look_up("") == Guess(0)
    assert look_up(tokens(55_555, 150_000, 1, 55_555)).tokens == (150_000,)


def test_guesses_stop_where_they_fail_and_come_back_where_they_would_be_right() -> None:
    lookup = Lookup()
    long, short = Guess(LONG, (1, 2, 3)), Guess(SHORT, (1,))
    assert (lookup.allowed(long, 1), lookup.allowed(short, 1), lookup.allowed(Guess(0), 1)) == (1, 1, 0)
    for _ in range(9):  # 0.6 * 0.95 ** 9 = 0.378
        lookup.note(long, 9)
    assert (lookup.allowed(long, 1), lookup.allowed(short, 1)) == (0, 1)
    for _ in range(21):  # 1 - 0.622 * 0.95 ** 21 = 0.788
        lookup.note(long, 1)
    assert lookup.allowed(long, 1) == 3
    assert lookup.allowed(long, 2) == 1, "two turns share the four tokens of a pass"
    assert lookup.allowed(long, 3) == 0


class Passes:
    """How many tokens each pass took, and after how many of them logits were wanted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[list[tuple[int, int]]] = []
        step = Model.step

        def spied(model: Model, stretches: Sequence[Stretch]) -> object:
            self.seen.append([(len(stretch.tokens), int(stretch.wanted)) for stretch in stretches])
            return step(model, stretches)

        monkeypatch.setattr(Model, "step", spied)

    @property
    def checked(self) -> int:
        """Guessed tokens."""
        return sum(wanted - 1 for step in self.seen for _, wanted in step if wanted)


async def write(engine: EmbeddedEngine, sampling: Sampling, *questions: str) -> list[Generation]:
    sessions = [await engine.open([Message("user", question)]) for question in questions]
    pieces: list[list[str]] = [[] for _ in sessions]
    for session, shown in zip(sessions, pieces, strict=True):
        session.on_text = shown.append
    turns = await asyncio.gather(*(session.generate(sampling) for session in sessions))
    await asyncio.sleep(0)
    for session, turn, shown in zip(sessions, turns, pieces, strict=True):
        assert "".join(shown) == session.segments[-1].text
        assert len(turn.logprobs or ()) == len(turn.token_ids)
        await session.append("Once more.")
        again = await session.generate(Sampling(max_tokens=1))
        assert again.usage.cached_tokens == turn.usage.prompt_tokens + len(turn.token_ids) - 1, "wrong guesses left it"
        await session.close()
    return turns


SAMPLINGS = {
    "greedy": Sampling(max_tokens=48, logprobs=True),
    "drawn": Sampling(max_tokens=48, temperature=0.7, top_p=0.95, seed=3, logprobs=True),
    "stopped": Sampling(max_tokens=48, stop=("basalt, mar",), logprobs=True),
    "short": Sampling(max_tokens=7, logprobs=True),
}


@pytest.mark.embedded
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS.keys())
async def test_a_turn_is_the_same_to_the_bit_in_fewer_passes(
    sampling: Sampling, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = Passes(monkeypatch)
    found = []
    for guessing in (False, True):
        engine = make(context=256, prompt_lookup=guessing)
        before = len(passes.seen)
        (turn,) = await write(engine, sampling, LIST)
        found.append((turn.text, turn.finish, turn.stop, turn.token_ids, turn.logprobs))
        count = len(passes.seen) - before
        cheap = engine.scheduler._model.checks_cheaply
        await engine.close()
        if not guessing:
            plain = count
            assert passes.checked == 0
    assert found[0] == found[1]
    assert (count < plain and passes.checked > 0) == cheap


@pytest.mark.embedded
async def test_guesses_are_no_reason_to_drop_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where cells are too few for guesses, the pass is made without them, and an idle session keeps its cache."""
    engine = make(context=256)
    if not engine.scheduler._model.checks_cheaply:
        pytest.skip("the kernel does not run here")
    step, refused = Model.step, 0

    def crowded(model: Model, stretches: Sequence[Stretch]) -> object:
        nonlocal refused
        guessed = any(stretch.wanted > 1 for stretch in stretches)
        refused += guessed
        return None if guessed else step(model, stretches)

    monkeypatch.setattr(Model, "step", crowded)
    idle = await engine.open([Message("user", "Hello.")])
    await idle.generate(Sampling(max_tokens=1))
    before = idle.context_tokens
    (turn,) = await write(engine, SAMPLINGS["greedy"], LIST)
    assert refused > 0
    assert "granite, sandstone, limestone" in turn.text.lower()
    await idle.append("And?")
    assert (await idle.generate(Sampling(max_tokens=1))).usage.cached_tokens == before - 1
    await engine.close()


@pytest.mark.embedded
async def test_two_turns_at_once_are_guessed_and_three_are_not(
    monkeypatch: pytest.MonkeyPatch, written_alone: Check
) -> None:
    engine = make(context=512)
    lookup = engine.scheduler._lookup
    if lookup is None:
        pytest.skip("the kernel does not run here")
    for _ in range(50):
        lookup.note(Guess(LONG, (1,)), 1)
    passes = Passes(monkeypatch)
    for many in (2, 3):
        passes.seen.clear()
        sessions = [await engine.open([Message("user", f"{n}. {LIST}")]) for n in range(many)]
        await asyncio.gather(*(session.generate(Sampling(max_tokens=20)) for session in sessions))
        together = [step for step in passes.seen if len(step) == many]
        assert any(sum(size for size, _ in step) == 4 for step in together) == (many == 2)
        for session in sessions:
            written_alone(session)
            await session.close()
    await engine.close()
