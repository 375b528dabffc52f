import asyncio

import pytest

from subquest.engine import Engine, Message, Sampling, Session
from subquest.engine.scripted import END_ID, Context, ScriptedEngine, word_id, word_logprob
from subquest.errors import ContextOverflow, DataError, EngineRefused, EngineUnavailable, UsageError
from subquest.record import Trajectory

PROMPT = [Message("system", "You are the planner."), Message("user", "Who?")]


async def test_a_list_answers_in_calling_order_and_then_refuses() -> None:
    engine = ScriptedEngine(["one", "two"])
    assert isinstance(engine, Engine)
    session = await engine.open(PROMPT)
    assert isinstance(session, Session)
    assert (await session.generate(Sampling())).text == "one"
    await session.append("more")
    assert (await session.generate(Sampling())).text == "two"
    with pytest.raises(EngineRefused, match="no more replies"):
        await session.generate(Sampling())
    assert [s.kind for s in session.segments] == ["prompt", "prompt", "agent", "env", "agent"]
    assert engine.calls == 3


async def test_segments_masks_and_logprobs_line_up() -> None:
    session = await ScriptedEngine(["a b </x> c", "done"]).open(PROMPT)
    first = await session.generate(Sampling(stop=("</x>",), logprobs=True))
    await session.append("env text")
    second = await session.generate(Sampling(logprobs=True))
    assert first.token_ids == (word_id("a"), word_id(" b"), word_id(" </x>"))
    assert second.token_ids == (word_id("done"), END_ID)
    assert second.logprobs == (word_logprob(word_id("done")), word_logprob(END_ID))
    trajectory = Trajectory("t", "planner", "", segments=session.segments)
    assert trajectory.has_tokens
    assert trajectory.action_mask == (0,) * 5 + (1,) * 3 + (0,) * 2 + (1,) * 2
    assert len(trajectory.logprobs) == len(trajectory.token_ids) == session.context_tokens == 12
    assert second.usage.prompt_tokens == 10
    assert second.usage.cached_tokens == 8
    assert second.usage.completion_tokens == 2
    assert second.usage.peak_context == 12


@pytest.mark.parametrize(
    ("reply", "stop", "text", "finish", "which"),
    [
        ("x </a> y </b>", ("</b>", "</a>"), "x </a>", "stop", "</a>"),
        ("x </ab>", ("</ab>", "</a>"), "x </ab>", "stop", "</ab>"),
        ("nothing", ("</a>",), "nothing", "end", ""),
        ("one two three four five", (), "one two three four", "length", ""),
        ("1 2 3 4 5 </a>", ("</a>",), "1 2 3 4", "length", ""),
    ],
)
async def test_cuts(reply: str, stop: tuple[str, ...], text: str, finish: str, which: str) -> None:
    session = await ScriptedEngine([reply]).open(PROMPT)
    turn = await session.generate(Sampling(stop=stop, max_tokens=4))
    assert (turn.text, turn.finish, turn.stop) == (text, finish, which)


async def test_functions_see_what_a_model_would_see() -> None:
    seen: list[Context] = []

    async def reply(context: Context) -> str:
        seen.append(context)
        return f"turn {context.turn} as {context.role}"

    engine = ScriptedEngine(reply)
    chat = await engine.for_role("planner").open(PROMPT)
    await chat.generate(Sampling())
    await chat.append("found it")
    assert (await chat.generate(Sampling())).text == "turn 1 as planner"
    assert seen[1].messages == (*PROMPT, Message("assistant", "turn 0 as planner"), Message("user", "found it"))
    assert seen[1].last == "found it"

    completion = await engine.open(PROMPT, mode="completion")
    await completion.generate(Sampling())
    await completion.append(" [found it] ")
    await completion.generate(Sampling())
    assert seen[3].messages == (*PROMPT, Message("assistant", "turn 0 as  [found it] "))


async def test_roles_have_their_own_queues() -> None:
    engine = ScriptedEngine({"planner": ["p"], "executor": ["e"]})
    executor = await engine.for_role("executor").open(PROMPT)
    by_text = await engine.open(PROMPT)
    assert (await executor.generate(Sampling())).text == "e"
    assert (await by_text.generate(Sampling())).text == "p"
    stranger = await engine.for_role("judge").open(PROMPT)
    with pytest.raises(EngineRefused, match="no role 'judge'"):
        await stranger.generate(Sampling())


async def test_fork_shares_the_prefix_only() -> None:
    session = await ScriptedEngine(["a", "b", "c"]).open(PROMPT)
    await session.generate(Sampling())
    twin = session.fork()
    await twin.append("left")
    await session.append("right")
    await asyncio.gather(twin.generate(Sampling()), session.generate(Sampling()))
    assert twin.segments[:3] == session.segments[:3]
    assert twin.segments[3].text == "left"
    assert session.segments[3].text == "right"


async def test_without_ids_counts_are_estimates() -> None:
    engine = ScriptedEngine(["x" * 100], token_ids=False)
    session = await engine.open([Message("user", "12345678")])
    turn = await session.generate(Sampling(max_tokens=10, logprobs=True))
    assert (turn.text, turn.finish, turn.token_ids, turn.logprobs) == ("x" * 40, "length", (), None)
    assert session.context_tokens == 12


async def test_failures() -> None:
    engine = ScriptedEngine([EngineUnavailable("down"), "up"], context_window=7)
    session = await engine.open(PROMPT)
    with pytest.raises(EngineUnavailable):
        await session.generate(Sampling())
    assert (await session.generate(Sampling())).text == "up"
    with pytest.raises(ContextOverflow):
        await session.generate(Sampling())
    await session.close()
    await session.close()
    with pytest.raises(UsageError, match="closed"):
        await session.append("x")
    assert session.segments[-1].text == "up"


async def test_files(tmp_path) -> None:
    path = tmp_path / "script.jsonl"
    path.write_text('{"reply": "p", "role": "planner"}\n\n{"reply": "e", "role": "executor"}\n')
    session = await ScriptedEngine.from_file(path).for_role("executor").open(PROMPT)
    assert (await session.generate(Sampling())).text == "e"
    path.write_text('"fine"\n{"replay": 1}\n')
    with pytest.raises(DataError, match=r"script\.jsonl:2"):
        ScriptedEngine.from_file(path)
    path.write_text('"fine"\nbroken\n')
    with pytest.raises(DataError, match=r"script\.jsonl:2: not JSON"):
        ScriptedEngine.from_file(path)
    with pytest.raises(UsageError, match="cannot read"):
        ScriptedEngine.from_file(tmp_path / "absent.jsonl")
