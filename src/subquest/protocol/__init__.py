"""How agents' text becomes actions, and how the environment's text stays text."""

from .fencing import fence, fence_tokens, tags_of, wrap
from .tags import TAGS, Block, Parsed, closing, end_token, in_thought, parse

__all__ = [
    "TAGS",
    "Block",
    "Parsed",
    "closing",
    "end_token",
    "fence",
    "fence_tokens",
    "in_thought",
    "parse",
    "tags_of",
    "wrap",
]
