"""What a model's endpoint can do, found with one tiny question for each way that Subquest talks to it.

chat           a question and its answer
usage          whether the server counts tokens
system role    whether the model has one
reasoning      whether reasoning is returned separately, inside the text, or not at all
stop strings   whether a turn ends at one
prefill        whether an unfinished assistant message is continued (completion mode)
completions    whether `/completions` answers, with or without token ids
tool calls     whether a function is called
long contexts  whether one is read whole, if the server does not tell its window: Ollama cuts without a word
parameters     whether some were refused on the way
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

from ..errors import EngineError, SubquestError, UsageError
from .actions import Action
from .interface import Engine, Generation, Message, Mode, Sampling
from .openai import OpenAIEngine
from .openai.endpoint import Endpoint
from .openai.reply import read_reply
from .openai.tool_calls import ToolSession

FIRST_SECONDS, SECONDS = 120.0, 30.0
"""Time limits: the first question may make the server load its model; the others are short."""
ROOM, MORE_ROOM = 256, 4096
"""Tokens of a turn: enough for a short thought before the answer; and for a long one."""
LONG = 5000
"""Words of a long question, a token each: more than Ollama's default context."""
COUNT = "Count from 1 to 9. Write the numbers in one line, separated by commas, and nothing else."
LOOK_UP = Action("look_up_town", "Look up the mayor of a town.", "town", "the name of the town")

_TAGS = "stay with `--protocol tags`, the default"
_PARSER = (
    "Subquest reads it all the same; `--protocol tags`, the default, does not need it (on vLLM, --tool-call-parser "
    "chooses what the server recognises)"
)


class Capability(NamedTuple):
    """The result of one question."""

    name: str
    works: bool
    detail: str


async def probe(engine: Engine) -> AsyncIterator[Capability]:
    """Results as they arrive; if the first question fails, the others are not asked."""
    try:
        async with asyncio.timeout(FIRST_SECONDS):
            room, turn = ROOM, await _first(engine, ROOM)
            if turn.cut_in_thought or (turn.finish == "length" and not turn.text.strip()):
                room, turn = MORE_ROOM, await _first(engine, MORE_ROOM)
    except TimeoutError:
        yield Capability("chat", False, f"no answer within {FIRST_SECONDS:g} s")
        return
    except SubquestError as error:
        yield Capability("chat", False, str(error))
        return
    yield _answered(turn, room)
    yield _counted(turn)
    if isinstance(engine, OpenAIEngine):
        yield _instructed(engine)
    yield _thought(engine, turn)
    questions: list[tuple[str, Callable[[], Awaitable[Capability]]]] = [
        ("stop strings", lambda: _stops(engine, room)),
        ("prefill", lambda: _continues(engine, room)),
    ]
    if isinstance(engine, OpenAIEngine):
        questions.append(("tool calls", lambda: _calls(engine, room)))
        if type(engine.endpoint) is Endpoint:
            questions.append(("completions", lambda: _completes(engine)))
    for name, question in questions:
        yield await _asked(name, question, SECONDS if room == ROOM else FIRST_SECONDS)
    if isinstance(engine, OpenAIEngine):
        yield await _asked("long contexts", lambda: _reads(engine), FIRST_SECONDS)
        yield _taken(engine)


async def _asked(name: str, question: Callable[[], Awaitable[Capability]], seconds: float) -> Capability:
    try:
        async with asyncio.timeout(seconds):
            return await question()
    except TimeoutError:
        return Capability(name, False, f"no answer within {seconds:g} s")
    except (EngineError, UsageError) as error:
        return Capability(name, False, str(error))


async def _first(engine: Engine, room: int) -> Generation:
    asked = [Message("system", "Answer in one word."), Message("user", "What colour is a clear sky at noon?")]
    return await _turn(engine, asked, room)


async def _turn(
    engine: Engine, messages: list[Message], room: int, *, mode: Mode = "chat", stop: tuple[str, ...] = ()
) -> Generation:
    session = await engine.open(messages, mode=mode)
    try:
        return await session.generate(Sampling(max_tokens=room, stop=stop))
    finally:
        await session.close()


def _answered(turn: Generation, room: int) -> Capability:
    if not turn.text.strip():
        if turn.finish == "length":
            return Capability("chat", False, f"{room} tokens of thought and no answer: set `max_tokens` far higher")
        return Capability("chat", False, "; ".join(("the answer is empty", *turn.problems)))
    answered = f"answered {_short(turn.text)}"
    if room == MORE_ROOM:
        tokens = turn.usage.completion_tokens
        answered += f" after a long thought ({tokens} tokens): set `max_tokens` to {MORE_ROOM} or more"
    return Capability("chat", True, answered)


def _counted(turn: Generation) -> Capability:
    usage = turn.usage
    if usage.estimated_tokens:
        return Capability("usage", False, "not reported: tokens are estimated at four characters each")
    return Capability("usage", True, f"{usage.prompt_tokens} + {usage.completion_tokens} tokens")


def _instructed(engine: OpenAIEngine) -> Capability:
    if engine.system_role:
        return Capability("system role", True, "instructions were taken")
    return Capability("system role", False, "refused: instructions stand in the first user message")


def _thought(engine: Engine, turn: Generation) -> Capability:
    if isinstance(engine, OpenAIEngine) and engine.opens_thought:
        return Capability("reasoning", True, "the chat template opens it with <think>")
    if turn.reasoning:
        return Capability("reasoning", True, f"returned separately: {_short(turn.reasoning)}")
    if "</think>" in turn.text and "<think>" not in turn.text:
        parser = "start the server with its reasoning parser, or a thought that is cut is taken for text"
        return Capability("reasoning", False, f"inside the text, without its <think>: {parser}")
    if "<think>" in turn.text:
        return Capability("reasoning", True, "inside the text, in <think>")
    return Capability("reasoning", False, "none is shown")


def _taken(engine: OpenAIEngine) -> Capability:
    if engine.left_out:
        return Capability("parameters", False, f"refused, and left out: {', '.join(sorted(engine.left_out))}")
    return Capability("parameters", True, "none was refused")


async def _stops(engine: Engine, room: int) -> Capability:
    turn = await _turn(engine, [Message("user", COUNT)], room, stop=("5",))
    if isinstance(engine, OpenAIEngine) and "stop" in engine.left_out:
        how = "ignored" if turn.problems else "refused"
        return Capability("stop strings", False, f"{how}: they are watched for in the stream")
    if turn.problems:
        return Capability("stop strings", False, "; ".join(turn.problems))
    if "4" not in turn.text:
        return Capability("stop strings", False, f"not found out: it did not count but wrote {_short(turn.text)}")
    return Capability("stop strings", True, f"the turn ended with {_short(turn.text)}")


async def _continues(engine: Engine, room: int) -> Capability:
    if isinstance(engine, OpenAIEngine) and engine.continuation == "turns":
        return Capability("prefill", False, "not tried: this endpoint is spoken to in turns (`continuation`)")
    begun = [Message("user", COUNT), Message("assistant", "1, 2, 3, 4,")]
    turn = await _turn(engine, begun, room, mode="completion")
    if isinstance(engine, OpenAIEngine) and engine.continuation == "turns":
        return Capability("prefill", False, "refused: completion mode goes on in turns")
    if not turn.text.lstrip().startswith("5"):
        wrote = f"accepted, but it started again with {_short(turn.text)}"
        return Capability("prefill", False, f'{wrote}: set continuation = "turns" if it always does')
    return Capability("prefill", True, f"continued with {_short(turn.text)}")


async def _calls(engine: OpenAIEngine, room: int) -> Capability:
    calling = copy.copy(engine.with_actions([LOOK_UP]))
    calling.protocol = "tools"
    session = await calling.open([Message("user", "Who is the mayor of Kestel? Call the function to find out.")])
    turn = await session.generate(Sampling(max_tokens=room))
    await session.close()
    if turn.problems:
        return Capability("tool calls", False, f"{'; '.join(turn.problems)}: {_TAGS}")
    if not turn.tool_calls:
        return Capability("tool calls", False, f"taken, but none was made; it wrote {_short(turn.text)}: {_TAGS}")
    call = turn.tool_calls[0]
    called = f"called {call.name}({_short(call.arguments)})"
    if isinstance(session, ToolSession) and session.read_from_text:
        return Capability("tool calls", True, f"{called}, as text that the server did not recognise: {_PARSER}")
    return Capability("tool calls", True, called)


async def _completes(engine: OpenAIEngine) -> Capability:
    body = {"model": engine.name, "prompt": "1, 2, 3, 4,", "max_tokens": 8, "temperature": 0}
    try:
        data = await engine.endpoint.post("/completions", body | {"return_token_ids": True})
    except EngineError as error:
        if "answered 404" in str(error):
            return Capability("completions", False, "not there (404): only training with exact token ids needs it")
        data = await engine.endpoint.post("/completions", body)
    reply = read_reply(data)
    if reply.token_ids:
        return Capability("completions", True, f"with token ids: continued with {_short(reply.text)}")
    return Capability("completions", True, f"without token ids: continued with {_short(reply.text)}")


async def _reads(engine: OpenAIEngine) -> Capability:
    if engine.context_window is not None:
        return Capability("long contexts", True, f"the server tells its window: {engine.context_window:,} tokens")
    words = "river " * LONG
    asked = f"{time.time_ns()}\n{words}\nReply with the word yes."  # a new beginning, so that no cache counts for less
    usage = (await _turn(engine, [Message("user", asked)], ROOM)).usage
    if usage.estimated_tokens:
        return Capability("long contexts", False, "not found out: the server does not count tokens")
    if usage.prompt_tokens < 0.9 * LONG:
        cut = f"only {usage.prompt_tokens:,} of {LONG:,} tokens were read: the server cuts long contexts"
        return Capability("long contexts", False, f"{cut}; raise its context length (Ollama: OLLAMA_CONTEXT_LENGTH)")
    return Capability("long contexts", True, f"{usage.prompt_tokens:,} tokens were read")


def _short(text: str) -> str:
    text = " ".join(text.split())
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
