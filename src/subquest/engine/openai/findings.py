"""What has been found out about an endpoint, and what its requests leave out since."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Literal

from .failures import Adaptable, BadParameter, NoSystemRole, TurnTooLong, WantsReasoning

log = logging.getLogger("subquest.engine")

Server = Literal["auto", "vllm", "sglang", "llama.cpp", "ollama", "openai"]

_CHANGES_SAMPLING = frozenset({"temperature", "top_p", "top_k", "min_p", "seed"})
_MAY_BE_LEFT_OUT = _CHANGES_SAMPLING | {
    "stop", "logprobs", "return_token_ids", "include_stop_str_in_output", "no_stop_trim", "stream", "stream_options",
}  # fmt: skip


@dataclass
class Findings:
    """Shared by all views of one engine."""

    server: Server
    model: str
    window: int | None
    refused: set[str] = field(default_factory=set)
    """Parameters that it does not take."""
    in_turns: bool = False
    """It has refused to continue an unfinished assistant message."""
    system_role: bool = True
    wants_reasoning: bool = False
    """It wants its reasoning back with the turns that followed it."""
    opens_thought: bool = False
    """The chat template writes `<think>`, so that replies begin inside the thought."""
    longest_turn: int | None = None
    """Most tokens of a turn, if the endpoint has said so."""
    asked: bool = False
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)

    def adapt(self, error: Adaptable) -> None:
        """Change later requests so that this refusal does not come again."""
        self.system_role &= not isinstance(error, NoSystemRole)
        self.wants_reasoning |= isinstance(error, WantsReasoning)
        if isinstance(error, TurnTooLong):
            self.longest_turn = error.limit

    def leave_out(self, error: BadParameter, name: str) -> None:
        """Omit a parameter that the endpoint refused, if the turn is possible without it."""
        parameter = error.parameter
        if parameter in self.refused or (parameter not in _MAY_BE_LEFT_OUT and parameter != "max_tokens"):
            raise error
        self.refused.add(parameter)
        if parameter in _CHANGES_SAMPLING:
            log.warning("%s does not take %r: going on without it", name, parameter)
