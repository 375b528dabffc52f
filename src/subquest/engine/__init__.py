"""Engines: language models behind one session protocol."""

from .interface import (
    Engine,
    FinishReason,
    Generation,
    Message,
    Mode,
    RoleAware,
    Sampling,
    Session,
    ToolCall,
    estimate_tokens,
)

__all__ = [
    "Engine",
    "FinishReason",
    "Generation",
    "Message",
    "Mode",
    "RoleAware",
    "Sampling",
    "Session",
    "ToolCall",
    "estimate_tokens",
]
