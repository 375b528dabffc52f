"""Files that belong to questions: GAIA's beside the question file, pictures inside the rows of Humanity's Last Exam."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from subquest.data import read_questions
from subquest.data.fetch import fetch
from subquest.data.registry import REGISTRY
from subquest.errors import DataError, OutsideError, UsageError

from ..file_site import FileSite

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(9000)
"""Longer, as text, than any file name may be."""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SUBQUEST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileSite]:
    site = FileSite()
    monkeypatch.setenv("HF_ENDPOINT", site.url)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield site
    site.close()


def gaia(folder: Path, *names: str) -> Path:
    path = folder / "metadata.jsonl"
    rows = ({"task_id": n, "Question": "Sum?", "Final answer": "6", "Level": 1, "file_name": n} for n in names)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def picture(url: str) -> dict[str, str]:
    return {"id": "h", "question": "What is it?", "answer": "a cat", "answer_type": "exactMatch", "category": "Other",
            "image": url}  # fmt: skip


def test_files_are_found_beside_the_question_file_or_in_its_folder(tmp_path: Path) -> None:
    path = gaia(tmp_path, "a.csv", "b.csv", "gone.csv")
    (tmp_path / "a.csv").write_text("1")
    (tmp_path / "metadata_files").mkdir()
    (tmp_path / "metadata_files" / "b.csv").write_text("2")
    files = [question.files for question in read_questions(path)]
    assert files == [(str(tmp_path / "a.csv"),), (str(tmp_path / "metadata_files" / "b.csv"),), ("gone.csv",)]


def test_a_picture_inside_a_row_becomes_a_file(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "hle.jsonl"
    path.write_text(json.dumps(picture("data:image/png;base64," + base64.b64encode(PICTURE).decode())))
    for _ in range(2):
        (question,) = read_questions(path)
        (place,) = map(Path, question.files)
        assert place.suffix == ".png"
        assert place.read_bytes() == PICTURE
    assert list((cache / "attached").iterdir()) == [place]


@pytest.mark.parametrize("url", ["data:image/png;base64,@@@", "data:image/png,abc", "data:", "x" * 5000])
def test_what_cannot_be_a_file_is_named_with_its_line(tmp_path: Path, url: str) -> None:
    path = tmp_path / "hle.jsonl"
    path.write_text(json.dumps(picture(url)))
    with pytest.raises(DataError, match=r"hle.jsonl:1: ") as error:
        read_questions(path)
    assert len(str(error.value)) < 300


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path, cache: Path) -> None:
    cache.write_text("a file where the folder should be")
    path = tmp_path / "hle.jsonl"
    path.write_text(json.dumps(picture("data:image/png;base64,AAAA")))
    with pytest.raises(UsageError, match="SUBQUEST_CACHE"):
        read_questions(path)


def as_parquet(path: Path) -> None:
    """The same rows as parquet, in place of the file."""
    parquet, table = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow").Table
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    annotated = [{**row, "Annotator Metadata": {"Tools": "1. Excel"}} for row in rows]
    parquet.write_table(table.from_pylist(annotated), path.with_suffix(".parquet"))
    path.unlink()


def test_a_set_that_is_not_there_under_any_name_is_told(site: FileSite) -> None:
    with pytest.raises(OutsideError, match=r"metadata\.jsonl answered with status 404.*accept them"):
        fetch(REGISTRY["gaia"])


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_files_come_along_when_a_set_is_fetched(kind: str, tmp_path: Path, cache: Path, site: FileSite) -> None:
    """GAIA's repository has had its questions as JSON lines and as parquet."""
    upstream = tmp_path / "hub"
    upstream.mkdir(parents=True)
    rows = gaia(upstream, "a.csv", "../out.csv")
    (upstream / "a.csv").write_text("1")
    if kind == "parquet":
        as_parquet(rows)
    for path in upstream.iterdir():
        for revision in ("main", "abc"):
            address = f"/datasets/gaia-benchmark/GAIA/resolve/{revision}/2023/validation/{path.name}"
            site.files[address] = path.read_bytes()
            site.headers[address] = {"X-Repo-Commit": "abc"}
    found = fetch(REGISTRY["gaia"])
    assert [path.name for path in found] == [f"gaia_validation.{kind}", "a.csv"]
    assert "/resolve/abc/" in site.asked[-1][0], "of the same revision"
    first, second = read_questions(found[0])
    assert Path(first.files[0]).read_text() == "1"
    assert Path(first.files[0]).is_relative_to(cache)
    assert second.files == ("../out.csv",)
