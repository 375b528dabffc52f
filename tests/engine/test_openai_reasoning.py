"""Endpoints that return a model's thought apart from its text, as their documentation says they do.

vLLM, "Reasoning Outputs": a server with `--reasoning-parser` answers with `reasoning` (older versions:
`reasoning_content`) beside `content`, which is null until the thought has ended; stop strings count inside the thought.
DeepSeek API, "Thinking Mode": `reasoning_content` beside `content`, `max_tokens` counts both.
Ollama, "OpenAI compatibility": `reasoning` beside `content`.
"""

import pytest

from subquest.engine import Message, Sampling
from subquest.engine.openai import OpenAIEngine

from .loopback import Answer, Loopback, chat

PROMPT = [Message("system", "Plan."), Message("user", "Who?")]
VLLM = [{"id": "m", "owned_by": "vllm", "max_model_len": 32768}]
CALL, END = "<|begin_call_subtask|>find the mayor", "<|end_call_subtask|>"
SERVERS = {
    "vllm": ("reasoning_content", VLLM),
    "newer vllm": ("reasoning", VLLM),
    "deepseek": ("reasoning_content", [{"id": "m", "owned_by": "deepseek"}]),
    "ollama": ("reasoning", [{"id": "m", "owned_by": "library"}]),
}


def thought(field: str, reasoning: str, text: str | None = None, finish: str = "stop", **choice) -> dict:
    return chat(text, finish, message={field: reasoning}, **choice)


def engine_at(server: Loopback, **options) -> OpenAIEngine:
    return OpenAIEngine("m", base_url=server.url, api_key="", **options)


@pytest.mark.parametrize("name", SERVERS)
async def test_in_completion_mode_a_thought_is_the_models_own_text(name: str) -> None:
    field, models = SERVERS[name]
    stopped = thought(field, f"Hm. {CALL}{END}" if "vllm" in name else f"Hm. {CALL}", stop_reason=END)
    async with Loopback(stopped, thought(field, "So it is Ida.", "\\boxed{Ida}"), models=models) as server:
        session = await engine_at(server).open(PROMPT, mode="completion")
        first = await session.generate(Sampling(stop=(END,)))
        assert (first.text, first.finish, first.stop) == (f"<think>\nHm. {CALL}{END}", "stop", END)
        assert first.reasoning == ""
        await session.append("[Ida]\n\n")
        second = await session.generate(Sampling(stop=(END,)))
        assert second.text == "So it is Ida.\n</think>\n\n\\boxed{Ida}"
        assert server.posts[1]["messages"][2:] == [
            {"role": "assistant", "content": f"<think>\nHm. {CALL}{END}[Ida]\n\n"},
        ]


async def test_in_turns_each_thought_stands_in_its_own_message() -> None:
    answers = thought("reasoning_content", "One.", "a"), thought("reasoning_content", "Two.", "b")
    async with Loopback(*answers) as server:
        session = await engine_at(server, continuation="turns").open(PROMPT, mode="completion")
        await session.generate(Sampling())
        await session.append("more")
        assert (await session.generate(Sampling())).text == "<think>\nTwo.\n</think>\n\nb"
        assert server.posts[1]["messages"][2]["content"] == "<think>\nOne.\n</think>\n\na"


async def test_in_chat_mode_a_thought_that_was_cut_goes_on_and_is_not_sent_back_later() -> None:
    """vLLM: `continue_final_message` goes on with an unfinished assistant message."""
    cut = thought("reasoning_content", "Let me", None, "length")
    async with Loopback(cut, thought("reasoning_content", " see.", "Ida"), chat("Yes"), models=VLLM) as server:
        session = await engine_at(server).open(PROMPT)
        assert (await session.generate(Sampling())).cut_in_thought
        assert (await session.generate(Sampling())).text == "Ida"
        await session.append("Sure?")
        await session.generate(Sampling())
        assert server.posts[1]["messages"][2:] == [{"role": "assistant", "content": "<think>\nLet me"}]
        assert server.posts[1]["continue_final_message"] is True
        assert server.posts[2]["messages"][2:] == [
            {"role": "assistant", "content": "Ida"},
            {"role": "user", "content": "Sure?"},
        ]


async def test_the_rest_of_a_hidden_thought_that_comes_as_text_is_thought() -> None:
    cut = thought("reasoning_content", "Let me", None, "length")
    async with Loopback(cut, chat(" see", "length"), chat(" it.</think>\n\nIda"), models=VLLM) as server:
        session = await engine_at(server).open(PROMPT)
        await session.generate(Sampling())
        assert (await session.generate(Sampling())).reasoning == " see"
        last = await session.generate(Sampling())
        assert (last.reasoning, last.text) == (" it.", "Ida")


async def test_a_stop_string_inside_a_hidden_thought_ends_no_chat_turn() -> None:
    for stopped in (
        thought("reasoning", "I could write <task>x</task>", stop_reason="</task>"),
        thought("reasoning", "I could write <task>x"),
    ):
        async with Loopback(stopped, chat("<task>y"), models=VLLM) as server:
            session = await engine_at(server).open(PROMPT)
            first = await session.generate(Sampling(stop=("</task>",)))
            assert (first.text, first.cut_in_thought) == ("", True)
            await session.generate(Sampling(stop=("</task>",)))
            assert server.posts[1]["messages"][-1]["content"] == "<think>\nI could write <task>x</task>"


async def test_where_a_thought_cannot_be_taken_up_the_turn_is_asked_for_again() -> None:
    """DeepSeek API, "Thinking Mode": a message that ends in the assistant's words is not continued."""
    cut = thought("reasoning_content", "Let me", None, "length")
    async with Loopback(cut, thought("reasoning_content", "Easy.", "Ida"), chat("Yes")) as server:
        session = await engine_at(server).open(PROMPT)
        assert not session.goes_on
        await session.generate(Sampling())
        await session.generate(Sampling())
        assert server.posts[1]["messages"] == server.posts[0]["messages"]
        assert [s.text for s in session.segments if s.kind == "agent"] == ["Ida"]


async def test_where_going_on_is_refused_in_chat_mode_the_turn_is_asked_for_again() -> None:
    """llama.cpp, `tools/server`: prefill is refused while thinking is enabled."""
    cut = thought("reasoning_content", "Let me", None, "length")
    refusal = {"error": {"message": "Assistant response prefill is incompatible with enable_thinking."}}
    llama = [{"id": "m", "owned_by": "llamacpp"}]
    async with Loopback(cut, Answer(refusal, 400), chat("Ida"), models=llama) as server:
        session = await engine_at(server).open(PROMPT)
        await session.generate(Sampling())
        assert (await session.generate(Sampling())).text == "Ida"
        assert server.posts[2]["messages"] == server.posts[0]["messages"]
        assert not session.goes_on
        assert [s.text for s in session.segments if s.kind == "agent"] == ["Ida"]


async def test_in_completion_mode_a_turn_that_shows_nothing_of_its_thought_is_asked_for_again() -> None:
    """OpenAI's models behind Azure or OpenRouter: there is no text from which the thought could be continued."""
    async with Loopback(chat("", "length"), chat("Ida"), chat("", "length"), chat("and Bo")) as server:
        session = await OpenAIEngine("m", base_url=server.url).open([Message("user", "Who?")], mode="completion")
        for text, begun in (("Ida", ""), ("and Bo", "Ida[more]")):
            assert session.goes_on
            await session.generate(Sampling(max_tokens=20))
            assert not session.goes_on
            assert (await session.generate(Sampling(max_tokens=900))).text == text
            assert [post["messages"][1:] for post in server.posts[-2:]] == [
                [{"role": "assistant", "content": begun}] if begun else []
            ] * 2
            await session.append("[more]")
        assert [s.text for s in session.segments] == ["Who?", "Ida", "[more]", "and Bo", "[more]"]
