"""Large tables and files that change while they are read: bounded memory, a clear note, nothing lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import openpyxl
import pytest

from subquest.retrieval import Index
from subquest.retrieval.ingest import State, ingest

from ..readers.made import put

MEASURED = '''
import contextlib, json, os, sys
from pathlib import Path
from subquest.retrieval import Index, table_passages
from subquest.retrieval.ingest import ingest

def highest():
    """Kilobytes of this process and of its readers, at their highest (ru_maxrss begins with that of the parent)."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    lines = list(open("/proc/self/status"))
    for child in children:
        with contextlib.suppress(OSError):  # it has just ended
            lines += open(f"/proc/{child}/status")
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

table_passages.MOST = 50
most = rows = 0
shares = []

def progress(state):
    global most, rows
    most, rows = max(most, highest()), state.rows
    shares.append(state.bytes / state.bytes_total)

with Index.build("i.sq", []) as index:
    report = ingest(index, [sys.argv[1]], progress=progress, jobs=1)
    count = index.tables.query("SELECT count(*), sum(amount) FROM big_sheet").rows[0]
print(json.dumps([most, rows, [str(note) for note in report.notes], count, shares]))
'''


def sheet(path: Path, rows: int) -> Path:
    book = openpyxl.Workbook(write_only=True)
    page = book.create_sheet("Sheet")
    page.append(["Order", "Customer", "Amount"])
    for number in range(rows):
        page.append([f"No. {number}", f"Customer {number % 97}", number % 500])
    book.save(path)
    return path


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows_of_a_spreadsheet(tmp_path: Path) -> None:
    """Twelve times the rows, of which search finds the first, and a query all."""
    peaks = []
    for rows in (1_000, 12_000):
        folder = tmp_path / str(rows)
        folder.mkdir()
        book = sheet(folder / "big.xlsx", rows)
        done = subprocess.run(
            [sys.executable, "-c", MEASURED, str(book)], cwd=folder, capture_output=True, text=True, check=True
        )
        peak, told, notes, (count, total), shares = json.loads(done.stdout)
        assert told == rows, "progress goes on where no passage comes any more"
        peaks.append(peak)
        assert (int(count), int(total)) == (rows, sum(number % 500 for number in range(rows)))
        assert "a long table: search finds its first rows" in notes[0]
    assert peaks[1] < 1.5 * peaks[0]
    assert shares == sorted(shares)
    assert any(0.2 < share < 0.8 for share in shares), "it is said how far the file is read"


def test_a_file_that_changes_while_it_is_read_is_noted_and_read_again(tmp_path: Path) -> None:
    docs = put(tmp_path / "docs", {"log.txt": "\n\n".join(f"Entry {n} of the log. " * 40 for n in range(200))})

    def grow(state: State) -> None:
        if state.passages == 1:
            with (docs / "log.txt").open("a") as file:
                file.write("\n\nThe last entry: the valve is closed.\n")
                os.fsync(file.fileno())

    with Index.build(tmp_path / "i.sq", []) as index:
        report = ingest(index, [docs], progress=grow)
        assert [str(note) for note in report.notes] == [
            "docs/log.txt: it changed while it was read; add it again once it is complete"
        ]
        report = ingest(index, [docs])
        assert (report.files, report.files_unchanged, report.notes) == (1, 0, [])
        assert "the valve is closed" in index.search("valve closed", 1)[0].document.text
