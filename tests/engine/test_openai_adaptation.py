"""Endpoints that refuse a request which a changed one avoids, and replies of unusual forms; each as its server's
documentation or issue tracker has it."""

import asyncio
import re
from typing import Any

import pytest

from subquest.engine import Message, Sampling
from subquest.engine.interface import Retry
from subquest.engine.openai import Action, Endpoint, OpenAIEngine
from subquest.engine.openai import endpoint as endpoint_module
from subquest.errors import EngineRefused
from subquest.record import Document
from subquest.retrieval import Index
from subquest.systems import registry

from .loopback import Answer, Loopback, Request, chat, delta, events, until

PROMPT = [Message("system", "Be brief."), Message("user", "Who?")]
SEARCH = Action("search", "Search.", "query")


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "FIRST_WAIT", 0.01)


def called(arguments: str = '{"query": "q"}', identifier: str = "", **message: Any) -> dict[str, Any]:
    call = {"id": identifier, "type": "function", "function": {"name": "search", "arguments": arguments}}
    return chat(None, "tool_calls", message={"tool_calls": [call], **message})


NO_SYSTEM_ROLE: dict[str, tuple[int, dict[str, Any]]] = {
    "gemma on vllm": (400, {"message": "System role not supported", "type": "BadRequestError", "code": 400}),
    "gemma on llama.cpp": (500, {"message": "Jinja Exception: System role not supported", "type": "server_error"}),
    "gemma at google": (400, {"message": "Developer instruction is not enabled for models/gemma-3-27b-it"}),
    "o1-mini": (
        400,
        {
            "message": "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
            "param": "messages[0].role",
            "code": "unsupported_value",
        },
    ),
    "mistral 7b": (400, {"message": "Conversation roles must alternate user/assistant/user/assistant/..."}),
    "anthropic gateway": (400, {"message": 'messages: Unexpected role "system". Use the `system` parameter.'}),
}


def without_system_role(name: str, reply: Any) -> Any:
    status, error = NO_SYSTEM_ROLE[name]

    def answer(request: Request) -> Answer:
        roles = [m["role"] for m in request.body["messages"]]
        alternate = all(role == ("user", "assistant")[at % 2] for at, role in enumerate(roles))
        return Answer(chat(reply(request))) if alternate else Answer({"error": error}, status)

    return answer


@pytest.mark.parametrize("name", NO_SYSTEM_ROLE)
async def test_without_a_system_role_instructions_stand_in_the_first_user_message(name: str) -> None:
    retries: list[Retry] = []
    async with Loopback(without_system_role(name, lambda _: "Ida")) as server:
        engine = OpenAIEngine("m", base_url=server.url)
        session = await engine.open(PROMPT)
        session.on_retry = retries.append
        for turn in range(2):
            assert (await session.generate(Sampling())).text == "Ida"
            await session.append(f"more {turn}")
        assert [len(post["messages"]) for post in server.posts] == [2, 1, 3]
        assert server.posts[1]["messages"] == [{"role": "user", "content": "Be brief.\n\nWho?"}]
        assert "first user message" in retries[0].reason
        assert session.segments[0].role == "system"
        await (await engine.open(PROMPT)).generate(Sampling())
        assert len(server.posts) == 4


@pytest.mark.parametrize("name", ["coda", "decor", "apex", "hira", "react", "search-r1", "rag"])
async def test_every_system_runs_on_a_model_without_a_system_role(name: str, tmp_path: Any) -> None:
    """The prompts' worked examples must alternate as strictly as the rest."""
    seen: list[str] = []

    def reply(request: Request) -> str:
        seen.append(request.body["messages"][-1]["content"])
        return "<answer>the Lume</answer> \\boxed{the Lume}\nAction: Finish[the Lume]"

    index = Index.build(tmp_path / "kestel", [Document("1", "Kestel", "The river Lume flows through Kestel.")])
    async with Loopback(without_system_role("gemma on vllm", reply)) as server:
        engine = OpenAIEngine("m", base_url=server.url, continuation="turns")
        episode = await registry.get(name)(engine, index).solve("Which river flows through Kestel?")
        await engine.close()
    assert not [e for e in episode.errors if "400" in e.message]
    assert "the Lume" in episode.answer
    assert seen


@pytest.mark.parametrize("named", [True, False])
async def test_requests_at_the_same_time_all_do_without_a_refused_parameter(named: bool) -> None:
    """Those that were sent before the first refusal came back are refused as well. API gateways name no parameter."""

    async def answer(request: Request) -> Answer:
        await until(lambda: len(server.posts) >= 4)
        found = next((name for name in ("temperature", "stop") if name in request.body), None)
        error = {"message": f"Unsupported parameter: {found}", "param": found} if named else "Invalid request body"
        return Answer({"error": error}, 400) if found else Answer(chat("Ida"))

    async def ask() -> str:
        session = await engine.open(PROMPT)
        return (await session.generate(Sampling(stop=("</x>",)))).text

    async with Loopback(answer) as server:
        engine = OpenAIEngine("m", base_url=server.url)
        assert await asyncio.gather(*(ask() for _ in range(4))) == ["Ida"] * 4
        assert {"temperature", "stop"} <= engine.left_out
        sent = len(server.posts)
        assert await ask() == "Ida"
        assert len(server.posts) == sent + 1


async def test_a_refusal_that_has_nothing_to_do_with_parameters_leaves_them_in() -> None:
    async with Loopback(Answer({"error": "Invalid request body"}, 400)) as server:
        engine = OpenAIEngine("m", base_url=server.url)
        with pytest.raises(EngineRefused, match="Invalid request body"):
            await (await engine.open(PROMPT)).generate(Sampling())
        assert ["temperature" in post for post in server.posts] == [True, False]
        assert not engine.left_out


async def test_what_was_asked_for_by_name_is_not_left_out() -> None:
    refusal = Answer({"error": {"message": "Unsupported value", "param": "temperature"}}, 400)
    async with Loopback(refusal) as server:
        engine = OpenAIEngine("m", base_url=server.url, extra={"temperature": 1})
        with pytest.raises(EngineRefused, match="Unsupported value"):
            await (await engine.open(PROMPT)).generate(Sampling())
        assert len(server.posts) == 1


LIMITS = {
    "openai": "max_tokens is too large: 20000. This model supports at most 16384 completion tokens, whereas you "
    "provided 20000.",
    "deepseek": "Invalid max_tokens value, the valid range of max_tokens is [1, 16384]",
    "anthropic": "max_tokens: 20000 > 16384, which is the maximum allowed number of output tokens for the model",
    "groq": "`max_tokens` must be less than or equal to `16384`, the maximum value for `max_tokens`",
    "volcengine": "integer above maximum value for max_tokens, expected a value <= 16384, but got 20000 instead",
}


@pytest.mark.parametrize("name", LIMITS)
async def test_a_turn_that_is_too_long_is_asked_for_shorter_from_then_on(name: str) -> None:
    retries: list[Retry] = []

    def answer(request: Request) -> Answer:
        if request.body["max_tokens"] > 16384:
            return Answer({"error": {"message": LIMITS[name], "param": "max_tokens"}}, 400)
        return Answer(chat("Ida"))

    async with Loopback(answer) as server:
        engine = OpenAIEngine("m", base_url=server.url)
        session = await engine.open(PROMPT)
        session.on_retry = retries.append
        for most in (512, 20_000, 20_000, 512):
            assert (await session.generate(Sampling(max_tokens=most))).text == "Ida"
            await session.append("more")
        assert [post["max_tokens"] for post in server.posts] == [512, 20_000, 16_384, 16_384, 512]
    assert [r.reason.rpartition(": ")[2] for r in retries] == ["turns have at most 16,384 tokens from now on"]


async def test_an_unknown_parameter_is_not_taken_for_a_limit() -> None:
    unsupported = "Unsupported parameter: 'max_tokens' is not supported with o3-2025. Use 'max_completion_tokens'."
    refusal = Answer({"error": {"message": unsupported, "param": "max_tokens"}}, 400)
    async with Loopback(refusal, chat("Ida")) as server:
        session = await OpenAIEngine("m", base_url=server.url).open(PROMPT)
        await session.generate(Sampling(max_tokens=20_000))
        assert server.posts[1]["max_completion_tokens"] == 20_000


async def test_reasoning_goes_back_with_its_calls_where_the_endpoint_wants_it() -> None:
    """api-docs.deepseek.com/guides/thinking_mode#tool-calls"""
    missing = "Missing `reasoning_content` field in the assistant message at message index 2."

    def answer(request: Request) -> Answer:
        written = [m for m in request.body["messages"] if m["role"] == "assistant"]
        if any("reasoning_content" not in m for m in written):
            return Answer({"error": {"message": missing}}, 400)
        return Answer(called(identifier=f"c{len(written)}", reasoning_content=f"Thought {len(written)}."))

    async with Loopback(answer) as server:
        session = await OpenAIEngine("m", base_url=server.url, protocol="tools", actions=[SEARCH]).open(PROMPT)
        for _ in range(3):
            await session.generate(Sampling())
            await session.append("<documents>d</documents>")
        assert len(server.posts) == 4
        sent = [m.get("reasoning_content") for m in server.posts[-1]["messages"] if m["role"] == "assistant"]
        assert sent == ["Thought 0.", "Thought 1."]


async def test_reasoning_is_not_sent_to_an_endpoint_that_does_not_ask_for_it() -> None:
    async with Loopback(called(identifier="c", reasoning_content="Hm.")) as server:
        session = await OpenAIEngine("m", base_url=server.url, protocol="tools", actions=[SEARCH]).open(PROMPT)
        await session.generate(Sampling())
        await session.append("found")
        await session.generate(Sampling())
        assert "Hm." not in str(server.posts)


EMPTY = {
    "anthropic": "messages.2: all messages must have non-empty content except for the optional final assistant message",
    "mistral": "Assistant message must have either content or tool_calls, but not none.",
    "moonshot": "message at position 2 with role 'assistant' must not be empty",
    "mistral on vllm": "Invalid assistant message: role='assistant' content=None tool_calls=None prefix=False",
    "google": "Unable to submit request because it must include at least one parts field",
}


@pytest.mark.parametrize("name", EMPTY)
async def test_an_empty_turn_is_left_out_where_the_endpoint_refuses_it(name: str) -> None:
    def answer(request: Request) -> Answer:
        messages = request.body["messages"]
        if any(m["role"] == "assistant" and not m["content"] for m in messages):
            return Answer({"error": {"message": EMPTY[name]}}, 400)
        return Answer(chat("Ida" if "again" in messages[-1]["content"] else ""))

    async with Loopback(answer) as server:
        session = await OpenAIEngine("m", base_url=server.url).open(PROMPT)
        assert (await session.generate(Sampling())).text == ""
        await session.append("Say it again.")
        assert (await session.generate(Sampling())).text == "Ida"
        assert server.posts[-1]["messages"][1:] == [{"role": "user", "content": "Who?\n\nSay it again."}]


NO_TOOLS = {
    "ollama": (400, {"message": "registry.ollama.ai/library/gemma3:4b does not support tools", "type": "api_error"}),
    "vllm": (
        400,
        {"message": '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'},
    ),
    "llama.cpp": (500, {"message": "tools param requires --jinja flag"}),
    "openrouter": (404, {"message": "No endpoints found that support tool use.", "code": 404}),
}


@pytest.mark.parametrize("name", NO_TOOLS)
async def test_where_tools_are_refused_the_protocol_is_named(name: str) -> None:
    status, error = NO_TOOLS[name]
    async with Loopback(Answer({"error": error}, status)) as server:
        session = await OpenAIEngine("m", base_url=server.url, protocol="tools", actions=[SEARCH]).open(PROMPT)
        with pytest.raises(EngineRefused, match="--protocol tags"):
            await session.generate(Sampling())
        assert len(server.posts) == 1


@pytest.mark.parametrize("identifier", ["", "same"])
async def test_calls_have_ids_of_their_own_that_mistrals_templates_take(identifier: str) -> None:
    """mistral-common: a-z, A-Z, 0-9, with a length of 9."""
    async with Loopback(called(identifier=identifier)) as server:
        session = await OpenAIEngine("m", base_url=server.url, protocol="tools", actions=[SEARCH]).open(PROMPT)
        for _ in range(3):
            await session.generate(Sampling())
            await session.append("found")
        messages = server.posts[-1]["messages"]
        ids = [call["id"] for m in messages for call in m.get("tool_calls", ())]
        assert [m["tool_call_id"] for m in messages if m["role"] == "tool"] == ids
        assert len(set(ids)) == 2
        assert all(re.fullmatch("[a-zA-Z0-9]{9}", name) or name == identifier for name in ids)


@pytest.mark.parametrize("mode", ["chat", "completion"])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_turn_of_nothing_but_thought_names_what_to_change(mode: Any, stream: bool) -> None:
    thought = Answer(pieces=events(delta(delta={"reasoning": "Hm. "}), delta(delta={"reasoning": "Well."})))
    answer = thought if stream else Answer(chat("", message={"reasoning": "Hm. Well."}))
    async with Loopback(answer) as server:
        session = await OpenAIEngine("m", base_url=server.url, stream=stream).open(PROMPT, mode=mode)
        turn = await session.generate(Sampling())
        assert ["reasoning parser" in p and "`max_tokens`" in p for p in turn.problems] == [True]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal_to_answer_is_no_answer_and_names_what_to_change(stream: bool) -> None:
    """OpenAI, "Chat completion object": `refusal` stands in place of the content."""
    words = "I cannot help with that."
    whole = Answer(chat(None, message={"refusal": words}))
    pieces = Answer(pieces=events(*(delta(delta={"refusal": f"{word} "}) for word in words.split()), delta("", "stop")))
    async with Loopback(pieces if stream else whole) as server:
        session = await OpenAIEngine("m", base_url=server.url, stream=stream).open(PROMPT)
        turn = await session.generate(Sampling())
        assert (turn.text, len(turn.problems)) == ("", 1)
        assert words in turn.problems[0]
        assert "choose another `model`" in turn.problems[0]


async def test_an_empty_turn_names_what_to_change() -> None:
    async with Loopback(chat(None), chat("Ida")) as server:
        session = await OpenAIEngine("m", base_url=server.url).open(PROMPT)
        assert "raise `max_tokens`" in (await session.generate(Sampling())).problems[0]
        await session.append("again")
        assert (await session.generate(Sampling())).problems == ()


@pytest.mark.parametrize("stream", [False, True])
async def test_thinking_in_parts_of_the_content_is_reasoning(stream: bool) -> None:
    """docs.mistral.ai/capabilities/reasoning: ThinkChunk and TextChunk."""
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, {"type": "text", "text": "Ida"}]
    whole = Answer(chat(None, message={"content": parts}))
    pieces = Answer(pieces=events(*(delta(delta={"content": [part]}) for part in parts), delta(finish="stop")))
    async with Loopback(pieces if stream else whole) as server:
        session = await OpenAIEngine("m", base_url=server.url, stream=stream).open(PROMPT)
        turn = await session.generate(Sampling())
        assert (turn.text, turn.reasoning) == ("Ida", "Hm.")


TEMPLATE = {"models": [{"id": "m", "owned_by": "vllm"}], "prompt_end": ["<｜Assistant｜>", "<think>", "Ċ"]}
"""vLLM without a reasoning parser, and a model whose chat template opens the thought (DeepSeek-R1, QwQ)."""


async def test_a_thought_that_the_template_opened_is_thought() -> None:
    cut = chat("1. Kestel\n2. Maybe <answer>Foo</answer>", "length")
    async with Loopback(cut, chat(" No.</think>\n\n<answer>Ida</answer>"), **TEMPLATE) as server:
        session = await OpenAIEngine("m", base_url=server.url).open(PROMPT)
        first = await session.generate(Sampling())
        assert (first.cut_in_thought, first.text) == (True, "")
        second = await session.generate(Sampling())
        assert (second.text, second.reasoning) == ("<answer>Ida</answer>", " No.")
        assert server.posts[1]["messages"][-1]["content"] == "<think>\n1. Kestel\n2. Maybe <answer>Foo</answer>"


async def test_a_stop_string_in_a_thought_that_the_template_opened_ends_no_turn() -> None:
    stopped = chat("Maybe <answer>Foo</answer>", stop_reason="</answer>")
    async with Loopback(stopped, **TEMPLATE) as server:
        turn = await (await OpenAIEngine("m", base_url=server.url).open(PROMPT)).generate(Sampling(stop=("</answer>",)))
        assert (turn.cut_in_thought, turn.text) == (True, "")


@pytest.mark.parametrize("end", [(), ("<|im_start|>assistant", "Ċ")], ids=["not told", "not opened"])
async def test_text_stays_text_where_no_thought_was_opened(end: tuple[str, ...]) -> None:
    async with Loopback(chat("Ida"), models=TEMPLATE["models"], prompt_end=end) as server:
        turn = await (await OpenAIEngine("m", base_url=server.url).open(PROMPT)).generate(Sampling())
        assert (turn.text, turn.reasoning) == ("Ida", "")


@pytest.mark.parametrize(
    ("path", "key", "header"),
    [
        ("/openai/deployments/gpt-4o?api-version=2024-10-21", "secret", ("api-key", "secret")),
        ("/openai/deployments/gpt-4o", "eyJhbGciOi.x.y", ("authorization", "Bearer eyJhbGciOi.x.y")),
        ("/v1", "secret", ("authorization", "Bearer secret")),
    ],
)
async def test_azure_gets_its_key_in_its_own_header(path: str, key: str, header: tuple[str, str]) -> None:
    """learn.microsoft.com/azure/ai-services/openai/reference: `api-key`, or a bearer token of Entra."""
    async with Loopback(chat("Ida")) as server:
        url = server.url.removesuffix("/v1") + path
        session = await OpenAIEngine("gpt-4o", endpoint=Endpoint(url, api_key=key)).open(PROMPT)
        await session.generate(Sampling())
        sent = server.requests[-1]
    name, value = header
    assert sent.headers[name] == value
    assert ("api-key" in sent.headers) != ("authorization" in sent.headers)
    assert sent.path.startswith(path.partition("?")[0] + "/chat/completions")
    assert sent.path.partition("?")[2] == path.partition("?")[2]


async def test_an_encoder_beside_the_model_needs_no_name() -> None:
    """LM Studio lists its encoder with whatever is loaded."""
    models = [{"id": "text-embedding-nomic-embed-text-v1.5"}, {"id": "qwen3-8b"}]
    async with Loopback(chat("Ida"), models=models) as server:
        engine = OpenAIEngine(base_url=server.url)
        await (await engine.open(PROMPT)).generate(Sampling())
        assert (engine.name, server.posts[0]["model"]) == ("qwen3-8b", "qwen3-8b")
