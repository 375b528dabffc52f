"""How agents' text becomes actions, and how the environment's text stays text."""

from .fencing import fence, tags_of, wrap
from .tags import TAGS, Block, Parsed, closing, parse

__all__ = ["TAGS", "Block", "Parsed", "closing", "fence", "parse", "tags_of", "wrap"]
