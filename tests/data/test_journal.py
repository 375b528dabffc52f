"""Journals: what is finished is kept, whatever ends a run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from subquest.codec import Record
from subquest.data.journal import append_to_journal, read_journal, run_workers
from subquest.errors import DataError
from subquest.process import run_sync


class Line(Record):
    number: int


def test_a_half_written_line_is_ignored_and_then_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "new" / "journal.jsonl"
    assert list(read_journal(path, Line)) == []
    with append_to_journal(path) as add:
        add(Line(1))
        assert list(read_journal(path, Line)) == [Line(1)]
    path.write_bytes(path.read_bytes() + b'{"number": 2')
    assert list(read_journal(path, Line)) == [Line(1)]
    with append_to_journal(path) as add:
        add(Line(3))
    assert list(read_journal(path, Line)) == [Line(1), Line(3)]


def test_a_line_of_another_kind_is_named(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text('{"number": 1}\n{"number": "x"}\n')
    with pytest.raises(DataError, match=r"journal.jsonl:2"):
        list(read_journal(path, Line))


def test_workers_end_in_time_and_a_failure_ends_all() -> None:
    cancelled = 0

    async def wait() -> None:
        nonlocal cancelled
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled += 1
            raise

    run_sync(run_workers(wait, 3, 0.01))
    assert cancelled == 3

    waiting = iter([wait, wait])

    async def fail_last() -> None:
        if (one := next(waiting, None)) is not None:
            await one()
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        run_sync(run_workers(fail_last, 3, None))
    assert cancelled == 5
