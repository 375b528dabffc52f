"""What goes wrong at endpoints, over real connections: it is retried, or said clearly."""

import asyncio
import email.utils
import json
import time

import pytest

from subquest.engine import Message, Sampling
from subquest.engine.openai import Endpoint, Limits, OpenAIEngine, Retry
from subquest.engine.openai import endpoint as endpoint_module
from subquest.engine.openai.failures import retry_after
from subquest.errors import EngineError, EngineRefused, EngineUnavailable

from .loopback import Answer, Loopback, chat, delta, events, until

PROMPT = [Message("user", "Who?")]


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "FIRST_WAIT", 0.01)


def engine_at(server: Loopback, *, stream: bool = False, **options) -> OpenAIEngine:
    return OpenAIEngine("m", endpoint=Endpoint(server.url, **options), server="openai", stream=stream)


async def ask(engine: OpenAIEngine, retries: list[Retry] | None = None) -> str:
    session = await engine.open(PROMPT)
    if retries is not None:
        session.on_retry = retries.append
    return (await session.generate(Sampling())).text


@pytest.mark.parametrize(
    "fault",
    [
        Answer({"error": "busy"}, 429, {"Retry-After": "0"}),
        Answer({"error": {"message": "boom"}}, 500),
        Answer(b"<html>bad gateway</html>", 502),
        Answer({}, 529),
        Answer(b'{"choices": [', 200),
        Answer({"choices": []}, 200),
        Answer([1, 2], 200),
        Answer(chat("lost"), drop=True),
        Answer({"error": {"message": "overloaded", "code": 503}}, 200),
    ],
    ids=["429", "500", "502", "529", "malformed", "empty", "list", "dropped", "error-in-200"],
)
async def test_passing_faults_are_retried(fault: Answer) -> None:
    retries: list[Retry] = []
    async with Loopback(fault, fault, chat("fine")) as server:
        assert await ask(engine_at(server), retries) == "fine"
        assert len(server.posts) == 3
    assert [r.attempt for r in retries] == [1, 2]
    assert all(r.where == "engine" and r.reason and r.wait >= 0 for r in retries)


@pytest.mark.parametrize(
    "fault",
    [
        Answer(pieces=events(delta("half "), done=False), drop=True),
        Answer(pieces=events(delta("half "), done=False)),
        Answer(pieces=[*events(delta("half "), done=False), b'data: {"choi\n\n']),
        Answer(pieces=events(delta("half "), {"error": {"message": "engine died", "code": 500}}, done=False)),
        Answer(pieces=events(delta("half "), {"object": "error", "message": "engine died", "code": 500})),
        Answer(pieces=events(delta("half "), {"detail": "Internal Server Error"})),
        Answer(pieces=events({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 0}})),
        Answer(pieces=events()),
    ],
    ids=[
        *("connection-lost", "no-end", "malformed", "error-in-stream", "vllm-error", "fastapi-error"),
        *("no-choices", "nothing"),
    ],
)
async def test_a_broken_stream_is_begun_anew(fault: Answer) -> None:
    whole = Answer(pieces=events(delta("whole "), delta("thing", "stop")))
    async with Loopback(fault, whole) as server:
        assert await ask(engine_at(server, stream=True)) == "whole thing"
        assert len(server.posts) == 2


async def test_retry_after_is_honoured_for_everyone() -> None:
    retries: list[Retry] = []
    busy = Answer({"error": "slow down"}, 429, {"Retry-After": "0.4"})
    async with Loopback(busy, chat("fine")) as server:
        engine = engine_at(server)
        start = time.monotonic()
        first = asyncio.ensure_future(ask(engine, retries))
        await until(lambda: retries)
        assert await ask(engine) == "fine"
        assert time.monotonic() - start >= 0.4
        assert await first == "fine"
    assert 0.4 <= retries[0].wait <= 0.5


async def test_a_wait_longer_than_the_time_out_is_not_waited() -> None:
    async with Loopback(Answer({"error": "quota"}, 429, {"Retry-After": "3600"})) as server:
        with pytest.raises(EngineUnavailable, match="asks to wait 3600 s, longer than `timeout`"):
            await ask(engine_at(server, timeout=30))
        assert len(server.posts) == 1


def test_retry_after_forms() -> None:
    now = 1_800_000_000.0
    assert retry_after({"retry-after": "7"}) == 7
    assert retry_after({"retry-after": "-7"}) == 0
    assert retry_after({"retry-after-ms": "250", "retry-after": "7"}) == 0.25
    assert retry_after({"retry-after": email.utils.formatdate(now + 90, usegmt=True)}, now) == 90
    assert retry_after({"retry-after": email.utils.formatdate(now - 90, usegmt=True)}, now) == 0
    assert retry_after({"retry-after": "soon"}) is None
    assert retry_after({}) is None


@pytest.mark.parametrize(("status", "setting"), [(429, "`concurrency`.*`requests_per_minute`"), (503, "`retries`")])
async def test_an_endpoint_that_stays_busy_names_the_setting(status: int, setting: str) -> None:
    async with Loopback(Answer({"error": {"message": "not now"}}, status)) as server:
        with pytest.raises(EngineUnavailable, match=f"not now.*{setting}.*tried 2 times"):
            await ask(engine_at(server, retries=1))


async def test_an_address_that_has_moved_is_told_and_the_key_does_not_follow() -> None:
    async with Loopback(chat("x")) as elsewhere:
        moved = Answer(b"", 308, {"Location": f"{elsewhere.url}/chat/completions"})
        async with Loopback(moved, models=Answer(b"", 308, {"Location": f"{elsewhere.url}/models"})) as server:
            with pytest.raises(EngineRefused, match=f"moved to {elsewhere.url}: give that"):
                await ask(engine_at(server))
            with pytest.raises(EngineRefused, match=f"moved to {elsewhere.url}: give that"):
                await ask(OpenAIEngine(base_url=server.url))
        assert not elsewhere.requests


async def test_retries_end() -> None:
    async with Loopback(Answer({"error": {"message": "boom"}}, 500)) as server:
        with pytest.raises(EngineUnavailable, match=r"boom \(tried 3 times\)"):
            await ask(engine_at(server, retries=2))
        assert len(server.posts) == 3


async def test_slow_answers_run_into_the_time_out() -> None:
    slow = Answer(pieces=events(*[delta("x") for _ in range(100)]), gap=0.02)
    for fault, stream in ((Answer(chat("late"), delay=600.0), False), (slow, True)):
        async with Loopback(fault) as server:
            with pytest.raises(EngineUnavailable, match=r"did not finish within 0\.2 s"):
                await ask(engine_at(server, stream=stream, timeout=0.2, retries=0))


async def test_a_request_that_took_all_its_time_is_repeated_once() -> None:
    async with Loopback(Answer(chat("late"), delay=600.0)) as server:
        with pytest.raises(EngineUnavailable, match=r"set `timeout` under \[engine\].* \(tried 2 times\)"):
            await ask(engine_at(server, timeout=1.0, retries=5))
        assert len(server.posts) == 2


async def test_nobody_listens() -> None:
    async with Loopback(chat("x")) as server:
        url = server.url
    engine = OpenAIEngine("m", endpoint=Endpoint(url, retries=1))
    with pytest.raises(EngineUnavailable, match="is the server up"):
        await ask(engine)


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (401, {"error": {"message": "Incorrect API key"}}, "OPENAI_API_KEY"),
        (403, {"error": {"message": "no access"}}, "rights"),
        (404, {"error": {"message": "The model `m` does not exist."}}, "no model 'm' is served there"),
        (404, {"detail": "Not Found"}, "usually ends in /v1"),
        (400, {"error": {"message": "Model Not Exist"}}, "no model 'm' is served there"),
        (400, {"error": {"message": "m is not a valid model ID", "code": 400}}, "no model 'm' is served there"),
        (402, {"error": {"message": "Insufficient Balance"}}, "another `model`"),
        (429, {"error": {"message": "pay first", "code": "insufficient_quota"}}, "quota is used up"),
        (413, b"too large", "too large"),
    ],
)
async def test_refusals_say_what_to_do_and_are_not_retried(status: int, body: object, says: str) -> None:
    async with Loopback(Answer(body, status)) as server:
        with pytest.raises(EngineRefused, match=says):
            await ask(engine_at(server))
        assert len(server.posts) == 1


async def test_concurrency_is_bounded_and_used() -> None:
    async with Loopback(lambda request: Answer(chat("x"), delay=0.03)) as server:
        engine = engine_at(server, limits=Limits(concurrency=5))
        await asyncio.gather(*(ask(engine) for _ in range(30)))
        assert server.peak == 5
        assert server.connections <= 6


async def test_cancelling_closes_the_request() -> None:
    async with Loopback(Answer(chat("late"), delay=30.0)) as server:
        engine = engine_at(server, limits=Limits(concurrency=1))
        task = asyncio.ensure_future(ask(engine))
        await until(lambda: server.posts)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: server.disconnects)
        server.answers[:] = [Answer(chat("next"))]
        assert await ask(engine) == "next"


async def test_failed_turns_leave_the_context_as_it_was() -> None:
    async with Loopback(chat("a"), Answer({"error": "no"}, 403), chat("b")) as server:
        session = await engine_at(server).open(PROMPT)
        await session.generate(Sampling())
        await session.append("env")
        before = session.segments
        with pytest.raises(EngineRefused):
            await session.generate(Sampling())
        assert session.segments == before
        assert (await session.generate(Sampling())).text == "b"
        assert server.posts[1] == server.posts[2]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", ["text/event-stream", "application/json", "text/plain"])
async def test_an_answer_is_read_by_what_it_is_not_by_its_content_type(stream: bool, kind: str) -> None:
    whole = Answer(pieces=[b"\n", json.dumps(chat("fine"), indent=1).encode()], headers={"Content-Type": kind})
    told = Answer(pieces=[b": hello\n\n", *events(delta("fi"), delta("ne", "stop"))], headers={"Content-Type": kind})
    for answer in (whole, told):
        async with Loopback(answer) as server:
            assert await ask(engine_at(server, stream=stream, retries=0)) == "fine"


async def test_what_keeps_a_stream_alive_is_no_part_of_it() -> None:
    first, last = events(delta("Mün"), delta("chen", "stop"), done=False)
    alive = [b": OPENROUTER PROCESSING\n\n", b"event: ping\ndata:\n\n", b"data: \r\n\r\n", b"id: 7\nretry: 10\n"]
    whole = b"".join([*alive, first.replace(b"\\u00fc", "ü".encode()), *alive, last, *alive, b"data: [DONE]\n\n"])
    async with Loopback(Answer(pieces=[whole[i : i + 1] for i in range(len(whole))])) as server:
        assert await ask(engine_at(server, stream=True)) == "München"


async def test_signs_that_unicode_calls_line_ends_do_not_cut_a_stream() -> None:
    text = "one\u2028two\u2029three\x85four\x0bfive"
    event = f"data: {json.dumps(delta(text, 'stop'), ensure_ascii=False)}\r\n\r\n".encode()
    pieces = [event[:60], event[60:], b"data: [DONE]\r\n\r\n"]
    async with Loopback(Answer(pieces=pieces)) as server:
        assert await ask(engine_at(server, stream=True, retries=0)) == text


@pytest.mark.parametrize("value", [float("nan"), 1e9, float("-inf")])
async def test_log_probs_that_are_none_are_left_out(value: float) -> None:
    answer = chat("fine", logprobs={"content": [{"token": "fine", "logprob": value}]})
    async with Loopback(answer) as server:
        session = await engine_at(server).open(PROMPT)
        turn = await session.generate(Sampling(logprobs=True))
    assert (turn.text, turn.logprobs) == ("fine", None)


@pytest.mark.parametrize("more", [{"meta": "none"}, {"meta": [8192]}, {"max_model_len": -1}])
async def test_a_list_of_models_of_another_shape_is_survived(more: dict[str, object]) -> None:
    async with Loopback(chat("fine"), models=[{"id": "m", **more}]) as server:
        engine = OpenAIEngine("m", endpoint=Endpoint(server.url))
        assert await ask(engine) == "fine"
        assert engine.context_window is None


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Answer({"error": {"message": "no key given"}}, 401), "401: the key was not accepted: no key given"),
        (Answer({"error": {"message": "not yours"}}, 403), "403: the key may not list models"),
        (Answer({"detail": "Not Found"}, 404), "404: Not Found .*usually ends in /v1"),
        (Answer(b"<html>hello</html>"), "no list of models: '<html>hello"),
        (Answer({"error": {"message": "starting"}}, 503), "503: starting"),
    ],
    ids=["401", "403", "404", "html", "503"],
)
async def test_a_model_without_a_name_is_looked_for_and_the_failure_told(answer: Answer, says: str) -> None:
    async with Loopback(chat("x"), models=answer) as server:
        with pytest.raises(EngineError, match=f"^http://.*/models.*{says}") as failure:
            await OpenAIEngine(endpoint=Endpoint(server.url)).open(PROMPT)
        assert (
            str(failure.value).endswith("; or name the model: " + server.url + "#NAME") is not failure.value.retryable
        )
        named = OpenAIEngine("m", endpoint=Endpoint(server.url))
        assert await ask(named) == "x"


async def test_a_model_without_a_name_where_nobody_listens() -> None:
    async with Loopback(chat("x")) as server:
        url = server.url
    with pytest.raises(EngineUnavailable, match=r"^cannot connect to .*/models: .*is the server up\?\)$"):
        await OpenAIEngine(endpoint=Endpoint(url)).open(PROMPT)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_turn_that_ends_with_an_error_is_no_turn(stream: bool) -> None:
    """OpenRouter's way to say that the model behind it broke off in the midst of an answer."""
    gone = {"code": 502, "message": "the provider went away"}
    half = Answer(chat("<answer>Par", "error", error=gone))
    if stream:
        half = Answer(pieces=events(delta("<answer>Par"), {"error": gone, **delta("", "error")}))
    retries: list[Retry] = []
    async with Loopback(half, chat("<answer>Paris</answer>")) as server:
        assert await ask(engine_at(server, stream=stream), retries) == "<answer>Paris</answer>"
    assert "the provider went away" in retries[0].reason
