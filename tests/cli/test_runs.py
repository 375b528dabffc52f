"""`subquest runs list` looks where `subquest serve` looks, and `subquest report` shows what it writes."""

from pathlib import Path

import pytest

from subquest.cli import main
from subquest.record import Episode, Question
from subquest.runs import RunStore


def stored(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with RunStore.create(path) as store:
        question = Question("1", "Where?", answers=("Kestel",))
        episode = Episode("1", question, "direct", "scripted", answer="Kestel", stop_reason="answered")
        store.add_episode(episode, scores={"em": 1.0, "f1": 1.0})


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_list_is_of_the_folder_that_the_server_shows(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "list"]) == 0
    assert "no runs in runs; name another folder: subquest runs list FOLDER" in capsys.readouterr().err
    stored(here / "one.sqlite")
    assert main(["runs", "list"]) == 0
    assert "no runs in runs; 1 here: subquest runs list ." in capsys.readouterr().err
    stored(here / "runs" / "two.sqlite")
    assert main(["runs", "list"]) == 0
    assert "two" in capsys.readouterr().out
    stored(here / "elsewhere" / "three.sqlite")
    (here / "subquest.toml").write_text('runs = "elsewhere"\n')
    assert main(["runs", "list"]) == 0
    told = capsys.readouterr().out
    assert "three" in told
    assert "two" not in told
    assert main(["runs", "list", "absent"]) == 2


def test_a_report_prints_its_table_and_says_what_it_replaces(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(here / "one.sqlite")
    assert main(["report", "one.sqlite"]) == 0
    first = capsys.readouterr()
    assert "| direct | 1 |" in first.out
    assert "written to report.html" in first.err
    assert main(["report", "one.sqlite"]) == 0
    assert "replaced the older report.html" in capsys.readouterr().err
    (here / "report.html").write_text("my notes")
    assert main(["report", "one.sqlite"]) == 2
    assert "it is a file of another kind" in capsys.readouterr().err
    assert (here / "report.html").read_text() == "my notes"
