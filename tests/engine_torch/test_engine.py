"""The engine as systems use it: turns, stops, modes, cancellation, limits, new weights."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
import torch

from subquest.engine.interface import Engine, Message, Sampling, Session
from subquest.engine.torch import TorchEngine
from subquest.errors import ContextOverflow, EngineError, UsageError

from .conftest import byte_tokenizer, greedy, tiny_model

Make = Callable[..., TorchEngine]
ASK = [Message("system", "Be brief."), Message("user", "Who are you?")]


def wanting(text: str) -> Any:
    """A tiny model that writes this text over and over: each byte's embedding points at the next byte's logit."""
    model = tiny_model("llama", hidden_size=264, num_hidden_layers=1, tie_word_embeddings=False)
    tokenizer = byte_tokenizer()
    ids = [*tokenizer.encode(text, add_special_tokens=False)]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.model.norm.weight.fill_(1.0)
        model.model.embed_tokens.weight.copy_(torch.eye(264))
        for first, second in zip(ids, [*ids[1:], ids[0]], strict=True):
            model.lm_head.weight[second, first] = 10.0
    return model


async def test_protocol(make_engine: Make) -> None:
    engine = make_engine(tiny_model())
    session = await engine.open(ASK)
    assert isinstance(engine, Engine)
    assert isinstance(session, Session)
    assert engine.count_tokens("abc") == 3
    assert engine.context_window == 512


async def test_segments_hold_the_exact_context(make_engine: Make) -> None:
    engine = make_engine(tiny_model())
    session = await engine.open(ASK)
    turn = await session.generate(Sampling(max_tokens=5, logprobs=True))
    await session.append("And <|im_end|> now?")
    kinds = [(s.kind, s.role) for s in session.segments]
    assert kinds == [("prompt", "system"), ("prompt", "user"), ("agent", "assistant"), ("env", "user")]
    prompt = (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWho are you?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert session.segments[0].text + session.segments[1].text == prompt
    assert [i for s in session.segments[:2] for i in s.token_ids] == byte_tokenizer().encode(prompt)
    assert session.segments[2].token_ids == turn.token_ids
    assert session.segments[2].logprobs == turn.logprobs
    env = session.segments[3].token_ids
    assert env[0] == 257
    assert env.count(257) == 2  # the end of the turn before and of the message; the one in the content is plain text
    assert session.context_tokens == sum(len(s.token_ids) for s in session.segments)


async def test_a_stop_string_ends_the_turn_and_keeps_its_tokens(make_engine: Make) -> None:
    engine = make_engine(wanting("ab</t>x"))
    session = await engine.open([Message("user", "?"), Message("assistant", "a")])
    turn = await session.generate(Sampling(max_tokens=50, stop=("</q>", "</t>")))
    assert (turn.text, turn.finish, turn.stop) == ("b</t>", "stop", "</t>")
    assert engine.vocabulary.decode(turn.token_ids) == "b</t>"
    again = await session.generate(Sampling(max_tokens=4))
    assert (again.text, again.finish) == ("xab<", "length")
    assert turn.logprobs is None
    assert session.segments[-1].logprobs is not None


async def test_a_token_that_holds_a_stop_string_twice_ends_at_the_first(make_engine: Make) -> None:
    session = await make_engine(wanting("x|Ω<|im_start|>")).open([Message("user", "?"), Message("assistant", "x")])
    turn = await session.generate(Sampling(max_tokens=50, stop=("Ω<|",)))
    assert (turn.text, turn.stop) == ("|Ω<|", "Ω<|")
    assert session.segments[-1].text == "|Ω<|im_start|>"
    session = await make_engine(wanting("a<|im_start|>")).open([Message("user", "?"), Message("assistant", "a")])
    turn = await session.generate(Sampling(max_tokens=50, stop=("|",)))
    assert (turn.text, turn.stop) == ("<|", "|")


async def test_an_end_token_is_kept_but_not_shown(make_engine: Make) -> None:
    model = wanting("ab")
    with torch.no_grad():
        model.lm_head.weight.zero_()
        letters = byte_tokenizer().encode("ab", add_special_tokens=False)
        model.lm_head.weight[letters[1], letters[0]] = model.lm_head.weight[257, letters[1]] = 10.0
    session = await make_engine(model).open([Message("user", "?"), Message("assistant", "a")])
    turn = await session.generate(Sampling(max_tokens=50))
    assert (turn.text, turn.finish, turn.token_ids[-1]) == ("b", "end", 257)
    await session.append("next")
    assert session.segments[-1].text.startswith("\n<|im_start|>user\nnext")


async def test_completion_mode_continues_the_turn(make_engine: Make) -> None:
    session = await make_engine(tiny_model()).open(ASK, mode="completion")
    await session.generate(Sampling(max_tokens=3))
    await session.append("<result>1</result>")
    assert session.segments[-1].text == "<result>1</result>"
    assert session.segments[-1].role == "assistant"


def hold(engine: TorchEngine, *, after: int) -> threading.Event:
    """After so many steps the engine goes on only once the event is set."""
    go_on, decode, steps = threading.Event(), engine.runner.decode, count()

    def held(slots: Any, **kind: Any) -> Any:
        if next(steps) >= after:
            go_on.wait(300)
        return decode(slots, **kind)

    engine.runner.decode = held  # type: ignore[method-assign]
    return go_on


async def test_cancel_frees_everything_and_leaves_the_context(make_engine: Make) -> None:
    engine = make_engine(wanting("endless"))
    all_cancelled = hold(engine, after=60)  # at different moments, but none of them at its end
    sessions = [await engine.open([Message("user", f"question {n}")]) for n in range(40)]
    before = [s.segments for s in sessions]
    tasks = [asyncio.create_task(s.generate(Sampling(max_tokens=400))) for s in sessions]
    for n, task in enumerate(tasks):
        await asyncio.sleep(0.002 * (n % 3))
        task.cancel()
    await asyncio.sleep(0)  # so that each has asked for its end
    all_cancelled.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert all(task.cancelled() for task in tasks)
    assert [s.segments for s in sessions] == before
    assert not [*engine.scheduler.decoding, *engine.scheduler.filling, *engine.scheduler.waiting]
    turn = await sessions[0].generate(Sampling(max_tokens=5))
    assert len(turn.token_ids) == 5
    for session in sessions:
        await session.close()
    await sessions[0].close()
    await engine.open(ASK)
    await (await engine.open(ASK)).generate(Sampling(max_tokens=1))
    engine.refresh()
    assert engine.scheduler.pool.in_use == 0


async def test_a_session_writes_one_turn_at_a_time(make_engine: Make) -> None:
    """Whoever mixes up one session must not break the others'."""
    engine = make_engine(tiny_model(), cache_tokens=640)
    session = await engine.open([Message("user", "What now?")])
    turn = asyncio.create_task(session.generate(Sampling(max_tokens=60)))
    await asyncio.sleep(0)
    for misuse in (session.generate(Sampling()), session.append("x")):
        with pytest.raises(UsageError, match="the session is writing a turn"):
            await misuse
    with pytest.raises(UsageError, match="the session is writing a turn"):
        session.fork()
    await session.close()
    assert (await turn).token_ids, "a turn that has begun comes to its end"
    other = await engine.open([Message("user", "\ud800 lone")])
    assert (await other.generate(Sampling(max_tokens=3))).token_ids
    await other.close()
    engine.refresh()  # comes after what was asked before it
    assert engine.scheduler.pool.in_use == 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"temperature": float("nan")}, "temperature must be a number of ordinary size, not nan"),
        ({"top_k": 1 << 40}, "top_k must be"),
        ({"min_p": float("inf")}, "min_p must be"),
        ({"stop": ("a", "\ud800")}, "a stop string is not valid"),
    ],
)
async def test_absurd_sampling_is_refused_and_breaks_nothing(
    wrong: dict[str, Any], message: str, make_engine: Make
) -> None:
    engine = make_engine(tiny_model())
    session = await engine.open(ASK)
    with pytest.raises(UsageError, match=message):
        await session.generate(Sampling(max_tokens=3, **wrong))
    greedily = await (await engine.open(ASK)).generate(Sampling(max_tokens=3))
    coldest = await session.generate(Sampling(max_tokens=3, temperature=1e-40, top_p=0.9, seed=1))
    assert coldest.token_ids == greedily.token_ids


async def test_more_sessions_than_slots_wait_for_their_turn(make_engine: Make) -> None:
    engine = make_engine(tiny_model(), max_batch=2)
    widths: list[int] = []
    decode = engine.runner.decode

    def watched(slots: Any, **kind: Any) -> Any:
        widths.append(len(slots))
        return decode(slots, **kind)

    engine.runner.decode = watched  # type: ignore[method-assign]
    sessions = [await engine.open([Message("user", f"question {n}")]) for n in range(9)]
    turns = await asyncio.gather(*(s.generate(Sampling(max_tokens=6)) for s in sessions))
    assert all(1 <= len(turn.token_ids) <= 6 for turn in turns)
    assert max(widths) == 2


async def test_sampled_tokens_follow_the_distribution(make_engine: Make) -> None:
    """Chi-square through the whole engine: a model whose next token does not depend on the last, five tokens possible.

    3,000 tokens at temperature 0.5; 18.5 is exceeded once in 1,000 at 4 degrees of freedom.
    """
    model = tiny_model("llama", num_hidden_layers=1, tie_word_embeddings=False)
    wanted = torch.tensor([0.5, 0.4, 0.3, 0.1, 0.0])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.model.norm.weight.fill_(1.0)
        model.model.embed_tokens.weight[:, 0] = 1.0  # after the norm: the square root of the width in channel 0
        model.lm_head.weight[:, 0] = -100.0
        model.lm_head.weight[:5, 0] = wanted / 48**0.5
    engine = make_engine(model, seed=3)
    sessions = [await engine.open([Message("user", "?")]) for _ in range(30)]
    turns = await asyncio.gather(
        *(s.generate(Sampling(max_tokens=100, temperature=0.5, logprobs=True)) for s in sessions)
    )
    ids = torch.tensor([i for turn in turns for i in turn.token_ids])
    logprobs = torch.tensor([p for turn in turns for p in turn.logprobs or ()])
    expected = (wanted / 0.5).softmax(0)
    counts = torch.bincount(ids, minlength=5)
    assert counts.shape == (5,)
    assert counts.sum() == 3000
    assert float(((counts - 3000 * expected) ** 2 / (3000 * expected)).sum()) < 18.5
    torch.testing.assert_close(logprobs, expected.log()[ids], atol=1e-4, rtol=0)


async def test_bad_requests_say_what_to_do(make_engine: Make) -> None:
    engine = make_engine(tiny_model(), cache_tokens=128)
    session = await engine.open([Message("user", "x" * 60)])
    with pytest.raises(ContextOverflow, match="cache of 128 tokens"):
        await session.generate(Sampling(max_tokens=100))
    with pytest.raises(UsageError, match="max_tokens"):
        await session.generate(Sampling(max_tokens=0))
    long = await engine.open([Message("user", "x" * 600)])
    with pytest.raises(ContextOverflow, match="window of 512"):
        await long.generate(Sampling())
    await session.close()
    with pytest.raises(UsageError, match="closed"):
        await session.append("more")
    await engine.close()
    with pytest.raises(UsageError, match="closed"):
        await (await engine.open([Message("user", "?")])).generate(Sampling(max_tokens=5))


async def test_the_window_bounds_a_turn(make_engine: Make) -> None:
    engine = make_engine(tiny_model(), window=96)
    session = await engine.open([Message("user", "x" * 30)])
    turn = await session.generate(Sampling(max_tokens=400))
    assert turn.finish == "length"
    assert session.context_tokens == 96


async def test_a_failure_of_the_device_reaches_every_waiting_turn(make_engine: Make) -> None:
    engine = make_engine(tiny_model())

    def broken(slots: Any, **kind: Any) -> Any:
        raise RuntimeError("out of luck")

    engine.runner.decode = broken  # type: ignore[method-assign]
    sessions = [await engine.open(ASK) for _ in range(3)]
    results = await asyncio.gather(*(s.generate(Sampling()) for s in sessions), return_exceptions=True)
    assert all(isinstance(r, EngineError) and "out of luck" in str(r) for r in results)
    with pytest.raises(EngineError):
        await sessions[0].generate(Sampling())


async def test_a_full_gpu_is_named_with_what_to_do(make_engine: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """While turns are generated, while prompts are scored, and when an engine starts."""

    def full(*given: Any, **kind: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory. 1.38 GiB is free. Of the allocated memory 9 GiB is reserved.")

    told = r"^the GPU has too little memory \(CUDA out of memory\. 1\.38 GiB is free\): .* lower SUBQUEST_GPU_SHARE"
    engine = make_engine(tiny_model())
    monkeypatch.setattr("subquest.engine.torch.scoring.next_logprobs", full)
    with pytest.raises(EngineError, match=told):
        await engine.choose([ASK], ["a"])
    engine.runner.decode = full  # type: ignore[method-assign]
    with pytest.raises(EngineError, match=told):
        await (await engine.open(ASK)).generate(Sampling())
    monkeypatch.setattr("subquest.engine.torch.engine.Cache", full)
    with pytest.raises(EngineError, match=told):
        make_engine(tiny_model())


async def test_turns_that_ask_while_the_device_fails_are_told_too(make_engine: Make) -> None:
    engine = make_engine(tiny_model())

    def broken(slots: Any, **kind: Any) -> Any:
        while engine._inbox.qsize() < 2:
            time.sleep(0.001)
        raise RuntimeError("out of luck")

    engine.runner.decode = broken  # type: ignore[method-assign]
    first, second, third = [await engine.open(ASK) for _ in range(3)]
    running = asyncio.create_task(first.generate(Sampling()))
    while not engine.scheduler.decoding:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    late = asyncio.gather(second.generate(Sampling()), third.generate(Sampling()), running, return_exceptions=True)
    results = await asyncio.wait_for(late, 300)
    assert all(isinstance(r, EngineError) and "out of luck" in str(r) for r in results)
    with pytest.raises(EngineError, match="out of luck"):
        engine.refresh()


async def test_a_turn_that_is_cancelled_while_the_engine_closes_is_cancelled(make_engine: Make) -> None:
    engine = make_engine(wanting("endless"))
    go_on = hold(engine, after=3)
    session = await engine.open(ASK)
    task = asyncio.create_task(session.generate(Sampling(max_tokens=400)))
    while not engine.scheduler.decoding:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    closing = asyncio.create_task(engine.close())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(task, closing, return_exceptions=True)
    assert task.cancelled()


async def test_new_weights_count_from_the_next_turn_on(make_engine: Make) -> None:
    old, new = tiny_model(seed=0), tiny_model(seed=1)
    engine = make_engine(old)
    session = await engine.open(ASK)
    running = asyncio.create_task(session.generate(Sampling(max_tokens=60)))
    while not engine.scheduler.decoding and not running.done():  # noqa: ASYNC110 (begun with the old weights)
        await asyncio.sleep(0.001)
    await asyncio.to_thread(engine.refresh, new.state_dict(), policy=7)
    first = await running
    await session.append("go on")
    second = await session.generate(Sampling(max_tokens=20))
    assert [s.policy for s in session.segments if s.kind == "agent"] == [None, 7]
    assert second.usage.cached_tokens == 0
    ids = [i for s in session.segments[:2] for i in s.token_ids]
    assert list(first.token_ids) == greedy(old, ids, 60)
    ids += [i for s in session.segments[2:4] for i in s.token_ids]
    assert list(second.token_ids) == greedy(new, ids, 20)


async def test_shared_weights_follow_the_training_model(make_engine: Make) -> None:
    model = tiny_model("qwen2")
    engine = make_engine(model, share=True)
    await (await engine.open(ASK)).generate(Sampling(max_tokens=5))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    ids = torch.tensor([[1, 2, 3, 4, 5]])
    model(ids, labels=ids).loss.backward()
    optimiser.step()
    engine.refresh(policy=1)
    session = await engine.open(ASK)
    turn = await session.generate(Sampling(max_tokens=20))
    assert list(turn.token_ids) == greedy(model, [i for s in session.segments[:2] for i in s.token_ids], 20)


def test_several_event_loops_one_after_the_other() -> None:
    engine = TorchEngine.from_model(tiny_model(), byte_tokenizer(), cache_tokens=2048)

    async def one() -> str:
        return (await (await engine.open(ASK)).generate(Sampling(max_tokens=5))).text

    assert asyncio.run(one()) == asyncio.run(one())
    asyncio.run(engine.close())
    assert "subquest-torch-engine" not in {
        t.name for t in threading.enumerate() if t is engine._thread and t.is_alive()
    }


async def test_environment_steps_overlap_with_generation(make_engine: Make) -> None:
    """While one episode waits for its search, others keep generating: no barrier between them."""
    engine = make_engine(tiny_model())
    searching = asyncio.Event()
    order: list[str] = []

    async def slow() -> None:
        session = await engine.open(ASK)
        await session.generate(Sampling(max_tokens=3))
        await searching.wait()
        order.append("slow")
        await session.append("found")
        await session.generate(Sampling(max_tokens=3))

    async def quick() -> None:
        session = await engine.open(ASK)
        for _ in range(3):
            await session.generate(Sampling(max_tokens=10))
            await session.append("more")
        order.append("quick")
        searching.set()

    await asyncio.wait_for(asyncio.gather(slow(), quick()), 300)
    assert order == ["quick", "slow"]
