"""Damage of any kind is found: flipped bits, cut, appended, swapped and missing files, in indexes of every kind.

Whatever happens to a byte, `verify` finds it, or it does not matter: what can be read is what was written, and the
index can still be changed. Nothing that reads an index returns anything else than what was written.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from subquest.cli import main
from subquest.errors import DamagedIndex, DataError, UsageError
from subquest.record import Document
from subquest.retrieval import Index, checked_file
from subquest.retrieval.encoder import EncoderSpec
from subquest.retrieval.ingest import ingest
from subquest.retrieval.settings import Entry, Settings
from subquest.retrieval.verification import verify

from ..open_files import open_below

np = pytest.importorskip("numpy", reason="vectors need the extra `dense`")

FLIPS = int(os.environ.get("FLIPS", "80"))
"""Bits that are flipped in an index of each kind."""
WIDTH = 8
SPEC = EncoderSpec(kind="endpoint", model="m", url="http://127.0.0.1:9")
WORDS = ["harbour", "light", "keeper", "stone", "quay", "tower", "river", "bridge", "ferry", "rope", "north", "tide"]


def document(i: int) -> Document:
    chosen = random.Random(i).choices(WORDS, k=20)
    return Document(
        f"d{i}", f"The {chosen[0]} of {chosen[1]}", " ".join(chosen), {"year": 1900 + i % 7} if i % 2 else {}
    )


def vector(i: int) -> Any:
    row = np.random.default_rng(i).normal(size=WIDTH).astype(np.float32)
    return row / np.linalg.norm(row)


def plain(path: Path) -> None:
    Index.build(path, map(document, range(30))).close()


def changed(path: Path) -> None:
    """Several segments, with documents that were updated and removed."""
    with Index.build(path, map(document, range(20))) as index:
        index.add(map(document, range(20, 30)))
        index.add([Document("d3", "The ferry", "A newer text about the ferry.")])
        index.remove(["d4", "d25"])


def dense(path: Path, first: int = 0) -> None:
    with Index.create(path, Settings(encoder=SPEC, width=WIDTH)) as index:
        index.load(Entry(document(i), vector(i)) for i in range(first, 15))
        index.load(Entry(document(i), vector(i)) for i in range(15, 20))
        index.remove(["d2", "d17"])


def files(path: Path) -> None:
    """Made from files, of which one is read again and one is gone."""
    folder = path.with_suffix(".files")
    folder.mkdir()
    for i in range(4):
        (folder / f"{i}.txt").write_text(document(i).text)
    with Index.build(path, []) as index:
        ingest(index, [folder], jobs=1)
        (folder / "1.txt").write_text(document(11).text)
        (folder / "2.txt").unlink()
        ingest(index, [folder], prune=True, jobs=1)


def killed(path: Path) -> None:
    """The log is still there: its last writer, and readers beside it, were killed."""
    first = path.with_suffix(".first")
    plain(first)
    with Index.open(first) as index, closing(sqlite3.connect(first / "store.db")) as reader:
        reader.execute("SELECT count(*) FROM documents").fetchone()
        index.add([document(40)])
        index.remove(["d7"])
        shutil.copytree(first, path, ignore=shutil.ignore_patterns("*-shm"))
    assert (path / "store.db-wal").stat().st_size > 0


KINDS = [plain, changed, dense, files, killed]


class ByLength:
    """An encoder for queries alone."""

    spec = SPEC

    def encode(self, texts: Sequence[str], *, query: bool) -> Any:
        return np.stack([vector(len(text)) for text in texts])


def read(path: Path) -> Any:
    """All that can be read: documents and vectors, searches by words, by vectors and with a filter."""
    with Index.open(path) as index:
        index._encoder = ByLength()
        entries = [(e.document, None if e.vector is None else e.vector.tolist()) for e in index.entries()]
        found = [index.search(" ".join(WORDS[i : i + 2]), 5, mode=mode) for i in (0, 3) for mode in ("bm25", "auto")]
        found.append(index.search("river tower", 5, mode="bm25", where={"year": [1901, 1903]}))
        return entries, found, index.get("d5"), len(index), index.settings


def outcome(act: Callable[[], Any]) -> Any:
    """What it returns, or the damage that it names."""
    try:
        return act()
    except DamagedIndex as error:
        return error
    except DataError as error:
        if "has index format" in str(error):
            return error
        raise


def check(path: Path, written: Any, what: str) -> bool:
    """Whether the damage was found; fails where anything but what was written can be read."""
    problems = outcome(lambda: verify(path))
    there = outcome(lambda: read(path))
    if isinstance(there, DataError):
        assert problems, f"{what}: {there}, and `verify` finds nothing"
    else:
        assert there == written, f"{what}: something else can be read; `verify` finds {problems}"
    if problems:
        return True
    with Index.open(path) as index:
        index._encoder = ByLength()
        index.add([document(50)])
        index.remove(["d9"])
    assert outcome(lambda: verify(path)) == [], f"{what}: unnoticed until the next change"
    return False


def flips(path: Path, count: int, seed: int) -> Iterator[tuple[Path, int, int]]:
    """Bits of the files of an index: every third beside the store, most of them where something is written."""
    generator = random.Random(seed)
    beside = [file for file in sorted(path.iterdir()) if file.name not in ("store.db", "writer.lock")]
    for i in range(count):
        file = generator.choice(beside) if i % 3 == 0 else path / "store.db"
        content = file.read_bytes()
        used = [place for place, byte in enumerate(content) if byte] if i % 4 else range(len(content))
        yield file, generator.choice(used), generator.randrange(8)


@pytest.mark.parametrize("make", KINDS, ids=lambda kind: kind.__name__)
def test_a_flipped_bit_is_found_or_does_not_matter(make: Callable[[Path], None], tmp_path: Path) -> None:
    sound, copy = tmp_path / "sound.sq", tmp_path / "copy.sq"
    make(sound)
    shutil.copytree(sound, copy)
    written = read(copy)
    found = 0
    for file, place, bit in list(flips(sound, FLIPS, 1)):
        shutil.rmtree(copy)
        shutil.copytree(sound, copy)
        content = bytearray(file.read_bytes())
        content[place] ^= 1 << bit
        (copy / file.name).write_bytes(content)
        found += check(copy, written, f"{file.name}, byte {place}, bit {bit}")
    assert found > FLIPS // 4


@pytest.mark.parametrize("make", [plain, changed, dense, files], ids=lambda kind: kind.__name__)
def test_an_index_that_cannot_be_opened_is_not_kept_open(make: Callable[[Path], None], tmp_path: Path) -> None:
    """Not even while somebody holds the error: the folder can be removed, and a sound copy put in its place."""
    index = tmp_path / "index.sq"
    make(index)
    errors = []
    for file in sorted(index.iterdir()):
        content = file.read_bytes()
        for damaged in (content[: len(content) // 2], content[:100] + bytes(len(content[100:]))):
            file.write_bytes(damaged)
            errors += [outcome(lambda: read(index)), outcome(lambda: verify(index))]
        file.write_bytes(content)
    assert any(isinstance(error, DamagedIndex) for error in errors)
    assert open_below(index / "store.db") == []


def cut(file: Path, other: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def emptied(file: Path, other: Path) -> None:
    file.write_bytes(b"")


def appended(file: Path, other: Path) -> None:
    file.write_bytes(file.read_bytes() + b"more")


def replaced(file: Path, other: Path) -> None:
    file.write_bytes(other.read_bytes())


def missing(file: Path, other: Path) -> None:
    file.unlink()


@pytest.mark.parametrize("damage", [cut, emptied, appended, replaced, missing])
def test_a_file_that_is_not_the_one_that_was_written(damage: Callable[[Path, Path], None], tmp_path: Path) -> None:
    """Each file of an index, on its own; or replaced by the like file of another index."""
    sound, other, copy = tmp_path / "sound.sq", tmp_path / "other.sq", tmp_path / "copy.sq"
    dense(sound)
    dense(other, 1)
    written = read(sound)
    for file in [file for file in sorted(sound.iterdir()) if file.name != "writer.lock"]:
        shutil.copytree(sound, copy)
        damage(copy / file.name, min(other.glob(f"*{file.suffix}")))
        told = []
        for act in (verify, read):
            try:
                told.append(act(copy))
            except UsageError as error:
                told.append(error)
        problems, there = told
        assert file.name in str(problems), problems
        assert there == written if not isinstance(there, UsageError) else file.name in str(there)
        assert isinstance(there, UsageError) or file.name in ("manifest", "store.db")
        shutil.rmtree(copy)


def test_tables_of_files(tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text("product,price\nanchor,1201\nbell,77\n")
    with Index.build(tmp_path / "i", []) as index:
        ingest(index, [tmp_path / "prices.csv"], jobs=1)
    assert verify(tmp_path / "i") == []
    file = tmp_path / "i" / "tables.db"
    assert b"anchor" in file.read_bytes()
    file.write_bytes(file.read_bytes().replace(b"anchor", b"anchos"))
    assert any(problem.startswith("tables.db: its table") for problem in verify(tmp_path / "i"))


def test_two_files_that_are_swapped(tmp_path: Path) -> None:
    changed(tmp_path / "i")
    first, second, *_ = sorted((tmp_path / "i").glob("*.lex"))
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)
    problems = verify(tmp_path / "i")
    assert any(first.name in problem for problem in problems)
    assert any(second.name in problem for problem in problems)
    with pytest.raises(DamagedIndex, match="was changed after it was written"):
        read(tmp_path / "i")


def test_a_log_that_is_lost(tmp_path: Path) -> None:
    killed(tmp_path / "i")
    (tmp_path / "i" / "store.db-wal").unlink()
    assert any("but 3 was written" in problem for problem in verify(tmp_path / "i"))
    with pytest.raises(DamagedIndex, match="but 3 was written"):
        Index.open(tmp_path / "i")


def test_commands_agree_on_what_is_damaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, store = str(tmp_path / "i"), tmp_path / "i" / "store.db"
    Index.build(path, [Document("lamp", "Lamp", "The quick brown lamp."), Document("rope", "Rope", "A rope.")]).close()
    store.write_bytes(store.read_bytes().replace(b"quick brown", b"quick drown"))
    assert main(["index", "verify", path]) == 1
    assert "store.db: 1 document not as written (numbers 1" in capsys.readouterr().out
    for command in (["search", "lamp", "--index", path], ["index", "export", path]):
        assert main(command) == 2
        assert "store.db is damaged (document 'lamp' is not what was written)" in capsys.readouterr().err
    assert main(["search", "rope", "--index", path]) == 0, "a search that does not touch it"


def test_a_large_segment_is_checked_while_searches_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked_file, "CHECKED", 100)
    plain(tmp_path / "i")
    (segment,) = (tmp_path / "i").glob("*.lex")
    content = bytearray(segment.read_bytes())
    content[-20] ^= 1
    segment.write_bytes(content)
    with Index.open(tmp_path / "i") as index:
        index.search("zebra", 1)  # starts the check
        for thread in [thread for thread in threading.enumerate() if thread.name == f"check {segment.name}"]:
            thread.join()
        with pytest.raises(DamagedIndex, match=segment.name):
            index.search("river", 1)


def test_an_index_without_checksums_says_so_and_gets_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "my old.sq")
    shutil.copytree(Path(__file__).with_name("index-0.1.sq"), path)
    before = read(Path(path))
    assert main(["index", "verify", path]) == 0
    out = capsys.readouterr().out
    assert "is sound" in out
    assert "An older version stored" in out
    assert f"Add checksums with: subquest index compact '{path}'" in out
    with Index.open(path) as index:
        old = len(index)
        index.add([Document("new", "New", "A newer document.")])
        index.remove(["new"])
    assert main(["index", "verify", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["unverified"] == old
    assert main(["index", "compact", path]) == 0
    capsys.readouterr()
    assert main(["index", "verify", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["unverified"] == 0
    assert read(Path(path))[0] == before[0]
