"""What a command writes never replaces a run, its own source or somebody's documents."""

import errno
import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from subquest import Index
from subquest.cli import main
from subquest.runs import RunStore

ASK = ["ask", "Where was the designer born?", "--model", "scripted:script.jsonl", "--index", "docs.sq", "--quiet"]
EVAL = ["eval", "toy.jsonl", "--model", "scripted:script.jsonl", "--index", "docs.sq", "--out", "run.sqlite"]


@pytest.fixture
def toy(place: Path) -> Path:
    """Questions and a run of them."""
    rows = [{"id": "q", "question": "Which city?", "answers": ["Kestel"], "decomposition": []}]
    (place / "toy.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert main(EVAL) == 0
    return place


@pytest.mark.parametrize(
    "command",
    [
        ["report", "run.sqlite", "--out", "run.sqlite"],
        ["report", "run.sqlite", "--json", "--out", "run.sqlite"],
        [*ASK, "--trace", "run.sqlite"],
    ],
)
def test_a_run_is_not_written_over(command: list[str], toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command) == 2
    assert "cannot write run.sqlite: it is a run" in capsys.readouterr().err
    with RunStore.open("run.sqlite") as run:
        assert run.counts()["episodes"] == 1


@pytest.mark.parametrize(
    "command",
    [
        ["data", "convert", "toy.jsonl", "toy.jsonl", "--to", "verl"],
        ["world", "plans", "toy.jsonl", "--out", "./toy.jsonl"],
    ],
)
def test_a_source_is_not_written_over(command: list[str], toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (toy / "toy.jsonl").read_text()
    assert main(command) == 2
    assert "it is the file to read from" in capsys.readouterr().err
    assert (toy / "toy.jsonl").read_text() == before


def test_a_trace_is_not_replaced_by_its_page(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ASK, "--trace", "t.json"]) == 0
    assert main([*ASK, "--trace", "t.json"]) == 0
    assert main(["view", "t.json", "--html", "t.json"]) == 2
    assert "it is the file to read from" in capsys.readouterr().err
    assert main(["view", "t.json", "--html", "nowhere/t.html"]) == 2
    assert "there is no folder nowhere" in capsys.readouterr().err
    assert main(["view", "t.json", "--html", "t.html"]) == 0
    assert json.loads((place / "t.json").read_text())["answer"] == "Kestel"


def test_an_answer_is_printed_where_its_trace_cannot_be_written(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, text: str, **options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    assert main([*ASK, "--trace", "t.json"]) == 1
    out, err = capsys.readouterr()
    assert out.startswith("Kestel")
    assert "cannot write t.json: No space left" in err


def special_files(folder: Path) -> dict[str, str]:
    """Names of things that are no files, and what a command says of them."""
    os.mkfifo(folder / "pipe")
    (folder / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    (folder / "link").symlink_to("pipe")
    (folder / "circle").symlink_to("circle")
    found = {"pipe": "a pipe", "folder": "a folder", "socket": "a socket", "link": "a pipe", "circle": "symbolic links"}
    try:
        os.mknod(folder / "device", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except OSError:  # only root may make one, and not in every container
        return found
    return {**found, "device": "a device"}


WRITERS = (
    [*ASK, "--trace"],
    ["report", "run.sqlite", "--out"],
    ["report", "run.sqlite", "--json", "--out"],
    ["index", "export", "docs.sq", "--out"],
    ["data", "convert", "toy.jsonl"],
    ["world", "plans", "toy.jsonl", "--out"],
)


def test_only_files_are_written(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, reason in special_files(toy).items():
        before = (toy / name).lstat()
        for command in WRITERS:
            assert main([*command, name]) == 2, (command, name)
            assert reason in capsys.readouterr().err, (command, name)
        after = (toy / name).lstat()
        assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)


@pytest.mark.parametrize("out", ["pipe", "device", "socket"])
@pytest.mark.parametrize(
    "command",
    [EVAL[:-1], ["index", "build", "toy.jsonl", "--out"], ["world", "make", "--out"], ["demo", "--out"]],
    ids=lambda command: command[0],
)
def test_runs_indexes_and_worlds_are_not_made_of_what_is_no_folder(command: list[str], out: str, toy: Path) -> None:
    if out not in special_files(toy):
        pytest.skip("no device can be made here")
    before = (toy / out).lstat()
    assert main([*command, out]) in (1, 2)
    after = (toy / out).lstat()
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)


def test_a_file_of_another_kind_is_not_replaced(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command, name in zip(WRITERS, ("a.json", "a.html", "b.json", "a.jsonl", "b.jsonl", "c.jsonl"), strict=True):
        mine = toy / name
        mine.write_text("My notes, kept for years.")
        assert main([*command, name]) == 2, command
        assert "it is a file of another kind" in capsys.readouterr().err
        assert mine.read_text() == "My notes, kept for years."
        mine.write_text("")
        assert main([*command, name]) == 0, command
        assert main([*command, name]) == 0, command


def test_a_link_is_followed_and_stays(toy: Path) -> None:
    (toy / "pages").mkdir()
    (toy / "latest.html").symlink_to("pages/today.html")
    for _ in range(2):
        assert main(["report", "run.sqlite", "--out", "latest.html"]) == 0
        assert (toy / "latest.html").is_symlink()
        assert (toy / "pages" / "today.html").read_text().lower().startswith("<!doctype html")


@pytest.mark.parametrize("command", [["demo", "--out", "."], ["world", "make", "--out", "."]])
def test_documents_of_others_are_left_alone(
    command: list[str], place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "corpus.jsonl").write_text('{"id": "mine", "text": "Mine."}\n')
    assert main(command) == 2
    assert "corpus.jsonl exists and does not belong" in capsys.readouterr().err
    assert "mine" in (place / "corpus.jsonl").read_text()
    with Index.open(place / "docs.sq") as index:
        assert len(index) > 1


def test_a_demo_leaves_a_world_alone(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["world", "make", "--articles", "160", "--questions", "4", "--out", "w"]) == 0
    before = (place / "w" / "corpus.jsonl").read_bytes()
    assert main(["demo", "--out", "w"]) == 2
    assert "does not belong to a demo" in capsys.readouterr().err
    assert (place / "w" / "corpus.jsonl").read_bytes() == before
    assert main(["world", "make", "--seed", "9", "--articles", "160", "--questions", "4", "--out", "w"]) == 0


READ_ONLY = """
import ctypes, os, sys

ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)
os.execv(sys.executable, [sys.executable, "-m", "subquest", *sys.argv[1:]])
"""
"""Takes CAP_DAC_OVERRIDE out of the bounding set first, so that root may write no more than others."""


@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        ([*ASK, "--trace", "shut/t.json"], 2, "cannot write shut/t.json: no permission to write into shut"),
        ([*EVAL[:-1], "shut/run.sqlite"], 2, "cannot create the run shut/run.sqlite: no permission to write into shut"),
        (["report", "run.sqlite", "--out", "shut/r.html"], 2, "no permission to write into shut"),
        (["demo", "--out", "shut/demo"], 2, "cannot write shut/demo: no permission to write into shut"),
    ],
)
def test_a_folder_that_may_not_be_written(command: list[str], status: int, message: str, toy: Path) -> None:
    shut = toy / "shut"
    shut.mkdir()
    shut.chmod(0o555)
    done = subprocess.run([sys.executable, "-c", READ_ONLY, *command], capture_output=True, text=True)
    assert (done.returncode, message in done.stderr) == (status, True), done.stderr
    assert "Kestel" not in done.stdout
    assert not list(shut.iterdir())
