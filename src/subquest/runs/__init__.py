"""Runs: what was asked, done and found, kept in one file a run."""

from .reader import Metric, Score, Summary
from .store import RunStore
from .writer import Receipt

__all__ = ["Metric", "Receipt", "RunStore", "Score", "Summary"]
