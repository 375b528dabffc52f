"""Ingestion: from folders of files to an index, and again whenever the files change.

with Index.build("docs.sq", []) as index:
    report = ingest(index, ["./docs", "papers/*.pdf", "corpus.jsonl.gz"])
for problem in report.problems:
    print(problem.name, problem.reason)

walk       which files there are
unpack     opening them safely
documents  from a file to documents
ledger     what was read before, and what came of it
run        all of it together
"""

from .ingestion import forget_files, ingest
from .report import Problem, Report, State
from .sources import Found

__all__ = ["Found", "Problem", "Report", "State", "forget_files", "ingest"]
