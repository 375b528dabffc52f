"""Endpoints that return a model's thought apart from its text, as their documentation says they do.

vLLM, "Reasoning Outputs": a server with `--reasoning-parser` answers with `reasoning` (older versions:
`reasoning_content`) beside `content`, which is null until the thought has ended; stop strings count inside the thought.
DeepSeek API, "Thinking Mode": `reasoning_content` beside `content`, `max_tokens` counts both.
Ollama, "OpenAI compatibility": `reasoning` beside `content`.
"""

import pytest

from subquest.engine import Message, Sampling
from subquest.engine.openai import OpenAIEngine

from .loopback import Loopback, chat

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
