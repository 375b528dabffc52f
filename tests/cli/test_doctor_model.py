"""`subquest doctor --model`: what works at an endpoint, found out by asking it."""

import asyncio
import json
from typing import Any

import pytest

from subquest.cli import main
from subquest.engine import capabilities as probe

from ..engine.loopback import Answer, Loopback, Request, chat

MODES = ["chat", "usage", "reasoning", "stop strings", "prefill", "tool calls", "completions"]


def capable(request: Request) -> Answer:
    """A server that can do everything, as vLLM with a reasoning parser."""
    body = request.body
    if request.path.endswith("/completions") and "prompt" in body:
        choice: dict[str, Any] = {"text": " 5, 6", "finish_reason": "length", "token_ids": [5, 6]}
        return Answer({"choices": [choice]})
    if "tools" in body:
        function = {"name": "look_up_town", "arguments": '{"town": "Kestel"}'}
        call = {"id": "c", "type": "function", "function": function}
        return Answer(chat(None, "tool_calls", message={"tool_calls": [call]}))
    if body["messages"][-1]["role"] == "assistant":
        return Answer(chat(" 5, 6, 7, 8, 9"))
    if "stop" in body:
        return Answer(chat("1, 2, 3, 4, ", stop_reason="5"))
    return Answer(chat("Blue.", message={"reasoning_content": "The sky is blue."}))


def poor(request: Request) -> Answer:
    """A server that can do nothing but chat."""
    body = request.body
    if "prompt" in body:
        return Answer({"detail": "Not Found"}, 404)
    if body["messages"][-1]["role"] == "assistant":
        return Answer({"error": {"message": "The last message must be a user message."}}, 400)
    if "Count" in body["messages"][0]["content"]:
        return Answer(chat("1, 2, 3, 4, 5, 6, 7, 8, 9", usage=False))
    return Answer(chat("Blue.", usage=False))


async def doctor(spec: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    status = await asyncio.to_thread(main, ["doctor", "--json", "--model", spec])
    return status, {c["name"]: c for c in json.loads(capsys.readouterr().out)["checks"]}


async def test_everything_works(capsys: pytest.CaptureFixture[str]) -> None:
    async with Loopback(capable, models=[{"id": "m", "owned_by": "vllm"}]) as server:
        status, checks = await doctor(server.url, capsys)
        assert (status, sorted(checks)) == (0, sorted(MODES))
        assert [name for name, check in checks.items() if not check["ok"]] == []
        assert "with token ids" in checks["completions"]["detail"]
        assert "The sky is blue" in checks["reasoning"]["detail"]
        assert await asyncio.to_thread(main, ["doctor", "--model", server.url]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == len(MODES)
        assert lines[0].split() == ["ok", "chat", "answered", "'Blue.'"]


async def test_what_does_not_work_is_told_and_what_happens_instead(capsys: pytest.CaptureFixture[str]) -> None:
    async with Loopback(poor) as server:
        status, checks = await doctor(f"openai:m@{server.url}", capsys)
    assert (status, [name for name, check in checks.items() if check["ok"]]) == (0, ["chat"])
    assert "estimated" in checks["usage"]["detail"]
    assert "watched for in the stream" in checks["stop strings"]["detail"]
    assert "goes on in turns" in checks["prefill"]["detail"]
    assert "none was made" in checks["tool calls"]["detail"]
    assert "404" in checks["completions"]["detail"]


async def test_an_endpoint_that_begins_anew_instead_of_continuing(capsys: pytest.CaptureFixture[str]) -> None:
    async with Loopback(chat("1, 2, 3, 4")) as server:
        _, checks = await doctor(f"openai:m@{server.url}", capsys)
    assert 'set continuation = "turns"' in checks["prefill"]["detail"]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Answer({"error": {"message": "who are you"}}, 401), "OPENAI_API_KEY"),
        (Answer(b"<html></html>"), "base URL"),
        (Answer({"error": {"message": "overloaded"}}, 503), "overloaded"),
        (Answer(chat("", "length")), "max_tokens"),
    ],
    ids=["key", "page", "overload", "hidden thought"],
)
async def test_a_failure_is_one_line_at_once(answer: Answer, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    async with Loopback(answer) as server:
        status, checks = await doctor(f"openai:m@{server.url}", capsys)
    assert (status, checks["chat"]["ok"]) == (1, False)
    assert says in checks["chat"]["detail"]


async def test_a_server_that_never_answers(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "FIRST_SECONDS", 0.2)
    async with Loopback(Answer(chat("late"), delay=60.0)) as server:
        status, checks = await doctor(f"openai:m@{server.url}", capsys)
    assert (status, list(checks)) == (1, ["chat"])
    assert "0.2 s" in checks["chat"]["detail"]


async def test_a_model_for_each_role(capsys: pytest.CaptureFixture[str]) -> None:
    async with Loopback(capable, models=[{"id": "m", "owned_by": "vllm"}]) as one, Loopback(poor) as other:
        _, checks = await doctor(f"planner={one.url},executor=openai:m@{other.url}", capsys)
    assert checks["planner: prefill"]["ok"]
    assert not checks["executor: prefill"]["ok"]


def test_an_unknown_model_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--model", "opnai:x"]) == 2
    assert "did you mean openai:" in capsys.readouterr().err
