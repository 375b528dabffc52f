"""Evaluation: systems on question sets, scored, resumable and comparable."""

from .result_table import table
from .runner import Job, evaluate, jobs_for
from .score import score

__all__ = ["Job", "evaluate", "jobs_for", "score", "table"]
