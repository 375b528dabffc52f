"""Runs: everything that was asked, done and found, stored in one file per run.

store            RunStore, what callers use: create, resume, read and write a run
reader           rows to records
writer           the thread that writes, and receipts for what is on disk
process_writer   the same with a process of its own
rows             records to rows, and batches to transactions
pack             the compact form of records
file             the SQLite file: tables, creating, opening, finding
jsonl            export to and import from JSON lines
prune            removing old conversations of a server
salvage          checking a run, saving what is readable of a damaged one
"""

from .file import RUN_FILE, VERDICTS, run_path, runs_in
from .reader import Metric, Score, Summary
from .rows import EpisodeExists
from .store import RunStore
from .writer import Receipt

__all__ = [
    "RUN_FILE",
    "VERDICTS",
    "EpisodeExists",
    "Metric",
    "Receipt",
    "RunStore",
    "Score",
    "Summary",
    "run_path",
    "runs_in",
]
