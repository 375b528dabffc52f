"""Worlds: fictional corpora with multi-hop questions and gold plans, at any size."""

from .checker import Report, check_world
from .questions import TYPES
from .world import Recipe, World, make_world
from .world_folder import write_world

__all__ = ["TYPES", "Recipe", "Report", "World", "check_world", "make_world", "write_world"]
