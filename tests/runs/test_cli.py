from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from subquest.cli import main
from subquest.runs import RunStore

from .samples import episode


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    path = tmp_path / "coda.sqlite"
    with RunStore.create(path, settings={"k": 3}) as run:
        for n in range(3):
            run.add_episode(episode(f"e{n}", n))
        run.add_event("cut", episode("cut").events[0])
    return path


def test_list_and_info(run_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other.sqlite").write_text("not a run")
    (tmp_path / "train").mkdir()
    RunStore.create(tmp_path / "train").close()
    RunStore.create(tmp_path / "plain").close()
    (tmp_path / "notes.txt").write_text("no run either")
    (tmp_path / "coda.judge.sqlite").write_text("what a judge of that run said")
    assert main(["runs", "list", str(tmp_path), "--json"]) == 0
    out, err = capsys.readouterr()
    runs = json.loads(out)["runs"]
    assert [Path(r["run"]).name for r in runs] == ["coda.sqlite", "plain", "train"]
    assert (runs[0]["episodes"], runs[0]["interrupted"], runs[0]["systems"]) == (3, 1, ["coda"])
    assert "other.sqlite" in err
    assert "judge" not in err
    assert main(["runs", "list", str(tmp_path)]) == 0
    assert "3 episodes and 1 interrupted  coda" in capsys.readouterr().out
    assert main(["runs", "info", str(run_file)]) == 0
    out = capsys.readouterr().out
    assert "made-up, coda: 3 answered" in out
    assert "k = 3" in out


def test_export_import_verify(run_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines, copy = tmp_path / "coda.jsonl", tmp_path / "copy.sqlite"
    assert main(["runs", "export", str(run_file), "--out", str(lines)]) == 0
    assert main(["runs", "import", str(lines), "--out", str(copy)]) == 0
    capsys.readouterr()
    assert main(["runs", "export", str(copy)]) == 0
    assert capsys.readouterr().out == lines.read_text(encoding="utf-8")
    assert main(["runs", "verify", str(copy), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sound"] is True
    assert main(["runs", "export", str(run_file), "--out", str(lines)]) == 2
    assert "already exists" in capsys.readouterr().err


def test_a_damaged_run(run_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with run_file.open("r+b") as file:
        file.write(bytes(100))
    assert main(["runs", "verify", str(run_file)]) == 1
    assert "damaged" in capsys.readouterr().out
    assert main(["runs", "info", str(run_file)]) == 2
    assert "--salvage NEW" in capsys.readouterr().err
    saved = tmp_path / "saved.sqlite"
    assert main(["runs", "verify", str(run_file), "--salvage", str(saved)]) == 0
    assert "saved 3 episodes" in capsys.readouterr().out
    assert main(["runs", "verify", str(tmp_path / "none")]) == 2
    assert "there is no run" in capsys.readouterr().err


def test_verify_says_that_more_may_be_saved_than_was_read(
    run_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(run_file)) as db, db:
        db.execute("UPDATE episode SET body = x'00' WHERE number = 1")
    assert main(["runs", "verify", str(run_file)]) == 1
    told = capsys.readouterr().out
    assert "0 episodes read in full" in told
    assert "--salvage SAVED may save more episodes than these" in told
    assert main(["runs", "verify", str(run_file), "--salvage", str(tmp_path / "saved.sqlite")]) == 0
    assert "saved 2 episodes" in capsys.readouterr().out


def test_a_damaged_run_leaves_no_half_export(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a half export holds would be imported as if it were all."""
    path, lines = tmp_path / "run.sqlite", tmp_path / "run.jsonl"
    with RunStore.create(path) as run:
        run.add_episode(episode("e1"), scores={"em": 1.0}).wait()
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE score SET value = 'x'")
    assert main(["runs", "export", str(path), "--out", str(lines)]) == 2
    assert "is damaged" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir() if "jsonl" in p.name] == []
    assert main(["runs", "export", str(path), "--out", str(tmp_path / "none" / "x")]) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_an_export_that_another_tool_has_rewritten_is_read(tmp_path: Path) -> None:
    """jq writes 1700000000.0 as 1700000000."""
    with RunStore.create(tmp_path / "run.sqlite") as run:
        run.add_episode(episode("e1")).wait()
    lines = tmp_path / "run.jsonl"
    assert main(["runs", "export", str(tmp_path / "run.sqlite"), "--out", str(lines)]) == 0
    rows = [json.loads(line) for line in lines.read_text().splitlines()]
    for row in rows:
        if row["type"] == "episode":
            row["added"] = int(row["added"])
    lines.write_text("\n".join(map(json.dumps, rows)))
    assert main(["runs", "import", str(lines), "--out", str(tmp_path / "copy.sqlite")]) == 0
    with RunStore.open(tmp_path / "copy.sqlite") as copy:
        assert [s.id for s in copy.summaries()] == ["e1"]
