"""Contexts that are too long, in the words of each server, as documentation, issue trackers and clients have them."""

import pytest

from subquest.engine.openai.failures import failure
from subquest.errors import ContextOverflow, EngineError

from .loopback import Answer, Loopback, chat
from .test_openai_faults import ask, engine_at

OVERFLOWS = {
    "openai": (
        {
            "message": "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 "
            "tokens. Please reduce the length of the messages.",
            "code": "context_length_exceeded",
        },
        400,
        8192,
    ),
    "vllm": (
        {
            "message": "This model's maximum context length is 4096 tokens. However, your request has 5000 input "
            "tokens. Please reduce the length of the input messages.",
            "code": 400,
        },
        400,
        4096,
    ),
    "vllm-decoder": (
        {"message": "The decoder prompt (length 5000) is longer than the maximum model length of 4096."},
        400,
        4096,
    ),
    "sglang": (
        {"message": "The input (5000 tokens) is longer than the model's context length (4096 tokens)."},
        400,
        4096,
    ),
    "sglang-total": (
        {"message": "Requested token count exceeds the model's maximum context length of 4096 tokens."},
        400,
        4096,
    ),
    "llama.cpp": (
        {
            "message": "the request exceeds the available context size, try increasing it",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": 5000,
            "n_ctx": 4096,
        },
        400,
        4096,
    ),
    "llama.cpp-500": (
        {
            "code": 500,
            "message": "the request exceeds the available context size. try increasing the context size",
            "type": "exceed_context_size_error",
            "n_ctx": 256,
        },
        500,
        256,
    ),
    "llama-cpp-python": ({"message": "Requested tokens (2285) exceed context window of 2048"}, 500, 2048),
    "lm studio": (
        {
            "message": "The number of tokens to keep from the initial prompt is greater than the context length "
            "(n_keep: 13055>= n_ctx: 4096). Try to load the model with a larger context length."
        },
        400,
        4096,
    ),
    "older lm studio": (
        {
            "message": "Trying to keep the first 10136 tokens when context the overflows. However, the model is loaded "
            "with context length of only 7866 tokens, which is not enough."
        },
        200,
        7866,
    ),
    "tgi": (
        {"message": "Input validation error: `inputs` must have less than 4095 tokens. Given: 5000"},
        422,
        4095,
    ),
    "anthropic": ({"message": "prompt is too long: 210000 tokens > 200000 maximum"}, 400, 200000),
    "xai": (
        {
            "message": "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        },
        400,
        131072,
    ),
    "mistral": (
        {
            "message": "Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 "
            "maximum context length",
        },
        400,
        32768,
    ),
    "moonshot": (
        {
            "message": "Invalid request: Your request exceeded model token limit: 262144 (requested: 291351)",
        },
        400,
        262144,
    ),
    "minimax": (
        {
            "message": "invalid params, context window exceeds limit (2013)",
        },
        400,
        None,
    ),
    "zhipu": (
        {
            "message": "Prompt exceeds max length",
        },
        400,
        None,
    ),
    "dashscope": (
        {
            "message": "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]",
        },
        400,
        30720,
    ),
    "github copilot": (
        {
            "message": "prompt token count of 128437 exceeds the limit of 128000",
        },
        400,
        128000,
    ),
    "github models": (
        {
            "message": "Request body too large for gpt-4.1-mini model. Max size: 8000 tokens.",
        },
        413,
        8000,
    ),
    "groq": (
        {
            "message": "Request too large for model `llama-3.3-70b-versatile` in organization `o` service tier "
            "`on_demand` on tokens per minute (TPM): Limit 12000, Requested 13590, please reduce your message size "
            "and try again.",
        },
        413,
        None,
    ),
    "openai, tokens per minute": (
        {
            "message": "Request too large for gpt-4o in organization org-o on tokens per min (TPM): Limit 30000, "
            "Requested 40123. The input or output tokens must be reduced in order to run successfully.",
        },
        429,
        None,
    ),
    "ollama": (
        {
            "message": "prompt too long; exceeded max context length by 4 tokens",
        },
        400,
        None,
    ),
    "cohere": (
        {
            "message": "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4292.",
        },
        400,
        4081,
    ),
    "tensorrt-llm": (
        {
            "message": "The sum of prompt length (72417.0), query length (0) should not exceed max_num_tokens (69632)",
        },
        400,
        69632,
    ),
    "google": (
        {
            "message": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        },
        400,
        1048576,
    ),
    "newer openai": (
        {
            "message": "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300009 "
            "tokens.",
            "code": "context_length_exceeded",
        },
        400,
        272000,
    ),
}


@pytest.mark.parametrize("name", OVERFLOWS)
async def test_context_overflows_are_recognised(name: str) -> None:
    error, status, window = OVERFLOWS[name]
    async with Loopback(Answer({"error": error}, status)) as server:
        engine = engine_at(server)
        with pytest.raises(ContextOverflow, match="does not fit m"):
            await ask(engine)
        assert len(server.posts) == 1
        assert engine.context_window == window


@pytest.mark.parametrize(
    "message",
    [
        "'max_tokens' or 'max_completion_tokens' is too large: 512. This model's maximum context length is 4096 "
        "tokens and your request has 4000 input tokens (512 > 4096 - 4000).",
        "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 512 `max_new_tokens`",
        "input length and `max_tokens` exceed context limit: 4000 + 512 > 4096, decrease input length or `max_tokens` "
        "and try again",
    ],
    ids=["vllm", "tgi", "anthropic"],
)
async def test_a_turn_that_almost_fits_is_asked_for_shorter(message: str) -> None:
    async with Loopback(Answer({"error": {"message": message}}, 400), chat("fits")) as server:
        assert await ask(engine_at(server)) == "fits"
        assert [p["max_tokens"] for p in server.posts] == [512, 96]


def test_what_is_no_overflow_stays_what_it_is() -> None:
    for status, message in (
        (400, "max_tokens must be at least 1"),
        (500, "CUDA out of memory"),
        (429, "Too many tokens, please wait before trying again."),
    ):
        error = failure(status, f'{{"error": {{"message": "{message}"}}}}', url="u", model="m")
        assert isinstance(error, EngineError)
        assert not isinstance(error, ContextOverflow)
