"""`subquest doctor`: what is installed and configured; with `--model`, what works at an endpoint."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from subquest.cli import main
from subquest.engine import capabilities
from subquest.models import known_model, smollm2_path

from ..engine.loopback import Answer, Loopback, Request, chat

MODES = ["chat", "usage", "system role", "reasoning", "stop strings", "prefill", "tool calls", "completions"]
MODES += ["long contexts", "parameters"]


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
    if body["messages"][0]["role"] == "system":
        return Answer({"error": {"message": "System role not supported"}}, 400)
    if body["messages"][-1]["role"] == "assistant":
        return Answer({"error": {"message": "The last message must be a user message."}}, 400)
    if "Count" in body["messages"][0]["content"]:
        return Answer(chat("1, 2, 3, 4, 5, 6, 7, 8, 9", usage=False))
    return Answer(chat("Blue.", usage=False))


async def doctor(spec: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    status = await asyncio.to_thread(main, ["doctor", "--json", "--model", spec])
    return status, {c["name"]: c for c in json.loads(capsys.readouterr().out)["checks"]}


async def test_everything_works(capsys: pytest.CaptureFixture[str]) -> None:
    async with Loopback(capable, models=[{"id": "m", "owned_by": "vllm", "max_model_len": 32768}]) as server:
        status, checks = await doctor(server.url, capsys)
        assert (status, sorted(checks)) == (0, sorted(MODES))
        assert "32,768" in checks["long contexts"]["detail"]
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
    assert "first user message" in checks["system role"]["detail"]
    assert "watched for in the stream" in checks["stop strings"]["detail"]
    assert "goes on in turns" in checks["prefill"]["detail"]
    assert "none was made" in checks["tool calls"]["detail"]
    assert "stay with `--protocol tags`" in checks["tool calls"]["detail"]
    assert "404" in checks["completions"]["detail"]


@pytest.mark.parametrize(("window", "whole"), [(4096, False), (16384, True)])
async def test_a_server_that_cuts_long_contexts_is_found_out(
    window: int, whole: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ollama, "FAQ: How can I specify the context window size?": 4,096 tokens unless OLLAMA_CONTEXT_LENGTH is set."""

    def model(request: Request) -> Answer:
        words = len(str(request.body.get("messages", request.body.get("prompt"))).split())
        usage = {"prompt_tokens": min(window, words), "completion_tokens": 2}
        return Answer(chat("Blue.") | {"usage": usage})

    async with Loopback(model) as server:
        _, checks = await doctor(f"openai:m@{server.url}", capsys)
    assert checks["long contexts"]["ok"] is whole
    assert ("OLLAMA_CONTEXT_LENGTH" in checks["long contexts"]["detail"]) is not whole


async def test_a_refused_parameter_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    def model(request: Request) -> Answer:
        refusal = {"error": {"message": "Unsupported value", "param": "temperature"}}
        return Answer(refusal, 400) if "temperature" in request.body else Answer(chat("Blue."))

    async with Loopback(model) as server:
        _, checks = await doctor(f"openai:m@{server.url}", capsys)
    assert (checks["parameters"]["ok"], "left out: temperature" in checks["parameters"]["detail"]) == (False, True)


async def test_a_server_that_hands_calls_through_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    call = '```json\n{"name": "look_up_town", "arguments": {"town": "Kestel"}}\n```'
    async with Loopback(chat(call)) as server:
        _, checks = await doctor(f"openai:m@{server.url}", capsys)
    assert checks["tool calls"]["ok"]
    assert "as text that the server did not recognise" in checks["tool calls"]["detail"]
    assert "--protocol tags" in checks["tool calls"]["detail"]


async def test_a_thought_without_its_beginning_needs_the_reasoning_parser(capsys: pytest.CaptureFixture[str]) -> None:
    """A chat template that writes `<think>` itself, on a server that does not tell (SGLang)."""
    async with Loopback(chat("The sky is blue.</think>Blue.")) as server:
        _, checks = await doctor(f"openai:m@{server.url}", capsys)
    assert not checks["reasoning"]["ok"]
    assert "reasoning parser" in checks["reasoning"]["detail"]


async def test_a_model_that_thinks_for_long_is_given_more_room(capsys: pytest.CaptureFixture[str]) -> None:
    def model(request: Request) -> Answer:
        if request.body.get("max_tokens", 0) < 1000:
            return Answer(chat("", "length", message={"reasoning_content": "Let me see. "}))
        return capable(request)

    async with Loopback(model) as server:
        status, checks = await doctor(f"openai:m@{server.url}", capsys)
    assert (status, checks["chat"]["ok"], checks["tool calls"]["ok"]) == (0, True, True)
    assert "set `max_tokens` to 4096 or more" in checks["chat"]["detail"]


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
    monkeypatch.setattr(capabilities, "FIRST_SECONDS", 0.2)
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


def test_doctor_opens_llama_cpp(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A package that is installed need not work: a slim container has no OpenMP."""
    library = pytest.importorskip("subquest.engine.embedded.llama_cpp")
    pytest.importorskip("xllamacpp")

    def missing(file: str) -> None:
        raise OSError("libgomp.so.1: cannot open shared object file: No such file or directory")

    monkeypatch.setattr(library, "open_library", library.open_library.__wrapped__)  # not one that was opened before
    monkeypatch.setattr(library.c, "CDLL", missing)
    main(["doctor", "--json"])
    (found,) = (c for c in json.loads(capsys.readouterr().out)["checks"] if c["name"] == "llama.cpp")
    assert (found["ok"], found["fix"]) == (False, "apt-get install libgomp1")
    assert "libgomp.so.1" in found["detail"]


def test_doctor(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    checks = {c["name"]: c for c in report["checks"]}
    assert checks["python"]["ok"]
    assert not checks["embedded model"]["ok"]
    assert checks["embedded model"]["fix"] == "subquest model get smollm2"
    assert checks["sandbox"]["ok"] or "refused" in checks["sandbox"]["detail"]
    assert {"web pages", "web search", "media"} <= checks.keys()


def test_a_damaged_model_is_told_with_what_mends_it(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("gguf", reason="needs the extra `embedded`")
    monkeypatch.setenv("SUBQUEST_CACHE", str(place / "cache"))
    monkeypatch.delenv("SUBQUEST_SMOLLM2", raising=False)
    path = smollm2_path()
    path.parent.mkdir(parents=True)
    path.write_bytes(b"GGUF" + bytes(500))
    assert main(["doctor", "--json"]) == 0
    check = next(c for c in json.loads(capsys.readouterr().out)["checks"] if c["name"] == "embedded model")
    assert (check["ok"], "damaged" in check["detail"]) == (False, True)
    assert main(["ask", "Who?", "--system", "direct"]) != 0
    assert "subquest model get smollm2" in capsys.readouterr().err


def test_doctor_tells_settings_and_where_they_come_from(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "subquest.toml").write_text('system = "rag"\n[search]\nk = 7\n[tools]\nca = "no.pem"\n')
    monkeypatch.setenv("SUBQUEST_LIMITS_TURNS", "4")
    assert main(["doctor", "--json"]) == 0
    checks = {c["name"]: c for c in json.loads(capsys.readouterr().out)["checks"]}
    file = f'from {place / "subquest.toml"}: search.k = 7, system = "rag", tools.ca = '
    assert file in checks["config"]["detail"]
    assert "from SUBQUEST_LIMITS_TURNS: limits.turns = 4" in checks["config"]["detail"]
    assert "no.pem" in checks["web search"]["detail"]
    assert checks["web search"]["fix"] == "correct what is named above"


def test_doctor_looks_at_the_endpoint_and_the_index_of_the_settings(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    model = 'default = "embedded"\nplanner = "openai:qwen3@http://localhost:8000/v1"\n'
    for index, opens in (("docs.sq", True), ("nope.sq", False)):
        (place / "subquest.toml").write_text(f'index = "{index}"\n[model]\n{model}')
        assert main(["doctor", "--json"]) == 0
        checks = {c["name"]: c for c in json.loads(capsys.readouterr().out)["checks"]}
        assert (checks["endpoint"]["ok"], checks["endpoint"]["detail"]) == (
            True,
            "http://localhost:8000/v1, without a key",
        )
        assert checks["index"]["ok"] is opens
        assert str(place / index) in checks["index"]["detail"]


@pytest.mark.parametrize(
    ("free", "said"),
    [
        (8_000_000_000, "subquest model get qwen-1.5b"),
        (1_500_000_000, "subquest model get qwen-0.5b"),
        (500_000_000, "none fits"),
    ],
)
def test_doctor_suggests_the_largest_model_that_fits(
    free: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUBQUEST_CACHE", str(tmp_path))
    monkeypatch.setattr("subquest.models.ADAPTERS", tmp_path)
    monkeypatch.setattr("subquest.models.memory.available_memory", lambda: free)
    main(["doctor"])
    told = capsys.readouterr().out
    assert said in told.partition("larger model")[2].partition("endpoint")[0]
    large = known_model("qwen-1.5b")
    large.path.parent.mkdir(parents=True)
    with large.path.open("wb") as file:
        file.truncate(large.size)
    main(["doctor"])
    told = capsys.readouterr().out.partition("larger model")[2].partition("endpoint")[0]
    assert told.strip().startswith("--model qwen-1.5b --system rag") if free > 2 * large.size else "1.5b" not in told


def test_doctor_says_that_a_newer_adapter_can_be_merged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("gguf")
    from subquest.engine.embedded.quantised import _path

    monkeypatch.setenv("SUBQUEST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("subquest.models.ADAPTERS", tmp_path)
    for place in ("subquest.models.memory", "subquest.engine.embedded.quantised"):
        monkeypatch.setattr(f"{place}.available_memory", lambda: 8_000_000_000)
    large = known_model("qwen-1.5b")
    large.path.parent.mkdir(parents=True)
    with large.path.open("wb") as file:
        file.truncate(large.size)
    adapter = tmp_path / "qwen-1.5b-subquest.gguf"
    adapter.write_bytes(b"GGUF")
    told = []
    for _ in range(2):
        main(["doctor"])
        told.append(capsys.readouterr().out.partition("larger model")[2].partition("endpoint")[0])
        merged = _path(large.path, adapter)
        merged.parent.mkdir(exist_ok=True)
        merged.write_bytes(b"GGUF")
    assert "fix: subquest model get qwen-1.5b" in told[0]
    assert "fix" not in told[1]
    assert all("--model qwen-1.5b reads" in line for line in told), "trained, it needs no other system"
