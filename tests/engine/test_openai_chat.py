"""Chat and completion mode, streams, reasoning, usage: what goes over the wire and what comes back."""

import asyncio
import os

import pytest

from subquest.engine import Engine, Message, Sampling, Session
from subquest.engine.chat_format import CHATML
from subquest.engine.interface import RoleAware
from subquest.engine.openai import Endpoint, OpenAIEngine, Price
from subquest.errors import EngineRefused, UsageError

from .loopback import Answer, Loopback, chat, delta, events

PROMPT = [Message("system", "Plan."), Message("user", "Who?")]


def engine_at(server: Loopback, model: str = "m", **options) -> OpenAIEngine:
    return OpenAIEngine(model, base_url=server.url, api_key="secret", **options)


async def test_a_conversation_over_the_wire() -> None:
    async with Loopback(chat("<task>x"), chat("<answer>y</answer>")) as server:
        engine = engine_at(server)
        assert isinstance(engine, Engine)
        assert isinstance(engine, RoleAware)
        session = await engine.open(PROMPT)
        assert isinstance(session, Session)
        first = await session.generate(Sampling(stop=("</task>", "</answer>"), temperature=0.5, seed=3))
        assert (first.text, first.finish, first.stop) == ("<task>x</task>", "stop", "</task>")
        await session.append("<result>z</result>")
        second = await session.generate(Sampling(stop=("</task>", "</answer>")))
        assert (second.text, second.finish, second.stop) == ("<answer>y</answer>", "stop", "</answer>")
        assert server.requests[0].method == "GET"
        assert server.requests[1].headers["authorization"] == "Bearer secret"
        assert server.posts[0] == {
            "model": "m",
            "messages": [{"role": "system", "content": "Plan."}, {"role": "user", "content": "Who?"}],
            "max_tokens": 512,
            "temperature": 0.5,
            "seed": 3,
            "stop": ["</task>", "</answer>"],
        }
        assert server.posts[1]["messages"][2:] == [
            {"role": "assistant", "content": "<task>x</task>"},
            {"role": "user", "content": "<result>z</result>"},
        ]
        assert [(s.kind, s.text, s.role) for s in session.segments] == [
            ("prompt", "Plan.", "system"),
            ("prompt", "Who?", "user"),
            ("agent", "<task>x</task>", "assistant"),
            ("env", "<result>z</result>", "user"),
            ("agent", "<answer>y</answer>", "assistant"),
        ]
        assert server.connections == 1
        await engine.close()


@pytest.mark.parametrize(
    ("text", "stops", "restored", "finish"),
    [
        ("<a>1</a><b>2", ("</c>", "</b>"), "<a>1</a><b>2</b>", "stop"),
        ("<think>t</think><search>q", ("</search>",), "<think>t</think><search>q</search>", "stop"),
        ('<task id="1">q', ("</task>",), '<task id="1">q</task>', "stop"),
        ("plain words", ("</search>",), "plain words", "end"),
        ("<|begin_call|>q", ("<|end_call|>",), "<|begin_call|>q<|end_call|>", "stop"),
        ("<search>q", ("<documents>",), "<search>q", "end"),
        ("<outer><inner>q", ("</outer>", "</inner>"), "<outer><inner>q</inner>", "stop"),
        ("<search>q</search> and on", ("</search>",), "<search>q</search>", "stop"),
    ],
)
async def test_stop_strings_are_restored(text: str, stops: tuple[str, ...], restored: str, finish: str) -> None:
    async with Loopback(chat(text)) as server:
        session = await engine_at(server).open(PROMPT)
        turn = await session.generate(Sampling(stop=stops))
        assert (turn.text, turn.finish) == (restored, finish)


async def test_a_server_that_tells_is_believed() -> None:
    answers = [chat("<search>q", stop_reason=None), chat("say", stop_reason="STOP"), chat("cut <a>", "length")]
    async with Loopback(*answers, models=[{"id": "m", "owned_by": "vllm", "max_model_len": 4096}]) as server:
        engine = engine_at(server)
        session = await engine.open(PROMPT)
        assert engine.context_window == 4096
        natural = await session.generate(Sampling(stop=("</search>",)))
        assert (natural.text, natural.finish) == ("<search>q", "end")
        told = await session.generate(Sampling(stop=("STOP",)))
        assert (told.text, told.finish, told.stop) == ("saySTOP", "stop", "STOP")
        cut = await session.generate(Sampling(stop=("</a>",)))
        assert (cut.text, cut.finish) == ("cut <a>", "length")
        assert server.posts[0]["include_stop_str_in_output"] is True
        assert server.posts[0]["return_token_ids"] is True


async def test_usage_cost_and_estimates() -> None:
    told = chat("ok")
    told["usage"]["prompt_tokens_details"] = {"cached_tokens": 5}
    async with Loopback(told, chat("x" * 40, usage=False)) as server:
        engine = engine_at(server, prices={"m": Price(prompt=2.0, completion=10.0, cached=1.0)})
        session = await engine.open(PROMPT)
        first = (await session.generate(Sampling())).usage
        assert (first.prompt_tokens, first.cached_tokens, first.completion_tokens) == (11, 5, 7)
        assert first.cost == pytest.approx((6 * 2 + 5 * 1 + 7 * 10) / 1e6)
        assert first.peak_context == session.context_tokens == 18
        assert first.estimated_tokens == 0
        await session.append("12345678")
        second = (await session.generate(Sampling())).usage
        assert (second.prompt_tokens, second.completion_tokens, second.estimated_tokens) == (20, 10, 30)


async def test_reasoning_is_kept_apart_and_think_in_the_text() -> None:
    apart = chat("<answer>4</answer>", message={"reasoning_content": "two and two"})
    named = chat("<answer>5</answer>", message={"reasoning": "one more"})
    async with Loopback(apart, named, chat("<think>hm</think>6")) as server:
        session = await engine_at(server).open(PROMPT)
        first = await session.generate(Sampling())
        assert (first.reasoning, first.text) == ("two and two", "<answer>4</answer>")
        await session.append("again")
        assert (await session.generate(Sampling())).reasoning == "one more"
        await session.append("again")
        assert (await session.generate(Sampling())).text == "<think>hm</think>6"
        assert "two and two" not in str(server.posts[1])


async def test_streams_are_put_together() -> None:
    chunks = [
        delta("", delta={"reasoning_content": "mm"}),
        delta("<sea"),
        delta("rch>q"),
        delta(None, "stop"),
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}},
    ]
    seen: list[str] = []
    pieces = [b": keep-alive\n\n", *events(*chunks)]
    async with Loopback(Answer(pieces=pieces)) as server:
        session = await engine_at(server, on_text=seen.append).open(PROMPT)
        turn = await session.generate(Sampling(stop=("</search>",)))
        assert turn.text == "<search>q</search>"
        assert turn.reasoning == "mm"
        assert (turn.usage.prompt_tokens, turn.usage.completion_tokens) == (3, 4)
        assert seen == ["mm", "\n\n<sea", "rch>q"]
        assert server.posts[0]["stream"] is True
        assert server.posts[0]["stream_options"] == {"include_usage": True}


async def test_refused_parameters_are_left_out_and_stops_watched() -> None:
    def refuse(name: str, message: str = "Unsupported parameter") -> Answer:
        return Answer({"error": {"message": f"{message}: '{name}' is not supported.", "param": name}}, 400)

    many = [delta("<a>1<"), delta("/a> and "), *[delta("more ") for _ in range(50)], delta(None, "stop")]
    async with Loopback(
        refuse("max_tokens"),
        refuse("stop"),
        Answer({"error": {"message": "Unrecognized request argument supplied: top_k"}}, 400),
        Answer(pieces=events(*many), gap=0.005),
    ) as server:
        session = await engine_at(server).open(PROMPT)
        turn = await session.generate(Sampling(stop=("</a>",), top_k=5))
        assert (turn.text, turn.finish, turn.stop) == ("<a>1</a>", "stop", "</a>")
        assert turn.usage.estimated_tokens > 0
        last = server.posts[-1]
        assert last["max_completion_tokens"] == 512
        assert not {"stop", "top_k", "max_tokens"} & last.keys()
        await session.append("go on")
        await session.generate(Sampling(stop=("</a>",), top_k=5))
        assert len(server.posts) == 5


@pytest.mark.parametrize("thinks", [False, True])
@pytest.mark.parametrize("temperature", [0.0, 0.5])
async def test_a_greedy_turn_that_only_repeats_itself_is_not_read_to_its_end(temperature: float, thinks: bool) -> None:
    """The stream is closed after at least 800 characters of it, which ends the turn at the server. Sampled turns may
    leave a loop."""
    again = "The river flows through the town and past the mill. "
    piece = delta(delta={"reasoning_content": again}) if thinks else delta(again)
    async with Loopback(Answer(pieces=events(*[piece] * 100, delta("</a>", "stop")))) as server:
        turn = await (await engine_at(server, stream=True).open(PROMPT)).generate(Sampling(temperature=temperature))
    written = len(turn.reasoning if thinks else turn.text)
    if temperature:
        assert (turn.finish, written >= 100 * len(again.strip())) == ("end", True)
    else:
        assert (turn.finish, 800 <= written < 1100) == ("length", True)
        assert turn.usage.estimated_tokens > 0


async def test_completion_mode_by_prefill() -> None:
    for owner, parameters in (
        ("vllm", {"continue_final_message": True, "add_generation_prompt": False}),
        ("sglang", {"continue_final_message": True}),
        ("llamacpp", {}),
    ):
        async with Loopback(chat("I look <a>q"), chat(" done"), models=[{"id": "m", "owned_by": owner}]) as server:
            session = await engine_at(server).open(PROMPT, mode="completion")
            await session.generate(Sampling(stop=("</a>",)))
            await session.append("\n[found]\n")
            turn = await session.generate(Sampling())
            assert turn.text == " done"
            first, second = server.posts
            assert first["messages"][-1]["role"] == "user"
            assert "continue_final_message" not in first
            closed = "" if owner in ("vllm", "sglang") else "</a>"
            assert second["messages"][2:] == [{"role": "assistant", "content": f"I look <a>q{closed}\n[found]\n"}]
            sent = {k: second[k] for k in ("continue_final_message", "add_generation_prompt") if k in second}
            assert sent == parameters
            assert [s.role for s in session.segments[2:]] == ["assistant"] * 3


async def test_an_echoed_prefill_is_not_the_models_turn() -> None:
    seen: list[str] = []
    echo = "<a>q</a>[found]"
    stream = Answer(pieces=events(delta("<a>q</a>["), delta("found]"), delta("so <a>r"), delta(None, "stop")))
    llama = [{"id": "m", "owned_by": "llamacpp", "meta": {"n_ctx": 1024}}]
    for answer, on_text in ((chat(echo + "so <a>r"), None), (stream, seen.append)):
        async with Loopback(answer, models=llama) as server:
            engine = engine_at(server, on_text=on_text)
            session = await engine.open([*PROMPT, Message("assistant", echo)], mode="completion")
            turn = await session.generate(Sampling(stop=("</a>",)))
            assert (turn.text, turn.stop) == ("so <a>r</a>", "</a>")
            assert engine.context_window == 1024
    assert seen == ["so <a>r"]


async def test_completion_mode_by_template_and_by_turns() -> None:
    text = {"choices": [{"text": "I look <a>q", "finish_reason": "stop"}]}
    async with Loopback(text, text) as server:
        session = await engine_at(server, chat_format=CHATML).open(PROMPT, mode="completion")
        await session.generate(Sampling(stop=("</a>",)))
        await session.append("[found]")
        await session.generate(Sampling())
        assert server.requests[-1].path == "/v1/completions"
        assert server.posts[1]["prompt"] == (
            "<|im_start|>system\nPlan.<|im_end|>\n<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\n"
            "I look <a>q</a>[found]"
        )
    async with Loopback(chat("one"), chat("two")) as server:
        session = await engine_at(server, continuation="turns").open(PROMPT, mode="completion")
        await session.generate(Sampling())
        await session.append("[found]")
        await session.generate(Sampling())
        assert [m["role"] for m in server.posts[1]["messages"]] == ["system", "user", "assistant", "user"]


async def test_forks_go_their_own_ways() -> None:
    async with Loopback(chat("a"), chat("b"), chat("c")) as server:
        session = await engine_at(server).open(PROMPT)
        await session.generate(Sampling())
        twin = session.fork()
        await twin.append("left")
        await session.append("right")
        await twin.generate(Sampling())
        await session.generate(Sampling())
        assert server.posts[1]["messages"][-1]["content"] == "left"
        assert server.posts[2]["messages"][-1]["content"] == "right"
        assert twin.segments[:3] == session.segments[:3]
        await twin.close()
        with pytest.raises(UsageError, match="closed"):
            await twin.generate(Sampling())


async def test_the_only_model_needs_no_name() -> None:
    async with Loopback(chat("hi"), models=[{"id": "the-one", "owned_by": "library"}]) as server:
        engine = engine_at(server, "")
        await (await engine.open(PROMPT)).generate(Sampling())
        assert engine.name == server.posts[0]["model"] == "the-one"
    async with Loopback(chat("hi"), models=[{"id": "a"}, {"id": "b"}]) as server:
        with pytest.raises(UsageError, match="serves a, b"):
            await engine_at(server, "").open(PROMPT)


async def test_the_environment_names_the_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Loopback(chat("hi")) as server:
        monkeypatch.setitem(os.environ, "OPENAI_BASE_URL", server.url)
        monkeypatch.setitem(os.environ, "OPENAI_API_KEY", "from-env")
        engine = OpenAIEngine("m", extra={"reasoning_effort": "low"})
        await (await engine.open(PROMPT)).generate(Sampling())
        assert server.requests[-1].headers["authorization"] == "Bearer from-env"
        assert server.posts[0]["reasoning_effort"] == "low"
        assert "from-env" not in str(engine.identity)


def test_one_engine_serves_several_event_loops() -> None:
    endpoint = Endpoint("http://127.0.0.1:1/v1")

    async def once() -> str:
        async with Loopback(chat("hi")) as server:
            endpoint.base_url = server.url
            session = await OpenAIEngine("m", endpoint=endpoint).open(PROMPT)
            return (await session.generate(Sampling())).text

    assert [asyncio.run(once()) for _ in range(3)] == ["hi"] * 3


def test_wrong_options_are_named() -> None:
    with pytest.raises(UsageError, match="unknown server 'vlm'"):
        OpenAIEngine("m", server="vlm")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="begins with http"):
        OpenAIEngine("m", base_url="localhost:8000")
    with pytest.raises(UsageError, match="needs a tokenizer or a chat_format"):
        OpenAIEngine("m", continuation="template")


async def test_an_empty_prompt_and_a_filtered_answer_are_refused() -> None:
    async with Loopback(chat("", "content_filter")) as server:
        engine = engine_at(server)
        with pytest.raises(EngineRefused, match="needs a message"):
            await engine.open([])
        with pytest.raises(EngineRefused, match="content filter"):
            await (await engine.open(PROMPT)).generate(Sampling())
