"""LiteLLM as an endpoint; runs where the extra is installed."""

import importlib.util

import pytest

from subquest.engine import Message, Sampling
from subquest.engine.litellm import LiteLLMEngine
from subquest.engine.openai import Action
from subquest.engine.openai import endpoint as endpoint_module
from subquest.errors import ContextOverflow, EngineRefused, MissingDependency

from .loopback import Answer, Loopback, chat

PROMPT = [Message("system", "Plan."), Message("user", "Who?")]
installed = importlib.util.find_spec("litellm") is not None
needs_litellm = pytest.mark.skipif(not installed, reason="the extra `litellm` is not installed")


def whole(data: dict) -> dict:
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "m", **data}


def engine_at(server: Loopback, **options) -> LiteLLMEngine:
    return LiteLLMEngine("openai/m", extra={"api_base": server.url, "api_key": "k"}, **options)


@pytest.mark.skipif(installed, reason="the extra `litellm` is installed")
def test_without_the_extra_the_command_is_named() -> None:
    with pytest.raises(MissingDependency, match=r"pip install 'subquest\[litellm\]'"):
        LiteLLMEngine("anthropic/claude")


@needs_litellm
async def test_a_conversation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "FIRST_WAIT", 0.01)
    retries: list = []
    busy = Answer({"error": {"message": "busy"}}, 500)
    async with Loopback(busy, whole(chat("<a>x")), whole(chat("y"))) as server:
        session = await engine_at(server).open(PROMPT, mode="completion")
        session.on_retry = retries.append
        turn = await session.generate(Sampling(stop=("</a>",)))
        assert (turn.text, turn.usage.prompt_tokens) == ("<a>x</a>", 11)
        await session.append("env")
        assert (await session.generate(Sampling())).text == "y"
        assert server.posts[-1]["messages"][-1] == {"role": "user", "content": "env"}
        assert [r.attempt for r in retries] == [1]


@needs_litellm
async def test_tools_and_errors() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "search", "arguments": '{"text": "q"}'}}
    async with Loopback(whole(chat(None, "tool_calls", message={"tool_calls": [call]}))) as server:
        session = await engine_at(server, protocol="tools", actions=[Action("search", "Search.")]).open(PROMPT)
        assert (await session.generate(Sampling())).text == "<search>q</search>"
    long = {"message": "This model's maximum context length is 10 tokens.", "code": "context_length_exceeded"}
    faults = ((401, {"message": "bad key"}, EngineRefused), (400, long, ContextOverflow))
    for status, error, expected in faults:
        async with Loopback(Answer({"error": error}, status)) as server:
            session = await engine_at(server).open(PROMPT)
            with pytest.raises(expected):
                await session.generate(Sampling())
