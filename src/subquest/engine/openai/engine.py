"""The engine for OpenAI-compatible endpoints: vLLM, SGLang, llama.cpp server, Ollama and hosted APIs.

What a server can do is detected, not configured: `/models` shows which server it is and how long its contexts may be,
and a parameter that an endpoint refuses is omitted from then on (a refused `stop` is looked for in the stream).
"""

from __future__ import annotations

import copy
import logging
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

from ...errors import EngineRefused, UsageError
from ...record import Usage
from ..actions import Action, Actions
from ..chat_format import ChatFormat
from ..interface import Generation, Message, Mode, OnRetry, OnText, Retry, Sampling, estimate_tokens
from .endpoint import Endpoint
from .failures import Adaptable, BadParameter, CannotContinue, Overflow, ServerError, Unexplained
from .prices import Price, load_prices, price_of
from .reply import Reply, ending, read_reply, separated
from .server_facts import Server, ServerFacts
from .session import ChatSession, OpenAISession
from .stream_watch import watch_stream
from .text_session import TextSession
from .tokenizer import Tokenizer
from .tool_calls import ToolSession

log = logging.getLogger("subquest.engine")

OPENAI = "https://api.openai.com/v1"
Continuation = Literal["auto", "template", "prefill", "turns"]
"""How completion mode continues the assistant's turn; see `OpenAIEngine`."""
Protocol = Literal["tags", "tools"]

_IN_TURNS = "the context goes on in turns"
LEAST_ROOM = 16
"""Fewest new tokens worth asking for when a context has almost filled its window."""


class OpenAIEngine:
    """A model behind an OpenAI-compatible endpoint.

    `model` may be left out where the endpoint serves only one. `endpoint` shares connections and limits with other
    engines; otherwise one is made from `base_url` and `api_key`, or from OPENAI_BASE_URL and OPENAI_API_KEY.

    Chat mode sends messages to `/chat/completions`. Completion mode depends on `continuation`:

    - `template`: `/completions` with the chat format applied here, where a `tokenizer` or a `chat_format` is given;
    - `prefill`: `/chat/completions` ending in an unfinished assistant message, which the server continues (vLLM and
      SGLang need `continue_final_message`, llama.cpp, Ollama and several hosted APIs do it by themselves);
    - `turns`: environment text becomes a user turn as in chat mode, for endpoints that can do neither (OpenAI).

    `auto` takes the first that fits, and goes on in turns where an endpoint refuses to continue a message. With a
    `tokenizer` both modes go through `/completions` with token ids as the prompt, so that the model reads exactly the
    ids that were recorded; that is the way for training data.
    """

    def __init__(
        self,
        model: str = "",
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        endpoint: Endpoint | None = None,
        server: Server = "auto",
        continuation: Continuation = "auto",
        tokenizer: Tokenizer | None = None,
        chat_format: ChatFormat | None = None,
        protocol: Protocol = "tags",
        actions: Actions = (),
        context_window: int | None = None,
        stream: bool = False,
        on_text: OnText | None = None,
        on_retry: OnRetry | None = None,
        prices: Mapping[str, Price] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """`extra` is added to every request body as it is (for example `{"reasoning_effort": "low"}`)."""
        for name, value, known in (
            ("server", server, Server),
            ("continuation", continuation, Continuation),
            ("protocol", protocol, Protocol),
        ):
            if value not in get_args(known):
                raise UsageError(f"unknown {name} {value!r}; known are {', '.join(get_args(known))}")
        if endpoint is None:
            url = base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI
            endpoint = Endpoint(url, api_key=os.environ.get("OPENAI_API_KEY", "") if api_key is None else api_key)
        self.endpoint = endpoint
        self.protocol = protocol
        self.actions: tuple[Action, ...] = () if isinstance(actions, Mapping) else tuple(actions)
        self.on_text = on_text
        self.on_retry = on_retry
        self._role_actions = actions if isinstance(actions, Mapping) else {}
        self._tokenizer = tokenizer
        self._form = chat_format or (tokenizer.form if tokenizer is not None else None)
        self._continuation = continuation
        self._stream = stream
        self._prices = load_prices() if prices is None else prices
        self._extra = dict(extra or {})
        self._found = ServerFacts("openai" if endpoint.base_url == OPENAI else server, model, context_window)
        if continuation == "template" and self._form is None:
            raise UsageError("continuation 'template' needs a tokenizer or a chat_format")
        if protocol == "tools" and tokenizer is not None:
            raise UsageError("tool calls come through the chat interface: leave the tokenizer out, or use tags")

    @property
    def name(self) -> str:
        return self._found.model or self.endpoint.base_url

    @property
    def context_window(self) -> int | None:
        return self._found.window

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that decides what the model answers, besides context and sampling; no secrets."""
        return {
            "engine": "openai",
            "base_url": self.endpoint.identity,
            "model": self._found.model,
            "protocol": self.protocol,
            "actions": [a.declaration() for a in self.actions] if self.protocol == "tools" else [],
            "continuation": self._expected,
            "exact": self._tokenizer is not None,
            "extra": self._extra,
        }

    @property
    def continuation(self) -> Continuation:
        """How completion mode works here, with `auto` resolved by what was detected."""
        return "turns" if self._found.in_turns else self._expected

    @property
    def _expected(self) -> Continuation:
        """How completion mode is tried first. It is part of the identity, which must not change during an episode."""
        if self._continuation != "auto":
            return self._continuation
        if self._form is not None:
            return "template"
        return "turns" if self.endpoint.base_url == OPENAI else "prefill"

    @property
    def prefill_parameters(self) -> dict[str, Any]:
        """Parameters that tell the server to continue an unfinished assistant message."""
        if self._found.server == "vllm":
            return {"continue_final_message": True, "add_generation_prompt": False}
        return {"continue_final_message": True} if self._found.server == "sglang" else {}

    @property
    def continues_messages(self) -> bool:
        """Whether the server is known to continue an unfinished assistant message."""
        return self.continuation != "turns" and self._found.server in ("vllm", "sglang", "llama.cpp")

    @property
    def system_role(self) -> bool:
        """Whether the model has a system role; otherwise instructions stand in the first user message."""
        return self._found.system_role

    @property
    def empty_turns(self) -> bool:
        """Whether the endpoint accepts contexts with a turn in which the model said nothing."""
        return self._found.empty_turns

    @property
    def wants_reasoning(self) -> bool:
        """Whether the endpoint wants to have the reasoning of earlier turns back."""
        return self._found.wants_reasoning

    @property
    def opens_thought(self) -> bool:
        """Whether the model's chat template opens its thought, so that replies begin inside it."""
        return self._found.opens_thought

    @property
    def calls_tools(self) -> bool:
        return self.protocol == "tools"

    def with_actions(self, actions: Actions) -> OpenAIEngine:
        """The same engine with what the roles of a system can do (one table, or one by role)."""
        view = copy.copy(self)
        view.actions = () if isinstance(actions, Mapping) else tuple(actions)
        view._role_actions = actions if isinstance(actions, Mapping) else {}
        return view

    def for_role(self, role: str) -> OpenAIEngine:
        """The engine as one role sees it: with that role's actions."""
        return self.with_actions(self._role_actions.get(role, ())) if self._role_actions else self

    async def open(self, messages: Sequence[Message], *, mode: Mode = "chat") -> OpenAISession:
        if not messages:
            raise EngineRefused("a prompt needs a message")
        await self.find_out()
        if self._form is not None and (
            self._tokenizer is not None or (mode, self.continuation) == ("completion", "template")
        ):
            return TextSession(self, messages, mode, self._form, self._tokenizer)
        if self.protocol == "tools" and self.actions:
            return ToolSession(self, messages, mode)
        session = ChatSession(self, messages, mode)
        if mode == "completion" and self.continuation == "turns":
            session.ask_to_go_on()
        return session

    @property
    def left_out(self) -> frozenset[str]:
        """Parameters that the endpoint is known to refuse."""
        return frozenset(self._found.refused)

    def count_tokens(self, text: str) -> int:
        return len(self._tokenizer.encode(text, False)) if self._tokenizer is not None else estimate_tokens(text)

    async def close(self) -> None:
        await self.endpoint.close()

    async def complete(self, session: OpenAISession, sampling: Sampling) -> tuple[Generation, Reply]:
        """One turn for a session: the request, adapted to what the endpoint accepts, and its answer as a turn."""
        start = time.perf_counter()
        refusal: CannotContinue | None = None
        left_out: set[str] = set()
        room = min(sampling.max_tokens, self._found.longest_turn or sampling.max_tokens)
        while True:
            context = session.body(sampling)
            echo = session.prefill if self._found.server in ("llama.cpp", "auto") else ""
            stream = self._stream or (session.on_text is not None and self.endpoint.streams)
            body = self._body(context, sampling, room, chat=session.path == ChatSession.path, stream=stream)
            try:
                data = await self.endpoint.post(
                    session.path,
                    body,
                    tokens=session.context_tokens + room,
                    watch=watch_stream(sampling, echo, session.on_text, self._found.refused)
                    if body.get("stream")
                    else None,
                    on_retry=session.on_retry,
                )
                reply = read_reply(data)
                if not (reply.says_nothing and session.prefill and self._changes_to_turns(session)):
                    break
                refusal = CannotContinue(f"{self.name} ended at once where it was to continue its message")
                _report(session, refusal, _IN_TURNS)
            except BadParameter as error:
                if error.parameter in self._extra:
                    raise
                self._found.leave_out(error, self.name)
            except Adaptable as error:
                self._found.adapt(error)
                room = min(room, self._found.longest_turn or room)
                _report(session, error, error.remedy)
            except Unexplained as error:
                if left_out or not (left_out := self._found.leave_out_all(body)):
                    self._found.refused -= left_out  # they were not the reason
                    raise
                _report(session, error, "sent again without optional parameters")
            except CannotContinue as error:
                if self._continuation != "auto" or not session.go_on_in_turns():
                    raise
                refusal = error
                _report(session, error, _IN_TURNS)
            except ServerError as error:
                if not (session.prefill and self._changes_to_turns(session)):
                    raise
                refusal = CannotContinue(str(error))
                _report(session, refusal, _IN_TURNS)
            except Overflow as error:
                self._found.window = self._found.window or error.window
                left = (error.window or 0) - (error.prompt or error.window or 0)
                if not LEAST_ROOM <= left < room:
                    raise
                room = left
        if left_out and not self._found.answered:
            log.warning("%s refuses requests with optional parameters: temperature and others are left out", self.name)
        self._found.answered = True
        if refusal is not None and not self._found.in_turns and not reply.says_nothing:
            self._found.in_turns = True
            log.warning("%s cannot continue a message: contexts go on in turns", self.name)
        if self._found.opens_thought and isinstance(session, ChatSession) and not session.prefill:
            reply = separated(reply)
        silent = not reply.text.strip()
        reply = session.read(replace(reply, text=reply.text.removeprefix(echo)), sampling.stop)
        if reply.finish == "content_filter":
            filtered = "the endpoint's content filter withheld the answer: choose another `model`"
            raise EngineRefused(f"{self.name}: {filtered}, or change its filter")
        turn = self._turn(session, reply, sampling, time.perf_counter() - start)
        if silent and turn.finish == "end":
            turn = replace(turn, problems=(*turn.problems, self._silent(turn, reply.refusal)))
        return turn, reply

    def _changes_to_turns(self, session: OpenAISession) -> bool:
        """Change a context to turns where nothing is known to continue messages, unless it was asked for by name."""
        return self._continuation == "auto" and not self.continues_messages and session.go_on_in_turns()

    def _turn(self, session: OpenAISession, reply: Reply, sampling: Sampling, seconds: float) -> Generation:
        tells = self._found.server in ("vllm", "sglang")
        text, finish, stop = ending(reply, sampling.stop, server_tells=tells)
        text = session.render(reply, text)
        watched = bool(stop) and "stop" in self._found.refused
        prompt, completion = reply.prompt_tokens, reply.completion_tokens
        estimated = 0
        if prompt is None:
            prompt = len(reply.prompt_ids) or session.context_tokens
            estimated += 0 if reply.prompt_ids else prompt
        if completion is None:
            completion = len(reply.token_ids) or estimate_tokens(reply.reasoning + text)
            estimated += 0 if reply.token_ids else completion
        price = price_of(self._found.model, self._prices)
        usage = Usage(
            prompt_tokens=prompt,
            cached_tokens=reply.cached_tokens,
            completion_tokens=completion,
            peak_context=prompt + completion,
            model_calls=1,
            seconds=round(seconds, 6),
            cost=price.cost(prompt, reply.cached_tokens, completion) if price else 0.0,
            estimated_tokens=estimated,
        )
        ids = () if watched else reply.token_ids
        logprobs = reply.logprobs if sampling.logprobs and not watched else None
        problems = session.problems(reply) + self._disregarded(reply, text, stop, sampling)
        return Generation(text, finish, ids, logprobs, stop, usage, reply.reasoning, reply.tool_calls, problems)

    def _disregarded(self, reply: Reply, text: str, stop: str, sampling: Sampling) -> tuple[str, ...]:
        """Settings that the endpoint ignored: stop strings, which are then looked for in the stream, and
        `max_tokens`."""
        problems = []
        written, limit = estimate_tokens(reply.text), sampling.max_tokens
        tells = self._found.server in ("vllm", "sglang")  # they keep the rest of the last token
        if stop and not tells and "stop" not in self._found.refused and reply.text[len(text) :].strip():
            problems.append(f"{self.name} ignores stop strings: what it wrote behind {stop} is cut off")
            if self.endpoint.streams:
                self._found.refused.add("stop")
        if written > 2 * limit:
            problems.append(
                f"{self.name} ignores `max_tokens`: it wrote about {written:,} tokens where {limit:,} were allowed "
                "(limit its turns where it is served)"
            )
        return tuple(problems)

    def _silent(self, turn: Generation, refusal: str) -> str:
        """What to change if a turn ends by itself before it says anything."""
        if refusal:
            return f"{self.name} refused to answer, in the words {refusal[:200]!r}: choose another `model`"
        if turn.text or turn.reasoning:
            parser = "the server's reasoning parser may not fit the model"
            return f"{self.name} ended its turn inside a thought: {parser}, or `max_tokens` is too small"
        change = "raise `max_tokens` if it thinks without showing it, or choose another `model`"
        return f"{self.name} returned an empty turn: {change}"

    def _body(
        self, context: Mapping[str, Any], sampling: Sampling, room: int, *, chat: bool, stream: bool
    ) -> dict[str, Any]:
        server, refused = self._found.server, self._found.refused
        body: dict[str, Any] = {"model": self._found.model, **context}
        body["max_completion_tokens" if "max_tokens" in refused else "max_tokens"] = room
        wanted: dict[str, Any] = {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p if sampling.top_p < 1 else None,
            "top_k": sampling.top_k or None,
            "min_p": sampling.min_p or None,
            "seed": sampling.seed,
            "stop": list(sampling.stop) or None,
            "logprobs": (True if chat else 1) if sampling.logprobs else None,
        }
        stream = stream or ("stop" in refused and bool(sampling.stop))
        if stream and "stream" not in refused:
            body["stream"] = True
            wanted["stream_options"] = {"include_usage": True}
        if server in ("vllm", "sglang") and not (server == "sglang" and chat and stream):
            wanted["return_token_ids"] = True
        if server == "vllm" and sampling.stop:
            wanted["include_stop_str_in_output"] = True
        if server == "sglang":  # keeps the stop string in the text and the end-of-turn token among the ids
            wanted["no_stop_trim"] = True
        body |= {key: value for key, value in wanted.items() if value is not None and key not in refused}
        return body | self._extra

    async def find_out(self) -> None:
        """Ask the endpoint, once, what there is to know about it."""
        template = self._extra.get("chat_template_kwargs") or {}
        await self._found.ask(self.endpoint, None if self._form is not None else template)


def _report(session: OpenAISession, error: EngineRefused, remedy: str) -> None:
    """Tell who watches that a refused request is sent again, changed."""
    if session.on_retry is not None:
        session.on_retry(Retry("engine", 1, 0.0, f"{error}: {remedy}"))
