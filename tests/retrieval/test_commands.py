"""`subquest index` and `subquest search` as a stranger types them: clear words and status 2, whatever is typed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from subquest.cli import main
from subquest.errors import UsageError
from subquest.record import Document
from subquest.retrieval import Index


@pytest.fixture
def index(tmp_path: Path) -> Path:
    path = tmp_path / "docs.sq"
    documents = [
        Document("1", "Kelm", "Kelm 東京 😀.", {"year": "2023", "version": "1.10"}),
        Document("2", "Ostel", "Kelm and Ostel.", {"year": 2023, "version": "1.1"}),
    ]
    Index.build(path, documents).close()
    return path


def told(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = main([str(argument) for argument in arguments])
    out, error = capsys.readouterr()
    return status, out, error


@pytest.mark.parametrize(
    ("source", "words"),
    [("", "no name"), ("loop", "Too many levels"), ("x" * 300, "too long"), ("no*.txt", "matches the pattern")],
)
def test_sources_that_cannot_be_read_are_wrong_usage_and_leave_no_index(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, source: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    os.symlink("loop", "loop")
    status, _, error = told(capsys, "index", "build", source, "--out", "new.sq")
    assert (status, words in error) == (2, True)
    assert not Path("new.sq").exists()


def test_the_index_to_add_to_stands_first_or_after_out(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.txt", "b.txt", "c.txt"):
        (index.parent / name).write_text(f"Words of {name}.")
    first, second, third = (index.parent / name for name in ("a.txt", "b.txt", "c.txt"))
    assert told(capsys, "index", "add", index, first)[0] == 0
    assert told(capsys, "index", "add", second, third, "--out", index)[0] == 0
    with Index.open(index) as opened:
        assert len(opened) == 5
    status, _, error = told(capsys, "index", "add", index)
    assert (status, "name what to add" in error) == (2, True)


@pytest.mark.parametrize("place", ["", "x" * 300, "file.txt/docs.sq"])
def test_places_where_no_index_can_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file.txt").write_text("Kelm.")
    assert told(capsys, "index", "build", "file.txt", "--out", place)[0] == 2
    assert told(capsys, "search", "Kelm", "--index", place)[0] == 2


def test_an_export_to_nowhere_is_wrong_usage(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for place, words in ((index.parent / "no" / "x.jsonl", "no folder"), (index.parent, "is a folder")):
        status, _, error = told(capsys, "index", "export", index, "--out", place)
        assert (status, words in error) == (2, True)


@pytest.mark.parametrize("name", ["e.csv", "e.json", "e.jsonl.zip", "e.gz", "e", "jsonl"])
def test_exports_have_names_that_imports_accept(index: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    status, _, error = told(capsys, "index", "export", index, "--out", index.parent / name)
    assert (status, "an exported index is a .jsonl or .jsonl.gz file" in error) == (2, True)
    assert not (index.parent / name).exists()


@pytest.mark.parametrize("name", ["e.jsonl", "e.JSONL", "e.jsonl.gz", "e.jsonl.GZ"])
def test_what_is_exported_can_be_imported(index: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    made = index.parent / name
    assert told(capsys, "index", "export", index, "--out", made)[0] == 0
    assert made.read_bytes().startswith(b"\x1f\x8b") == name.lower().endswith(".gz")
    assert told(capsys, "index", "import", made, "--out", index.parent / "back.sq")[0] == 0


@pytest.mark.parametrize(
    ("where", "found"),
    [("year=2023", {"1", "2"}), ("version=1.10", {"1"}), ("version=1.1", {"2"}), ("year=" + "9" * 30, set())],
)
def test_filters_take_numbers_that_a_table_holds_as_text(
    index: Path, capsys: pytest.CaptureFixture[str], where: str, found: set[str]
) -> None:
    status, out, _ = told(capsys, "search", "Kelm", "--index", index, "--where", where, "--json")
    assert (status, {hit["id"] for hit in json.loads(out)["hits"]}) == (0, found)


def test_queries_that_are_no_text_are_named(tmp_path: Path, index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "q.jsonl"
    file.write_bytes(b'\xef\xbb\xbf{"id": "\\ud800", "query": "Kelm \xff \\ud800"}\n')
    status, out, _ = told(capsys, "search", "--queries", file, "--index", index)
    assert (status, json.loads(out)["id"], len(json.loads(out)["hits"])) == (0, "\ud800", 2)
    file.write_text('{"id": 1, "query": null}\n')
    status, _, error = told(capsys, "search", "--queries", file, "--index", index)
    assert (status, "line 1: the query must be a text" in error) == (2, True)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_that_lacks_signs_gets_them_written_out(index: Path, encoding: str) -> None:
    def said(*arguments: str) -> bytes:
        command = [sys.executable, "-c", "from subquest.cli import main; raise SystemExit(main())", *arguments]
        environment = {**os.environ, "PYTHONIOENCODING": encoding}
        return subprocess.run(command, env=environment, capture_output=True, check=True, timeout=600).stdout

    assert rb"\u6771\u4eac" in said("search", "Kelm", "--index", str(index))
    hits = json.loads(said("search", "Kelm", "--index", str(index), "--json"))["hits"]
    assert "Kelm 東京 😀." in {hit["text"] for hit in hits}
    assert "東京".encode() in said("index", "export", str(index))


def test_what_is_found_is_printed_as_it_stands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "東京は首都です。大阪は商業の町です。"
    Index.build(tmp_path / "j.sq", [Document("1", "", text), Document("2", "", "abc " * 500 + "Kelm" * 100)]).close()
    assert text in told(capsys, "search", "大阪", "--index", tmp_path / "j.sq")[1].split("\n")


def test_rows_of_a_table_are_printed_a_line_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "boats.csv").write_text("Boat,Mooring,Seats\nHeron,Saltby,4\nMoorhen,Marsden,18\nDipper,Fenwick,6\n")
    assert told(capsys, "index", "build", tmp_path / "boats.csv", "--out", tmp_path / "b.sq")[0] == 0
    rows = [f"Boat: {b}; Mooring: {m}; Seats: {s}" for b, m, s in (("Heron", "Saltby", 4), ("Dipper", "Fenwick", 6))]
    lines = told(capsys, "search", "Moorhen", "--index", tmp_path / "b.sq")[1].splitlines()
    assert lines[1:] == [rows[0], "Boat: Moorhen; Mooring: Marsden; Seats: 18", rows[1]]
    monkeypatch.setenv("COLUMNS", "40")
    lines = told(capsys, "search", "Moorhen", "--index", tmp_path / "b.sq")[1].splitlines()
    assert [line for line in lines[1:] if not line.startswith("Boat: ")] == ["  18", "  6"], "the rest of long rows"


def test_an_empty_query_is_wrong_and_a_hint_can_be_pasted(
    index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, error = told(capsys, "search", " ", "--index", index)
    assert (status, "the query is empty" in error) == (2, True)
    hint = r"index embed '.*my docs\.sq'"
    with Index.build(tmp_path / "my docs.sq", []) as named, pytest.raises(UsageError, match=hint):
        named.search("Kelm", 1, mode="dense")


def test_search_takes_its_settings_from_the_file(
    index: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(index.parent)
    status, _, error = told(capsys, "search", "Kelm")
    assert (status, "there is nothing to search: give --index" in error) == (2, True)
    Path("subquest.toml").write_text(f'index = "{index.name}"\n[search]\nmode = "dense"\n')
    status, _, error = told(capsys, "search", "Kelm")
    assert (status, "has no vectors" in error) == (2, True)
    status, out, _ = told(capsys, "search", "Kelm", "--mode", "bm25", "--json")
    assert status == 0
    assert json.loads(out)["hits"]


@pytest.mark.parametrize("action", ["verify", "compact"])
def test_only_folders_are_verified_and_compacted(capsys: pytest.CaptureFixture[str], action: str) -> None:
    status, out, error = told(capsys, "index", action, "postgres://user:secret@host/library")
    assert (status, out, "index in a folder" in error, "secret" in error) == (2, "", True, False)
