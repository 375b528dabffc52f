"""Endpoints that refuse to continue an unfinished assistant message: the context goes on in turns."""

from pathlib import Path
from typing import Any

import pytest

from subquest.cache import Cache, CachedEngine
from subquest.engine import Message, Sampling
from subquest.engine.interface import Retry
from subquest.engine.openai import Endpoint, OpenAIEngine
from subquest.engine.openai import endpoint as endpoint_module
from subquest.errors import EngineRefused
from subquest.record import Document
from subquest.retrieval import Index
from subquest.systems import registry

from .loopback import Answer, Loopback, Request, chat

PROMPT = [Message("system", "Reason."), Message("user", "Who?")]
REFUSALS: dict[str, tuple[int, dict[str, Any]]] = {
    "deepseek": (  # api-docs.deepseek.com/guides/chat_prefix_completion
        400,
        {
            "message": "The last message of deepseek-reasoner must be a user message, or an assistant message with "
            "prefix mode on (refer to https://api-docs.deepseek.com/guides/chat_prefix_completion).",
            "type": "invalid_request_error",
            "param": None,
        },
    ),
    "anthropic": (400, {"message": "messages: final assistant content cannot end with trailing whitespace"}),
    "mistral": (
        422,
        {"message": "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant"},
    ),
    "vllm-template": (  # transformers, for templates that drop what stands before </think>
        400,
        {
            "message": "continue_final_message is set but the final message does not appear in the chat after "
            "applying the chat template!",
            "type": "BadRequestError",
        },
    ),
    "param": (400, {"message": "Invalid message order.", "param": "messages"}),
    "llama.cpp": (500, {"message": "Assistant response prefill is incompatible with enable_thinking."}),
    "jinja": (500, {"message": "Jinja Exception: Conversation roles must alternate user/assistant"}),
}


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "FIRST_WAIT", 0.01)


def refusing(name: str, *replies: str) -> Any:
    """An endpoint that answers in turns alone."""
    status, error = REFUSALS[name]
    left = list(replies)

    def answer(request: Request) -> Answer:
        if request.body["messages"][-1]["role"] == "assistant":
            return Answer({"error": error}, status)
        return Answer(chat(left.pop(0)))

    return answer


@pytest.mark.parametrize("name", REFUSALS)
async def test_a_context_goes_on_in_turns_and_the_engine_remembers(name: str) -> None:
    retries: list[Retry] = []
    async with Loopback(refusing(name, "I look <a>q</a>", "done", "new", "new too")) as server:
        engine = OpenAIEngine("m", base_url=server.url)
        session = await engine.open(PROMPT, mode="completion")
        session.on_retry = retries.append
        await session.generate(Sampling(stop=("</a>",)))
        await session.append("[found]")
        assert (await session.generate(Sampling())).text == "done"
        refused, taken = server.posts[1:]
        assert refused["messages"][-1] == {"role": "assistant", "content": "I look <a>q</a>[found]"}
        assert taken["messages"][2:] == [
            {"role": "assistant", "content": "I look <a>q</a>"},
            {"role": "user", "content": "[found]"},
        ]
        assert [s.role for s in session.segments] == ["system", "user", "assistant", "user", "assistant"]
        assert [r.where for r in retries] == ["engine"]
        assert "the context goes on in turns" in retries[0].reason
        assert engine.continuation == "turns"
        other = await engine.open(PROMPT, mode="completion")
        await other.generate(Sampling())
        await other.append("told")
        await other.generate(Sampling())
        assert len(server.posts) == 5


@pytest.mark.parametrize("refusal", [chat(""), Answer({"error": "Internal Server Error"}, 500)], ids=["empty", "500"])
async def test_an_endpoint_that_does_not_say_that_it_cannot_continue(refusal: Any) -> None:
    """It takes the unfinished message for a finished turn and adds nothing, or fails without a reason."""

    def answer(request: Request) -> Any:
        return refusal if request.body["messages"][-1]["role"] == "assistant" else Answer(chat("I look"))

    retries: list[Retry] = []
    async with Loopback(answer) as server:
        engine = OpenAIEngine("m", endpoint=Endpoint(server.url, retries=1))
        for _ in range(2):
            session = await engine.open(PROMPT, mode="completion")
            session.on_retry = retries.append
            for told in ("[found]", "[more]"):
                assert (await session.generate(Sampling())).text == "I look"
                await session.append(told)
        assert [r.reason.endswith("the context goes on in turns") for r in retries][-1:] == [True]
        assert (engine.continuation, len(retries) <= 2) == ("turns", True)


async def test_a_turn_that_is_empty_in_turns_too_changes_nothing_for_later_contexts() -> None:
    async with Loopback(chat("I look"), chat("")) as server:
        engine = OpenAIEngine("m", base_url=server.url)
        session = await engine.open(PROMPT, mode="completion")
        await session.generate(Sampling())
        await session.append("[found]")
        turn = await session.generate(Sampling())
        assert (turn.text, engine.continuation, len(server.posts)) == ("", "prefill", 3)
        assert "returned an empty turn" in turn.problems[0]


async def test_an_empty_turn_of_a_server_that_continues_messages_is_one() -> None:
    async with Loopback(chat("I look"), chat(""), models=[{"id": "m", "owned_by": "vllm"}]) as server:
        engine = OpenAIEngine("m", base_url=server.url)
        session = await engine.open(PROMPT, mode="completion")
        await session.generate(Sampling())
        await session.append("[found]")
        assert (await session.generate(Sampling())).text == ""
        assert (engine.continuation, len(server.posts)) == ("prefill", 2)


async def test_a_turn_after_a_turn_is_asked_for() -> None:
    async with Loopback(refusing("deepseek", "one", "two")) as server:
        session = await OpenAIEngine("m", base_url=server.url).open(PROMPT, mode="completion")
        await session.generate(Sampling())
        await session.generate(Sampling())
        assert server.posts[-1]["messages"][2:] == [
            {"role": "assistant", "content": "one"},
            {"role": "user", "content": "Continue."},
        ]
        assert [s.text for s in session.segments[2:]] == ["one", "Continue.", "two"]


async def test_what_was_asked_for_by_name_is_not_replaced() -> None:
    async with Loopback(refusing("deepseek", "one")) as server:
        session = await OpenAIEngine("m", base_url=server.url, continuation="prefill").open(PROMPT, mode="completion")
        await session.generate(Sampling())
        with pytest.raises(EngineRefused, match="set `continuation` to turns"):
            await session.generate(Sampling())


async def test_a_refusal_in_turns_is_not_remembered() -> None:
    async with Loopback(chat("one"), Answer({"error": {"message": "blocked words"}}, 400)) as server:
        engine = OpenAIEngine("m", base_url=server.url)
        session = await engine.open(PROMPT, mode="completion")
        await session.generate(Sampling())
        await session.append("x")
        with pytest.raises(EngineRefused, match="blocked words"):
            await session.generate(Sampling())
        assert engine.continuation == "prefill"


async def test_a_template_that_raises_is_not_tried_again() -> None:
    raised = Answer({"error": {"message": "Jinja Exception: Unexpected message role."}}, 500)
    async with Loopback(raised) as server:
        session = await OpenAIEngine("m", endpoint=Endpoint(server.url)).open(PROMPT)
        with pytest.raises(EngineRefused, match="Unexpected message role"):
            await session.generate(Sampling())
        assert len(server.posts) == 1


@pytest.mark.parametrize("cached", [False, True])
async def test_an_episode_is_not_lost(cached: bool, tmp_path: Path) -> None:
    def model(request: Request) -> Answer:
        messages = request.body["messages"]
        if messages[-1]["role"] == "assistant":
            return Answer({"error": REFUSALS["deepseek"][1]}, 400)
        found = "Lume flows" in str(messages[2:])
        return Answer(chat("<answer>the Lume</answer>" if found else "<search>river of Kestel</search>"))

    index = Index.build(tmp_path / "kestel", [Document("1", "Kestel", "The river Lume flows through Kestel.")])
    async with Loopback(model) as server:
        for hits in (0, 2) if cached else (0,):
            engine: Any = OpenAIEngine("m", base_url=server.url)
            engine = CachedEngine(engine, Cache(tmp_path / "cache.sqlite")) if cached else engine
            episode = await registry.get("search-r1")(engine, index, prompts="compact").solve("Which river?")
            assert (episode.answer, episode.stop_reason, episode.errors) == ("the Lume", "answered", ())
            assert episode.usage.cache_hits == hits
            told = [e.data["message"] for e in episode.events if e.kind == "retry"]
            assert ["goes on in turns" in text for text in told] == ([] if hits else [True])
