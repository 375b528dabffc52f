"""Runs: what was asked, done and found, kept in one file a run."""

from .reader import Metric, Score, Summary
from .receipt import Receipt
from .rows import EpisodeExists
from .store import RunStore

__all__ = ["EpisodeExists", "Metric", "Receipt", "RunStore", "Score", "Summary"]
