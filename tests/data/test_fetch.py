"""Question sets and corpora fetched by name from a hub on loopback: resumed, checked, recorded on first use."""

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from subquest.cli import main
from subquest.data import registry
from subquest.data.fetch import fetch
from subquest.data.registry import Corpus, DataSet, PublishedFile
from subquest.download import http as transfers
from subquest.download import sizes
from subquest.errors import DataError, OutsideError, UsageError

from ..file_site import FileSite

ROWS = b"".join(
    b'{"id": "t%d", "question": "Who is %d?", "golden_answers": ["A%d"]}\n' % (n, n, n) for n in range(9000)
)
DIGEST = hashlib.sha256(ROWS).hexdigest()
COMMIT = "0123456789" * 4
NEW, OLD = "/datasets/lab/tiny/resolve/main/test.jsonl", f"/datasets/lab/tiny/resolve/{COMMIT}/test.jsonl"


def tiny(**changes: str) -> DataSet:
    file = PublishedFile("test", "test.jsonl", **changes)  # type: ignore[arg-type]
    return DataSet("tiny", "Tiny", "none", "lab/tiny", (file,))


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileSite]:
    site = FileSite({NEW: ROWS, OLD: ROWS})
    site.headers[NEW] = site.headers[OLD] = {"X-Repo-Commit": COMMIT, "ETag": '"v1"'}
    monkeypatch.setenv("HF_ENDPOINT", site.url)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(transfers, "PAUSE", 0.001)
    yield site
    site.close()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SUBQUEST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.delenv("SUBQUEST_DATA", raising=False)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    return tmp_path / "cache" / "data"


def held(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_the_first_download_is_recorded_and_the_next_must_be_the_same(site: FileSite, folder: Path) -> None:
    said: list[str] = []
    (path,) = fetch(tiny(), say=said.append)
    assert path == folder / "tiny_test.jsonl"
    assert path.read_bytes() == ROWS
    assert f"recorded on first use: SHA-256 {DIGEST}" in said[-1]
    record = json.loads((folder / ".tiny_test.jsonl.first-use.json").read_bytes())
    assert (record["sha256"], record["commit"]) == (DIGEST, COMMIT)
    fetch(tiny())
    assert [asked for asked, _ in site.asked] == [NEW], "what is here and as recorded is not fetched again"
    path.unlink()
    fetch(tiny())
    assert site.asked[-1][0] == OLD, "the commit of the first download is asked for"
    path.unlink()
    site.files[OLD] = ROWS.replace(b"A7", b"B7")
    with pytest.raises(OutsideError, match=rf"and not {DIGEST}.*recorded on .*subquest data get tiny --renew"):
        fetch(tiny())
    assert held(folder) == [".tiny_test.jsonl.first-use.json"]
    site.files[NEW] = site.files[OLD]
    fetch(tiny(), renew=True)
    assert b"B7" in path.read_bytes()
    fetch(tiny())
    assert site.asked[-1][0] == NEW


def test_a_known_digest_must_be_right_and_needs_no_record(site: FileSite, folder: Path) -> None:
    fetch(tiny(sha256=DIGEST))
    assert held(folder) == ["tiny_test.jsonl"]
    (folder / "tiny_test.jsonl").write_bytes(b"broken")
    said: list[str] = []
    fetch(tiny(sha256=DIGEST), say=said.append)
    assert "is not what was fetched before" in said[0]
    (folder / "tiny_test.jsonl").unlink()
    site.files[NEW] = ROWS.replace(b"A7", b"B7")
    with pytest.raises(OutsideError, match=rf"SHA-256 .* and not {DIGEST}.*subquest data get tiny --file FILE"):
        fetch(tiny(sha256=DIGEST))
    assert held(folder) == []


def test_a_cut_download_is_continued(site: FileSite, folder: Path) -> None:
    site.cut_after[NEW] = [100_000, *[0] * 20]
    with pytest.raises(OutsideError, match=r"cut after .* MB of .*To continue, run: subquest data get tiny"):
        fetch(tiny())
    assert [name.endswith(".part") for name in held(folder)] == [True]
    site.cut_after.clear()
    before = len(site.asked)
    seen: list[tuple[int, int]] = []
    (path,) = fetch(tiny(), progress=lambda done, total: seen.append((done, total)))
    assert int(site.asked[before][1].removeprefix("bytes=").rstrip("-")) >= 90_000
    assert path.read_bytes() == ROWS
    assert seen[-1] == (len(ROWS), len(ROWS))


def test_what_changed_meanwhile_is_not_joined_to_an_old_beginning(site: FileSite, folder: Path) -> None:
    site.cut_after[NEW] = [100_000, *[0] * 20]
    with pytest.raises(OutsideError):
        fetch(tiny())
    site.cut_after.clear()
    site.files[NEW] = ROWS.replace(b"A", b"B")
    site.headers[NEW] = {"ETag": '"v2"'}
    assert fetch(tiny())[0].read_bytes() == site.files[NEW]


def test_redirects_as_the_hub_sends_them(site: FileSite, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large files are elsewhere, at an address that may only be read; the hub names size and digest itself."""
    other = FileSite({"/cdn/1": ROWS})
    site.redirects = {NEW: "/moved", "/moved": f"{other.url.replace('127.0.0.1', 'localhost')}/cdn/1"}
    site.headers["/moved"] = {"X-Linked-Size": str(len(ROWS)), "X-Linked-ETag": f'"{DIGEST}"', "X-Repo-Commit": COMMIT}
    del site.files[NEW]
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert fetch(tiny())[0].read_bytes() == ROWS
    assert {path for path, _ in site.keys} == {NEW, "/moved"}
    assert other.keys == [], "the key is for the hub alone"
    (folder / "tiny_test.jsonl").unlink()
    (folder / ".tiny_test.jsonl.first-use.json").unlink()
    other.files["/cdn/1"] = ROWS.replace(b"A7", b"B7")
    with pytest.raises(OutsideError, match=f"and not {DIGEST}"):
        fetch(tiny())
    other.close()


def test_no_room(site: FileSite, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes.shutil, "disk_usage", lambda folder: type("Usage", (), {"free": 1000}))
    with pytest.raises(UsageError, match=r"no room for tiny.*SUBQUEST_CACHE=FOLDER subquest data get tiny"):
        fetch(tiny())
    assert site.asked == []
    assert held(folder) == []


def test_a_file_that_the_user_has(folder: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine" / "test.jsonl"
    mine.parent.mkdir()
    mine.write_bytes(ROWS)
    assert fetch(tiny(sha256=DIGEST), files=[mine])[0].read_bytes() == ROWS
    assert fetch(tiny(sha256=DIGEST), files=[mine.parent])[0].read_bytes() == ROWS
    (folder / "tiny_test.jsonl").write_bytes(b"older")
    mine.write_bytes(ROWS[:-5])
    with pytest.raises(DataError, match=f"mine/test.jsonl has SHA-256 .* and not {DIGEST}"):
        fetch(tiny(sha256=DIGEST), files=[mine])
    assert (folder / "tiny_test.jsonl").read_bytes() == b"older", "what was here stays"
    with pytest.raises(UsageError, match="no such file"):
        fetch(tiny(), files=[tmp_path / "absent"])
    with pytest.raises(UsageError, match="one split: name it, nq:test or nq:train"):
        fetch(registry.REGISTRY["nq"], files=[mine])


def test_a_file_that_cannot_be_read_is_not_kept(site: FileSite, folder: Path) -> None:
    site.files[NEW] = b"<html>Please log in</html>"
    with pytest.raises(DataError, match=r"main/test\.jsonl:1: not JSON"):
        fetch(tiny())
    assert held(folder) == []


def test_a_mirror_gets_no_key(site: FileSite, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert fetch(tiny(), mirror=site.url)[0].read_bytes() == ROWS
    assert site.keys == []
    with pytest.raises(UsageError, match="begins with https://"):
        fetch(tiny(), mirror="hf-mirror.com")
    elsewhere = DataSet("away", "Away", "none", files=(PublishedFile("test", "https://example.org/a/away.jsonl"),))
    site.files["/away.jsonl"] = ROWS
    assert fetch(elsewhere, mirror=f"{site.url}/")[0].read_bytes() == ROWS


def test_a_corpus_that_is_a_packed_tar_is_fetched_and_indexed(
    site: FileSite, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As wiki-18.jsonl.gz is: a tar archive of one JSONL file, in spite of its name."""
    lines = b"".join(
        json.dumps({"id": str(n), "contents": f'"Town {n}"\nTown {n} lies on the river R{n}.'}).encode() + b"\n"
        for n in range(3000)
    )
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo("data00/somebody/wiki_dump.jsonl")
        member.size = len(lines)
        archive.addfile(member, io.BytesIO(lines))
    content = packed.getvalue()
    site.files["/datasets/lab/towns/resolve/abc/towns.jsonl.gz"] = content
    file = PublishedFile("corpus", "towns.jsonl.gz", len(content), hashlib.sha256(content).hexdigest())
    towns = Corpus("towns", "Towns", "none", "lab/towns", (file,), "abc", passages=3000)
    monkeypatch.setitem(registry.CORPORA, "towns", towns)
    assert main(["data", "get", "towns", "--json"]) == 0
    (got,) = json.loads(capsys.readouterr().out)["files"]
    assert got == {"path": str(folder / "towns_corpus.jsonl.gz"), "bytes": len(content)}
    assert main(["index", "build", got["path"], "--out", str(tmp_path / "towns.sq"), "--strict"]) == 0
    assert "3,000 documents" in capsys.readouterr().out
    assert main(["search", "Which river is Town 2999 on?", "--index", str(tmp_path / "towns.sq"), "-k", "1"]) == 0
    assert "R2999" in capsys.readouterr().out
    assert main(["data", "list"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("towns"))
    assert line.split()[-2:] == ["3,000", "corpus"]
    assert main(["eval", "towns", "--index", str(tmp_path / "towns.sq"), "--out", str(tmp_path / "run")]) == 2
    assert "'towns' is a corpus, not a question set" in capsys.readouterr().err


def test_every_file_of_the_table_is_pinned_or_recorded() -> None:
    for entry in [*registry.REGISTRY.values(), *registry.CORPORA.values()]:
        for file in entry.files:
            assert file.sha256 == "" or len(file.sha256) == 64
            assert bool(entry.hub) != file.path.startswith("https://"), entry.name
            assert file.suffixes
    for corpus in registry.CORPORA.values():
        assert all(file.sha256 and file.size for file in corpus.files), "gigabytes are never taken on trust"
