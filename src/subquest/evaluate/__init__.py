"""Evaluation: systems on question sets, scored, resumable and comparable."""

from .runner import Job, evaluate, jobs_for
from .score import score
from .table import table

__all__ = ["Job", "evaluate", "jobs_for", "score", "table"]
