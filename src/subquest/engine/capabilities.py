"""One tiny question in each way that Subquest talks to a model, to find out what works there.

chat           a question and its answer
usage          whether tokens are counted by the server
reasoning      whether thoughts come apart, inside the text, or not at all
stop strings   whether a turn ends at one
prefill        whether an unfinished assistant message is continued (completion mode)
completions    whether `/completions` answers, with token ids or without
tool calls     whether a function is called
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

from ..errors import EngineError, SubquestError, UsageError
from .actions import Action
from .interface import Engine, Generation, Message, Mode, Sampling
from .openai import OpenAIEngine
from .openai.endpoint import Endpoint
from .openai.reply import read_reply

FIRST_SECONDS, SECONDS = 120.0, 30.0
"""What the first question may take, for which a server may load its model, and each of the others."""
ROOM = 256
"""Tokens of a turn: enough for a short thought before the answer."""
COUNT = "Count from 1 to 9. Write the numbers in one line, separated by commas, and nothing else."
LOOK_UP = Action("look_up_town", "Look up the mayor of a town.", "town", "the name of the town")


class Finding(NamedTuple):
    """What one question has shown."""

    name: str
    works: bool
    detail: str


async def probe(engine: Engine) -> AsyncIterator[Finding]:
    """Findings as they come; where the first question fails, the others are not asked."""
    try:
        async with asyncio.timeout(FIRST_SECONDS):
            turn = await _turn(engine, "What colour is a clear sky at noon? Answer in one word.")
    except TimeoutError:
        yield Finding("chat", False, f"no answer within {FIRST_SECONDS:g} s")
        return
    except SubquestError as error:
        yield Finding("chat", False, str(error))
        return
    yield _answered(turn)
    yield _counted(turn)
    yield _thought(turn)
    questions: list[tuple[str, Callable[[], Awaitable[Finding]]]] = [
        ("stop strings", lambda: _stops(engine)),
        ("prefill", lambda: _continues(engine)),
    ]
    if isinstance(engine, OpenAIEngine):
        questions.append(("tool calls", lambda: _calls(engine)))
        if type(engine.endpoint) is Endpoint:
            questions.append(("completions", lambda: _completes(engine)))
    for name, question in questions:
        yield await _asked(name, question)


async def _asked(name: str, question: Callable[[], Awaitable[Finding]]) -> Finding:
    try:
        async with asyncio.timeout(SECONDS):
            return await question()
    except TimeoutError:
        return Finding(name, False, f"no answer within {SECONDS:g} s")
    except (EngineError, UsageError) as error:
        return Finding(name, False, str(error))


async def _turn(
    engine: Engine, question: str, *begun: Message, mode: Mode = "chat", stop: tuple[str, ...] = ()
) -> Generation:
    session = await engine.open([Message("user", question), *begun], mode=mode)
    try:
        return await session.generate(Sampling(max_tokens=ROOM, stop=stop))
    finally:
        await session.close()


def _answered(turn: Generation) -> Finding:
    if turn.text.strip():
        return Finding("chat", True, f"answered {_short(turn.text)}")
    if turn.finish == "length":
        return Finding("chat", False, f"{ROOM} tokens of hidden thought and no answer: set `max_tokens` far higher")
    return Finding("chat", False, "the answer is empty")


def _counted(turn: Generation) -> Finding:
    usage = turn.usage
    if usage.estimated_tokens:
        return Finding("usage", False, "not reported: tokens are estimated at four characters each")
    return Finding("usage", True, f"{usage.prompt_tokens} + {usage.completion_tokens} tokens")


def _thought(turn: Generation) -> Finding:
    if turn.reasoning:
        return Finding("reasoning", True, f"comes apart: {_short(turn.reasoning)}")
    if "<think>" in turn.text or "</think>" in turn.text:
        return Finding("reasoning", True, "stands in the text, in <think>")
    return Finding("reasoning", False, "none is shown")


async def _stops(engine: Engine) -> Finding:
    turn = await _turn(engine, COUNT, stop=("5",))
    if isinstance(engine, OpenAIEngine) and "stop" in engine.left_out:
        how = "ignored" if turn.problems else "refused"
        return Finding("stop strings", False, f"{how}: they are watched for in the stream")
    if turn.problems:
        return Finding("stop strings", False, "; ".join(turn.problems))
    if "4" not in turn.text:
        return Finding("stop strings", False, f"not found out: it did not count but wrote {_short(turn.text)}")
    return Finding("stop strings", True, f"the turn ended with {_short(turn.text)}")


async def _continues(engine: Engine) -> Finding:
    if isinstance(engine, OpenAIEngine) and engine.continuation == "turns":
        return Finding("prefill", False, "not tried: this endpoint is spoken to in turns (`continuation`)")
    turn = await _turn(engine, COUNT, Message("assistant", "1, 2, 3, 4,"), mode="completion")
    if isinstance(engine, OpenAIEngine) and engine.continuation == "turns":
        return Finding("prefill", False, "refused: completion mode goes on in turns")
    if not turn.text.lstrip().startswith("5"):
        wrote = f"taken, but it began anew with {_short(turn.text)}"
        return Finding("prefill", False, f'{wrote}: set continuation = "turns" if it always does')
    return Finding("prefill", True, f"continued with {_short(turn.text)}")


async def _calls(engine: OpenAIEngine) -> Finding:
    calling = copy.copy(engine.with_actions([LOOK_UP]))
    calling.protocol = "tools"
    turn = await _turn(calling, "Who is the mayor of Kestel? Call the function to find out.")
    if turn.problems:
        return Finding("tool calls", False, "; ".join(turn.problems))
    if not turn.tool_calls:
        return Finding("tool calls", False, f"taken, but none was made; it wrote {_short(turn.text)}")
    call = turn.tool_calls[0]
    return Finding("tool calls", True, f"called {call.name}({_short(call.arguments)})")


async def _completes(engine: OpenAIEngine) -> Finding:
    body = {"model": engine.name, "prompt": "1, 2, 3, 4,", "max_tokens": 8, "temperature": 0}
    try:
        data = await engine.endpoint.post("/completions", body | {"return_token_ids": True})
    except EngineError:
        data = await engine.endpoint.post("/completions", body)
    reply = read_reply(data)
    if reply.token_ids:
        return Finding("completions", True, f"with token ids: continued with {_short(reply.text)}")
    return Finding("completions", True, f"without token ids: continued with {_short(reply.text)}")


def _short(text: str) -> str:
    text = " ".join(text.split())
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
