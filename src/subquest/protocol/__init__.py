"""How agents' text becomes actions, and how the environment's text stays text."""

from .fencing import fence, tags_of, wrap
from .tags import TAGS, Block, Parsed, closing, in_thought, parse

__all__ = ["TAGS", "Block", "Parsed", "closing", "fence", "in_thought", "parse", "tags_of", "wrap"]
