"""What an endpoint's failures mean (worth a retry, refused, context too long) and what the user can do about them."""

from __future__ import annotations

import email.utils
import json
import re
import time
from collections.abc import Mapping
from typing import Any

from ...errors import ContextOverflow, EngineError, EngineRefused, EngineUnavailable
from ...masking import mask

RETRYABLE = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})

_OVERFLOW = re.compile(
    r"context[_ ](length|window|size)[_ ](has been )?exceed|exceed_context_size"  # OpenAI, MiniMax, llama.cpp
    r"|maximum (context|prompt) length|max(imum)? model len"  # OpenAI, vLLM, xAI
    r"|longer than the (model's context|maximum model) length"  # SGLang, vLLM
    r"|exceed(s|ed)? (the )?(available |model's |max )?context (size|window|length|limit)"  # llama.cpp, Anthropic
    r"|context length of only \d+|n_keep: \d+"  # LM Studio
    r"|`inputs` (must have less|tokens \+)"  # text-generation-inference
    r"|exceeded model token limit|prompt exceeds max length|range of input length should be"  # Moonshot, Zhipu, Qwen
    r"|prompt token count of \d+ exceeds|request (body )?too large for"  # GitHub; Groq and OpenAI, tokens per minute
    r"|should not exceed max_num_tokens|tokens in the prompt cannot exceed"  # TensorRT-LLM, Cohere
    r"|prompt (is )?too long|input token count .* exceeds|input is too long",  # Anthropic, Ollama, Google, Bedrock
    re.IGNORECASE,
)
_WINDOW = re.compile(
    r"(?:maximum (?:context|prompt) length (?:is|of)|maximum model length of|context length \(|context size \("
    r"|context window of|model len(?:gth)? (?:is|of)|context length of only|n_ctx:|too large for model with"
    r"|exceed context limit: \d+ \+ \d+ >|prompt is too long: \d+ tokens >|model token limit:|Max size:"
    r"|limit of|length should be \[1,|max_num_tokens \(|prompt cannot exceed|tokens allowed \("
    r"|`max_new_tokens` must be <=|`inputs` must have less than)\s*(\d+)",
    re.IGNORECASE,
)
_PROMPT = re.compile(
    r"(?:has|contains) (?:at least )?(\d+) input tokens|\((\d+) (?:in the messages|of text input)"
    r"|(\d+) tokens? (?:from|in) the (?:input|messages|prompt)|(?:n_keep:|keep the first) (\d+)"
    r"|Given: (\d+)|exceed context limit: (\d+)",
    re.IGNORECASE,
)
_TEMPLATE = re.compile(
    r"chat.?template|jinja|raise_exception|prefill|continue_final_message|roles must alternate"
    r"|(last|final|trailing|end with an?) (assistant |user )?message|assistant messages at the end",
    re.IGNORECASE,
)
"""Words of servers whose chat template has raised; llama.cpp and others say so with status 500."""
_NO_SYSTEM = re.compile(
    r"\bsystem\W? (?:role|messages?|prompts?|instructions?)\b|role\W+system\b"  # Gemma's template
    r"|does not support 'system'|developer instruction"  # o1-mini, Gemma at Google
    r"|only user and assistant roles|roles must alternate",  # Mistral's first templates
    re.IGNORECASE,
)
_EMPTY = re.compile(
    r"non-?empty|\bempty\b|\bblank\b|either content or tool_calls"
    r"|invalid assistant message|at least one parts field",  # Mistral's tokenizer in vLLM, Google
    re.IGNORECASE,
)
_LENGTH = re.compile(r"max_(?:completion_|output_|new_)?tokens|(?:completion|output) tokens", re.IGNORECASE)
_UNKNOWN = re.compile(r"unsupported parameter|(?:is )?not supported", re.IGNORECASE)
_NO_MODEL = re.compile(
    r"model_not_found|invalid_model|(?:invalid|unknown|not a valid) model\b|model\b.{0,60}not (?:exist|found)",
    re.IGNORECASE,
)
_TOOLS = re.compile(r"\btools?\b|\bfunction.call", re.IGNORECASE)
SHORTEST_LIMIT = 64
"""Numbers below it are not the longest turn of an endpoint but the shortest, or part of a name."""


class Overflow(ContextOverflow):
    """A context overflow with the numbers the endpoint gave, where it gave them."""

    def __init__(self, message: str, window: int | None, prompt: int | None) -> None:
        super().__init__(message)
        self.window = window
        self.prompt = prompt


class BadParameter(EngineRefused):
    """The endpoint does not know or allow one of the request's parameters."""

    def __init__(self, message: str, parameter: str) -> None:
        super().__init__(message)
        self.parameter = parameter


class CannotContinue(EngineRefused):
    """The endpoint refused a request that ends in an unfinished assistant message."""


class ServerError(EngineUnavailable):
    """Status 500: a passing failure, or a chat template that raises without saying so."""


class Unexplained(EngineRefused):
    """A refusal that names nothing that could be changed."""


class Adaptable(EngineRefused):
    """A refusal that a changed request avoids; `remedy` says how."""

    remedy = ""


class NoSystemRole(Adaptable):
    """The model has no system role (Gemma, o1-mini)."""

    remedy = "instructions stand in the first user message from now on"


class WantsReasoning(Adaptable):
    """The endpoint wants its reasoning back with the calls that followed it (DeepSeek)."""

    remedy = "reasoning is sent back from now on"


class NoEmptyTurn(Adaptable):
    """The endpoint refuses a context that holds an empty turn (Anthropic, Mistral, Moonshot)."""

    remedy = "empty turns are left out from now on"


class TurnTooLong(Adaptable):
    """The endpoint allows fewer tokens in a turn than were asked for."""

    def __init__(self, message: str, limit: int) -> None:
        super().__init__(message)
        self.limit = limit
        self.remedy = f"turns have at most {limit:,} tokens from now on"


def failure(status: int, body: str, *, url: str, model: str, sent: Mapping[str, Any] | None = None) -> EngineError:
    """The exception for an error response. `sent` is the request, to find a parameter it complains about."""
    error, sent = _error_object(body), sent or {}
    message = mask(str(error.get("message") or error.get("detail") or body.strip() or "no message"))[:1000]
    kind = f"{error.get('code', '')} {error.get('type', '')}"[:200]
    where = f"{url} answered {status}"
    if _OVERFLOW.search(f"{kind} {message}"):
        window = _number(error.get("n_ctx")) or _first_group(_WINDOW, message)
        prompt = _number(error.get("n_prompt_tokens")) or _first_group(_PROMPT, message)
        return Overflow(
            f"the context does not fit {model}: {message} "
            "(lower the turn or document limits, ask for fewer new tokens, or serve the model with a longer context)",
            window,
            prompt,
        )
    if status == 401:
        return EngineRefused(
            f"{where}: the key was not accepted: {message} (check OPENAI_API_KEY, or the key that you entered)"
        )
    if status == 403:
        what = f"use {model}" if model else "list models"
        return EngineRefused(f"{where}: the key may not {what}: {message} (check the key's rights and region)")
    if status == 404 and "tools" in sent and _TOOLS.search(message):  # OpenRouter
        return EngineRefused(f"{where}: {message} ({_BY_TAGS})")
    if status == 404 and not model:
        return EngineRefused(f"{where}: {message} (is the base URL right? It usually ends in /v1)")
    if status == 404 or (status in (400, 422) and model and _NO_MODEL.search(f"{kind} {message}")):
        return EngineRefused(
            f"{where}: {message} (either no model {model!r} is served there, or the base URL is wrong: "
            "it usually ends in /v1; `curl BASE_URL/models` lists what is served)"
        )
    if status == 402 or "insufficient_quota" in kind:
        return EngineRefused(f"{where}: the account's quota is used up: {message} (or choose another `model`)")
    template = status in (500, 501) and _TEMPLATE.search(message)
    if status in RETRYABLE and not template:
        kind_of_failure = ServerError if status == 500 else EngineUnavailable
        return kind_of_failure(f"{where}: {message}{_BUSY.get(status, '')}")
    refused = status in (400, 422)
    if (refused or template) and (adaptable := _adaptable(f"{where}: {message}", message, sent)):
        return adaptable
    parameter = _named_parameter(error, message, sent) if refused else ""
    if _unfinished(sent) and (template or (refused and parameter in ABOUT_CONTINUING)):
        return CannotContinue(f"{where}: {message} (set `continuation` to turns)")
    if "tools" in sent and parameter in ("", "tools", "tool_choice") and _TOOLS.search(message):
        return EngineRefused(f"{where}: {message} ({_BY_TAGS})")
    if parameter:
        return BadParameter(f"{where}: {message}", parameter)
    return (Unexplained if refused else EngineRefused)(f"{where}: {message}")


_LATER = " (raise `retries` under [engine] if it needs longer)"
_BUSY = {
    429: " (lower `concurrency`, or set `requests_per_minute` or `tokens_per_minute`, under [engine])",
    503: _LATER,
    529: _LATER,
}
"""What helps if an endpoint is overloaded or not ready, by status."""
_BY_TAGS = "`--protocol tags`, the default, needs no tool calls"


def _adaptable(text: str, message: str, sent: Mapping[str, Any]) -> Adaptable | None:
    """The refusal of something that a changed request leaves out; once it is left out, it is refused no more."""
    messages = [m for m in sent.get("messages") or () if isinstance(m, dict)]
    lost = any(m["role"] == "assistant" and "reasoning_content" not in m for m in messages)
    if "reasoning_content" in message and lost:
        return WantsReasoning(text)
    if _EMPTY.search(message) and any(map(is_empty, messages)):
        return NoEmptyTurn(text)
    system = any(m["role"] == "system" for m in messages)
    found = _NO_SYSTEM.search(message) if system else None
    if found and not (_unfinished(sent) and "alternate" in found[0].lower()):
        return NoSystemRole(text)
    asked = sent.get("max_completion_tokens") or sent.get("max_tokens")
    if isinstance(asked, int) and _LENGTH.search(message) and not _UNKNOWN.search(message):
        numbers = map(int, re.findall(r"\d{1,9}", message.replace(",", "")))
        if limit := max((n for n in numbers if SHORTEST_LIMIT <= n < asked), default=0):
            return TurnTooLong(text, limit)
    return None


def is_empty(message: Mapping[str, Any]) -> bool:
    """Whether a message is a turn of the model in which it said and called nothing."""
    return message["role"] == "assistant" and not message.get("tool_calls") and not (message["content"] or "").strip()


ABOUT_CONTINUING = ("", "messages", "continue_final_message", "add_generation_prompt")
"""What a refusal names where it is about the unfinished message; others name a parameter that can be left out."""


def _unfinished(sent: Mapping[str, Any]) -> bool:
    messages = sent.get("messages")
    return isinstance(messages, list) and bool(messages) and messages[-1]["role"] == "assistant"


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds the server asks to wait: `Retry-After` as seconds or as an HTTP date, or `retry-after-ms`."""
    if milliseconds := headers.get("retry-after-ms"):
        try:
            return max(0.0, float(milliseconds) / 1000)
        except ValueError:
            pass
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        when = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, when.timestamp() - (time.time() if now is None else now))


def _error_object(body: str) -> dict[str, Any]:
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    if isinstance(data, list) and data:  # Google's OpenAI interface wraps the object in a list
        data = data[0]
    if not isinstance(data, dict):
        return {}
    error = data.get("error", data)
    if isinstance(error, str):
        return {"message": error}
    return error if isinstance(error, dict) else {}


def _named_parameter(error: Mapping[str, Any], message: str, sent: Mapping[str, Any]) -> str:
    """The parameter that the endpoint complains about, if it is one we sent."""
    named = error.get("param")
    if isinstance(named, str) and named in sent:
        return named
    for name in sent:
        if re.search(rf"['\"`\s\[.:]{re.escape(name)}\b", f" {message}") and name not in (
            "model",
            "messages",
            "prompt",
        ):
            return name
    return ""


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _first_group(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return next((int(g) for g in found.groups() if g), None) if found else None
