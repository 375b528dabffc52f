"""Ingestion: from folders of files to an index, and again whenever the files change.

    with Index.build("docs.sq", []) as index:
        report = ingest(index, ["./docs", "papers/*.pdf", "corpus.jsonl.gz"])
    for problem in report.problems:
        print(problem.name, problem.reason)

sources                    which files there are
documents, table_writer    from a file to documents and tables
ledger                     what was read before, and what came of it
versions, stated_versions  which files are older versions of others
report                     how far it is, what it did, what is wrong
ingestion                  all of it together
"""

from .ingestion import forget_files, ingest
from .report import Problem, Report, State
from .sources import Found

__all__ = ["Found", "Problem", "Report", "State", "forget_files", "ingest"]
