"""Damage of a run is found: flipped bits, in a closed run and in one whose writer was killed, cut and appended bytes.

Whatever happens to a byte, `verify` finds it, or it does not matter: the run holds what was written, and can be
resumed. An export says what is damaged, or writes what was written.
"""

from __future__ import annotations

import gzip
import io
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from subquest.cli import main
from subquest.errors import DataError
from subquest.runs import RunStore
from subquest.runs.jsonl import export_run
from subquest.runs.salvage import verify_run

from .samples import episode
from .stored import SETTINGS, write_stored_run

FLIPS = int(os.environ.get("FLIPS", "150"))
"""Bits that are flipped in a run of each kind."""


def closed(path: Path) -> None:
    write_stored_run(path)


def killed(path: Path) -> None:
    """The log is still there: the writer was killed after its last commit."""
    first = path.with_suffix(".first")
    write_stored_run(first)
    with RunStore.open(first, write=True) as run:
        for n in range(5):
            run.add_episode(episode(f"late{n}", n)).wait()
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{first}{suffix}", f"{path}{suffix}")


def exported(path: Path) -> str | None:
    """The run as lines; None where it says that it is damaged."""
    lines = io.StringIO()
    try:
        with RunStore.open(path) as run:
            export_run(run, lines)
    except DataError:
        return None
    return lines.getvalue()


def replace(path: Path, files: dict[str, bytes]) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
        if suffix in files:
            Path(f"{path}{suffix}").write_bytes(files[suffix])


def content(path: Path) -> dict[str, bytes]:
    found = {suffix: Path(f"{path}{suffix}") for suffix in ("", "-wal")}
    return {suffix: file.read_bytes() for suffix, file in found.items() if file.exists()}


@pytest.mark.parametrize("make", [closed, killed], ids=lambda kind: kind.__name__)
def test_a_flipped_bit_is_found_or_does_not_matter(make: Callable[[Path], None], tmp_path: Path) -> None:
    path, generator, found = tmp_path / "run.sqlite", random.Random(1), 0
    make(path)
    files = content(path)
    written = exported(path)
    assert written is not None
    for i in range(FLIPS):
        suffix = generator.choice(sorted(files))
        used = [n for n, byte in enumerate(files[suffix]) if byte] if i % 4 else range(len(files[suffix]))
        place, bit = generator.choice(used), generator.randrange(8)
        changed = bytearray(files[suffix])
        changed[place] ^= 1 << bit
        what = f"run{suffix}, byte {place}, bit {bit}"
        replace(path, {**files, suffix: bytes(changed)})
        problems = verify_run(path).problems
        found += bool(problems)
        there = exported(path)
        if not problems:
            assert there == written, f"{what}: something else can be read, and `verify` finds nothing"
            with RunStore.resume(path, settings=SETTINGS) as run:
                run.add_episode(episode("after", 3)).wait()
            assert verify_run(path).problems == (), f"{what}: unnoticed until the next record"
        elif "-wal" not in str(problems):
            assert there in (None, written), f"{what}: an export differs; `verify` finds {problems}"
    assert found > FLIPS // 4


def cut(data: bytes) -> bytes:
    return data[:-100]


def appended(data: bytes) -> bytes:
    return data + b"more"


def page_appended(data: bytes) -> bytes:
    return data + bytes(4096)


@pytest.mark.parametrize("damage", [cut, appended, page_appended])
def test_the_size_of_the_file(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    write_stored_run(path)
    path.write_bytes(damage(path.read_bytes()))
    assert not verify_run(path).sound


def test_a_changed_number_is_found_by_verify_and_export(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.sqlite"
    write_stored_run(path)
    data = path.read_bytes()
    old, new = (b"e3f1\x3f" + b"\xe0" + bytes(6), b"e3f1\x3f" + b"\xe8" + bytes(6))  # a score of 0.5 and of 0.75
    assert old in data
    path.write_bytes(data.replace(old, new))
    assert main(["runs", "verify", str(path)]) == 1
    assert "the table score is not what was written" in capsys.readouterr().out
    assert main(["runs", "export", str(path), "--out", str(tmp_path / "out.jsonl")]) == 2
    assert "its table score is not what was written" in capsys.readouterr().err
    assert not (tmp_path / "out.jsonl").exists()


def test_a_number_of_a_piece_that_is_no_number(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    write_stored_run(path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE piece SET number = x'05' WHERE hash = (SELECT min(hash) FROM piece)")
    assert "the table piece is not what was written" in verify_run(path).problems


def test_a_run_without_checksums_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[Any]) -> None:
    path = tmp_path / "run.sqlite"
    path.write_bytes(gzip.decompress(Path(__file__).with_name("data").joinpath("run-0.1.sqlite.gz").read_bytes()))
    assert main(["runs", "verify", str(path)]) == 0
    assert "an older version wrote this run, without checksums" in capsys.readouterr().out
    with RunStore.resume(path, settings=SETTINGS) as run:
        run.add_episode(episode("after", 3)).wait()
    verdict = verify_run(path)
    assert verdict.sound
    assert verdict.checked
