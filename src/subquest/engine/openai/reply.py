"""Answers of OpenAI-compatible endpoints, read into one form, whether they came whole or in a stream."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...errors import EngineUnavailable
from ...masking import mask
from ..interface import FinishReason, ToolCall, cut_at_stop

MALFORMED = (KeyError, IndexError, TypeError, AttributeError, ValueError, OverflowError)
"""What reading an answer of the wrong shape can raise."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer as the endpoint gave it."""

    text: str
    finish: str
    """The endpoint's own word: stop, length, tool_calls, content_filter, ..."""
    matched: str = ""
    """The stop string that ended it, where the server says so (vLLM `stop_reason`, SGLang `matched_stop`)."""
    reasoning: str = ""
    refusal: str = ""
    """What the model says in place of an answer (OpenAI)."""
    token_ids: tuple[int, ...] = ()
    prompt_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    prompt_tokens: int | None = None
    """None where the endpoint reports no usage."""
    cached_tokens: int = 0
    completion_tokens: int | None = None

    @property
    def says_nothing(self) -> bool:
        """Whether the model ended its turn before it wrote, thought or called anything."""
        return not (
            self.text.strip() or self.reasoning or self.refusal or self.tool_calls or self.finish not in ("", "stop")
        )


def read_reply(data: Mapping[str, Any]) -> Reply:
    """The first choice of a chat or text completion, keys in it masked. Raises EngineUnavailable if it is not one."""
    try:
        choice = data["choices"][0]
        message: Mapping[str, Any] = choice.get("message") or {"content": choice.get("text")}
        usage: Mapping[str, Any] = data["usage"] if isinstance(data.get("usage"), dict) else {}
        logprobs = _logprobs(choice.get("logprobs"))
        ids = _ids(choice.get("token_ids")) or _ids_among_logprobs(choice.get("logprobs"))
        matched = choice.get("stop_reason") or choice.get("matched_stop")
        details = usage.get("prompt_tokens_details") or {}
        reply = Reply(
            text=_whole(_text(message.get("content"))),
            refusal=_whole(_text(message.get("refusal"))),
            finish=_finish(choice.get("finish_reason")),
            matched=matched if isinstance(matched, str) else "",
            reasoning=_whole(_reasoning(message)),
            token_ids=ids,
            prompt_ids=_ids(data.get("prompt_token_ids") or choice.get("prompt_token_ids")),
            logprobs=logprobs if not ids or logprobs is None or len(ids) == len(logprobs) else None,
            tool_calls=tuple(_tool_call(c) for c in _calls(message)),
            prompt_tokens=_count(usage.get("prompt_tokens")),
            cached_tokens=_count(details.get("cached_tokens") or usage.get("prompt_cache_hit_tokens")) or 0,
            completion_tokens=_count(usage.get("completion_tokens")),
        )
    except MALFORMED as error:
        shown = mask(str(data))[:300]
        raise EngineUnavailable(f"the endpoint's answer is not a completion ({error!r}): {shown}") from None
    return _masked(reply)


def _masked(reply: Reply) -> Reply:
    """The reply without keys that the endpoint sends back; their token ids would spell them as well."""
    calls = tuple(ToolCall(*map(mask, (call.id, call.name, call.arguments))) for call in reply.tool_calls)
    text, reasoning, refusal = map(mask, (reply.text, reply.reasoning, reply.refusal))
    clean = replace(reply, text=text, reasoning=reasoning, refusal=refusal, tool_calls=calls)
    return reply if clean == reply else replace(clean, token_ids=(), logprobs=None)


class Assembler:
    """Puts a stream of chunks together into the answer that would have come whole."""

    def __init__(self) -> None:
        self.characters = 0
        """Length of the text so far."""
        self.complete = False
        """Whether the stream said that the turn has ended."""
        self.chosen = False
        """Whether it held any part of a turn."""
        self.thought = ""
        """Reasoning in the last chunk."""
        self._text: list[str] = []
        self._top: dict[str, Any] = {}
        self._choice: dict[str, Any] = {}
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._ids: list[int] = []
        self._logprobs: list[Any] = []
        self._calls: dict[int, list[dict[str, Any]]] = {}
        """By index; several where a server gives all of them the same."""

    def add(self, chunk: Mapping[str, Any]) -> str:
        """Take a chunk in; gives the text that is new."""
        for key in ("usage", "prompt_token_ids"):
            if chunk.get(key):
                self._top[key] = chunk[key]
        new, self.thought = "", ""
        for choice in chunk.get("choices") or ():
            self.chosen = True
            delta = choice.get("delta") or {"content": choice.get("text")}
            new += _text(delta.get("content"))
            self._refusal.append(_text(delta.get("refusal")))
            self.thought += _reasoning(delta)
            self._ids.extend(_ids(choice.get("token_ids")))
            self._logprobs.extend(_logprob_entries(choice.get("logprobs")))
            for call in _calls(delta):
                self._merge_call(call)
            for key in ("finish_reason", "stop_reason", "matched_stop", "prompt_token_ids"):
                if choice.get(key) is not None:
                    self._choice[key] = choice[key]
            self.complete |= bool(choice.get("finish_reason"))
        self._text.append(new)
        self._reasoning.append(self.thought)
        self.characters += len(new)
        return new

    def whole(self, finish: str = "") -> dict[str, Any]:
        """The answer; `finish` is why it was not read to its end."""
        message = {
            "content": "".join(self._text),
            "reasoning_content": "".join(self._reasoning),
            "refusal": "".join(self._refusal),
            "tool_calls": [_joined(call) for i in sorted(self._calls) for call in self._calls[i]],
        }
        logprobs = {"content": self._logprobs} if self._logprobs else None
        return self._top | {
            "choices": [
                {"finish_reason": finish}
                | self._choice
                | {"message": message, "token_ids": self._ids, "logprobs": logprobs}
            ]
        }

    def _merge_call(self, call: Mapping[str, Any]) -> None:
        """A call comes in pieces. A name under another id begins the next, also where the server counts none on; so
        does a name after arguments that are complete, where calls have no ids (Gemini)."""
        function = call.get("function") or {}
        identifier, name = _text(call.get("id")), _text(function.get("name"))
        calls = self._calls.setdefault(int(call.get("index") or 0), [])
        if not calls or (name and _is_another(calls[-1], identifier)):
            calls.append({"id": "", "names": [], "arguments": []})
        merged = calls[-1]
        merged["id"] = merged["id"] or identifier
        if not any(merged["arguments"]):  # some servers repeat the name with each piece of the arguments
            merged["names"].append(name)
        merged["arguments"].append(_text(function.get("arguments")))


def _is_another(call: Mapping[str, Any], identifier: str) -> bool:
    """Whether a name under this id begins a call after the one that is being put together."""
    if identifier or call["id"]:
        return bool(identifier) and call["id"] not in ("", identifier)
    try:
        return isinstance(json.loads("".join(call["arguments"])), dict)
    except (ValueError, RecursionError):
        return False


def _joined(call: Mapping[str, Any]) -> dict[str, Any]:
    """A call that came in pieces, in the form of one that came whole."""
    function = {"name": "".join(call["names"]), "arguments": "".join(call["arguments"])}
    return {"id": call["id"], "function": function}


_END_OF_TURN = re.compile(
    r"(?:<\|(?:im_end|endoftext|end_of_text|eot_id|eom_id|end|return|END_OF_TURN_TOKEN)\|>|<end_of_turn>|<eos>|</s>"
    r"|<｜end▁of▁sentence｜>|\[\|endofturn\|\])\s*\Z"
)
"""A model's end-of-turn token, which vLLM leaves in the text once tools are sent with a request."""


def ending(reply: Reply, stops: Sequence[str], *, server_tells: bool) -> tuple[str, FinishReason, str]:
    """The turn's text with the stop string that ended it, the finish reason and that stop string.

    Servers strip the stop string from the text. Where they say which it was it is put back; where they do not, the
    closing tag is restored whose opening tag the text leaves open, the one opened last.
    """
    text, finish, stop = cut_at_stop(reply.text, stops)
    if finish == "stop":
        return text, finish, stop
    text = _END_OF_TURN.sub("", text)
    if reply.finish == "length":
        return text, "length", ""
    if reply.tool_calls:
        return text, "tool", ""
    if reply.matched in stops:
        if reply.reasoning and not text:  # it is inside the reasoning
            return text, "stop", reply.matched
        return text + reply.matched, "stop", reply.matched
    if server_tells:
        return text, "end", ""
    opened = [(at, stop) for stop in stops if (at := _left_open(text, stop)) >= 0]
    if not opened:
        return text, "end", ""
    _, stop = max(opened)
    return text + stop, "stop", stop


def cut_in_thought(reply: Reply, stops: Sequence[str]) -> Reply:
    """A reply that a stop string ended inside its hidden thought, as one that was cut there: it is no action yet."""
    if reply.text or not reply.reasoning or reply.tool_calls or reply.finish == "length":
        return reply
    opened = [(at, stop) for stop in stops if (at := _left_open(reply.reasoning, stop)) >= 0]
    stop = reply.matched if reply.matched in stops else max(opened, default=(0, ""))[1]
    if not stop:
        return reply
    return replace(reply, reasoning=reply.reasoning.removesuffix(stop) + stop, finish="length", matched="")


def separated(reply: Reply) -> Reply:
    """A reply that begins inside its thought, because the chat template has opened it, with the thought apart."""
    if reply.reasoning or "<think>" in reply.text:
        return reply
    thought, _, text = reply.text.partition("</think>")
    return replace(reply, reasoning=thought.strip(), text=text.lstrip())


_CLOSING = re.compile(r"\s*(?:</\s*(?P<tag>[^<>\s/]+)\s*>|<\|end_(?P<hira>\w+)\|>)\s*")


def _left_open(text: str, stop: str) -> int:
    """Position of the unclosed opening tag that belongs to `stop`, or -1."""
    parts = _CLOSING.fullmatch(stop)
    if parts is None:
        return -1
    if tag := parts["tag"]:
        found = list(re.finditer(rf"<{re.escape(tag)}(\s[^<>]*)?>", text))
        return found[-1].start() if found else -1
    return text.rfind(f"<|begin_{parts['hira']}|>")


_TEXT_PARTS = ("text", "output_text", "summary_text")
_CUT = ("length", "max_tokens", "max_output_tokens", "model_length")
"""Words for a turn that was cut: OpenAI's, Anthropic's and Google's through gateways, Mistral's."""


def _finish(reason: Any) -> str:
    """Why a turn ended, in OpenAI's word if it was cut."""
    reason = str(reason or "").lower()
    return "length" if reason in _CUT else reason


def _calls(message: Mapping[str, Any]) -> list[Any]:
    """The calls of a message; `function_call` is the older form of one (GigaChat)."""
    older = message.get("function_call")
    return list(message.get("tool_calls") or ([{"function": older}] if older else []))


def _text(content: Any) -> str:
    """A message's text: a string, nothing, or a list of parts."""
    if isinstance(content, list):
        parts = ({"type": "text", "text": part} if isinstance(part, str) else part for part in content)
        content = "".join(part.get("text") or "" for part in parts if part.get("type") in _TEXT_PARTS)
    if content is not None and not isinstance(content, str):
        raise TypeError(f"text is {type(content).__name__}")
    return content or ""


def _reasoning(message: Mapping[str, Any]) -> str:
    """Reasoning in a field of its own, or in parts of the content (Mistral, Databricks)."""
    content = message.get("content")
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    kinds = {"thinking": "thinking", "reasoning": "summary"}
    within = "".join(_text(part.get(kinds[part["type"]])) for part in parts if part.get("type") in kinds)
    return _text(message.get("reasoning_content") or message.get("reasoning")) or within


def _whole(text: str) -> str:
    """The text with the halves of split characters joined, and those without their other half replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _ids(values: Any) -> tuple[int, ...]:
    return tuple(int(i) for i in values or ())


def _count(value: Any) -> int | None:
    """A number of tokens; None for anything else, which is no reason to lose a turn."""
    number = isinstance(value, int | float) and 0 <= value < math.inf
    return int(value) if number else None


def _tool_call(call: Mapping[str, Any]) -> ToolCall:
    function = call.get("function") or {}
    arguments = function.get("arguments")
    if isinstance(arguments, dict):  # Ollama's own form
        arguments = json.dumps(arguments, ensure_ascii=False)
    return ToolCall(*(_whole(_text(part)) for part in (call.get("id"), function.get("name"), arguments)))


def _logprob_entries(logprobs: Any) -> list[Any]:
    """Chat form `{"content": [{"token", "logprob"}]}` or text form `{"tokens": […], "token_logprobs": […]}`."""
    if not logprobs:
        return []
    if "token_logprobs" in logprobs:
        tokens = logprobs.get("tokens") or [""] * len(logprobs["token_logprobs"])
        return [{"token": t, "logprob": p} for t, p in zip(tokens, logprobs["token_logprobs"], strict=False)]
    return list(logprobs.get("content") or ())


def _logprobs(logprobs: Any) -> tuple[float, ...] | None:
    """None as well where a number is none of a probability, such as NaN, which no JSON can hold."""
    found = tuple(float(e["logprob"] or 0.0) for e in _logprob_entries(logprobs))
    return found if found and all(-math.inf < p < 1e-3 for p in found) else None


def _ids_among_logprobs(logprobs: Any) -> tuple[int, ...]:
    """vLLM with `--return-tokens-as-token-ids` writes each token as `token_id:123`."""
    tokens = [str(e.get("token", "")) for e in _logprob_entries(logprobs)]
    if tokens and all(t.startswith("token_id:") for t in tokens):
        return tuple(int(t.removeprefix("token_id:")) for t in tokens)
    return ()
