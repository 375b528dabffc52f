"""What is known about the server behind an endpoint: what it says about itself, and what it has refused."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ...errors import EngineError, EngineRefused, UsageError
from .endpoint import Endpoint
from .failures import Adaptable, BadParameter, NoEmptyTurn, NoSystemRole, TurnTooLong, WantsReasoning

log = logging.getLogger("subquest.engine")

Server = Literal["auto", "vllm", "sglang", "llama.cpp", "ollama", "openai"]

_OWNERS: dict[str, Server] = {"vllm": "vllm", "sglang": "sglang", "llamacpp": "llama.cpp", "library": "ollama"}
_CHANGES_SAMPLING = frozenset({"temperature", "top_p", "top_k", "min_p", "seed"})
_MAY_BE_LEFT_OUT = _CHANGES_SAMPLING | {
    "stop", "logprobs", "return_token_ids", "include_stop_str_in_output", "no_stop_trim", "stream", "stream_options",
}  # fmt: skip

_OPTIONAL = set(_MAY_BE_LEFT_OUT - {"stream"})


@dataclass
class ServerFacts:
    """Shared by all views of one engine."""

    server: Server
    model: str
    window: int | None
    refused: set[str] = field(default_factory=set)
    """Parameters that it does not take."""
    in_turns: bool = False
    """It has refused to continue an unfinished assistant message."""
    system_role: bool = True
    empty_turns: bool = True
    """It accepts contexts with a turn in which the model said nothing."""
    wants_reasoning: bool = False
    """It wants its reasoning back with the turns that followed it."""
    opens_thought: bool = False
    """The chat template writes `<think>`, so that replies begin inside the thought."""
    longest_turn: int | None = None
    """Most tokens of a turn, if the endpoint has said so."""
    answered: bool = False
    """It has answered a request."""
    asked: bool = False
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def ask(self, endpoint: Endpoint, template: Mapping[str, Any] | None) -> None:
        """Ask, once, which server it is, what it serves, how long a context may be and what its chat template writes.

        `template` holds the arguments of the chat template; None if the server's own is not used.
        """
        if self._known():
            return
        async with self.asking:
            if self._known():
                return
            models: list[dict[str, Any]] = []
            try:
                models = await endpoint.models()
            except EngineError as error:
                if not self.model:
                    if error.retryable:  # nobody is there; a name would not help
                        raise
                    raise EngineRefused(f"{error}; or name the model: {endpoint.base_url}#NAME") from None
            self.model = self.model or _only(models, endpoint)
            entry = next((m for m in models if m.get("id") == self.model), models[0] if models else {})
            server = _OWNERS.get(str(entry.get("owned_by", "")), "auto") if self.server == "auto" else self.server
            if server == "vllm" and template is not None:
                self.opens_thought = "<think>" in await endpoint.prompt_end(self.model, template)
            self.server = server
            meta = entry.get("meta")
            length = entry.get("max_model_len") or (meta.get("n_ctx") if isinstance(meta, dict) else None)
            if self.window is None and isinstance(length, int) and length > 0:
                self.window = length
            self.asked = True

    def _known(self) -> bool:
        return self.asked or bool(self.model and self.server != "auto")

    def adapt(self, error: Adaptable) -> None:
        """Change later requests so that this refusal does not come again."""
        self.system_role &= not isinstance(error, NoSystemRole)
        self.empty_turns &= not isinstance(error, NoEmptyTurn)
        self.wants_reasoning |= isinstance(error, WantsReasoning)
        if isinstance(error, TurnTooLong):
            self.longest_turn = error.limit

    def leave_out_all(self, sent: Mapping[str, Any]) -> set[str]:
        """Omit all parameters that may be the reason why an endpoint that never answered refuses what was sent."""
        optional = _OPTIONAL & sent.keys()
        if self.answered and not optional <= self.refused:  # otherwise another request has just found it out
            return set()
        left_out = _OPTIONAL - self.refused if optional else set()
        self.refused |= left_out
        return left_out or optional

    def leave_out(self, error: BadParameter, name: str) -> None:
        """Omit a parameter that the endpoint refused, if the turn is possible without it."""
        parameter = error.parameter
        if parameter not in _MAY_BE_LEFT_OUT and parameter != "max_tokens":
            raise error
        if parameter in _CHANGES_SAMPLING and parameter not in self.refused:
            log.warning("%s does not take %r: going on without it", name, parameter)
        self.refused.add(parameter)


def _only(models: Sequence[Mapping[str, Any]], endpoint: Endpoint) -> str:
    """The name of the one model that is served."""
    names = sorted(str(m.get("id", "")) for m in models)
    names = [name for name in names if "embed" not in name] or names  # LM Studio always lists an encoder
    if len(names) != 1:
        served = f"it serves {', '.join(names[:20])}" if names else "it lists no model"
        raise UsageError(f"name the model to use, as in {endpoint.base_url}#NAME: {served}")
    return names[0]
