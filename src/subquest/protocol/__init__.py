"""How agents' text becomes actions, and how the environment's text stays text."""

from .tags import TAGS, Block, Parsed, closing, fence, parse, wrap

__all__ = ["TAGS", "Block", "Parsed", "closing", "fence", "parse", "wrap"]
