"""`subquest data`: listing, converting, and fetching from a hub that is there, refuses or is away."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from subquest.cli import main
from subquest.data import REGISTRY, read_questions
from subquest.download import http as transfers

from ..file_site import FileSite

ROWS = b'{"id": "t1", "question": "Who?", "golden_answers": ["A"]}\n'


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileSite]:
    site = FileSite()
    monkeypatch.setenv("HF_ENDPOINT", site.url)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("SUBQUEST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setattr(transfers, "PAUSE", 0.001)
    yield site
    site.close()


def published(site: FileSite, name: str, content: bytes) -> None:
    entry = REGISTRY[name]
    site.files[f"/datasets/{entry.hub}/resolve/{entry.revision}/{entry.files[0].path}"] = content


def test_get(tmp_path: Path, hub: FileSite, capsys: pytest.CaptureFixture[str]) -> None:
    published(hub, "popqa", ROWS)
    assert main(["data", "get", "popqa"]) == 0
    told = capsys.readouterr()
    path = Path(told.out.strip())
    assert path == tmp_path / "cache" / "data" / "popqa_test.jsonl"
    assert [q.answers for q in read_questions(path)] == [("A",)]
    assert "downloading popqa_test.jsonl from http://127.0.0.1" in told.err
    assert "recorded on first use" in told.err
    hub.status["/datasets/gaia-benchmark/GAIA/resolve/main/2023/validation/metadata.jsonl"] = 401
    assert main(["data", "get", "gaia"]) == 1
    assert "accept them at https://huggingface.co/datasets/gaia-benchmark/GAIA" in capsys.readouterr().err


def test_another_content_than_was_published_is_refused(
    tmp_path: Path, hub: FileSite, capsys: pytest.CaptureFixture[str]
) -> None:
    published(hub, "bamboogle", ROWS)
    assert main(["data", "get", "bamboogle"]) == 1
    assert "and not c9703dae6bb1" in capsys.readouterr().err
    assert list((tmp_path / "cache" / "data").iterdir()) == []


def test_get_without_a_network(
    hub: FileSite, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert main(["data", "get", "nq:test"]) == 1
    told = capsys.readouterr().err
    assert "nq could not be fetched (nq/test.jsonl of" in told
    assert "subquest data get nq:test --file FILE" in told
    assert "SUBQUEST_DATA" in told


@pytest.mark.parametrize(
    ("name", "message"),
    [("hotpot", "did you mean 'hotpotqa'"), ("fanoutqa", "no known address"), ("nq:dev", "there are test, train")],
)
def test_get_what_there_is_not(name: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "get", name]) == 2
    assert message in capsys.readouterr().err


def test_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SUBQUEST_DATA", str(tmp_path))
    monkeypatch.setenv("SUBQUEST_CACHE", str(tmp_path / "none"))
    (tmp_path / "hotpotqa_dev.jsonl").write_bytes(ROWS)
    assert main(["data", "list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows["hotpotqa"]["at_hand"] == {"dev": str(tmp_path / "hotpotqa_dev.jsonl")}
    assert rows["gaia"]["gated"]
    assert rows["popqa"]["at_hand"] == {}
    assert main(["data", "list"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("hotpotqa"))
    assert line.split()[-1] == "dev"


def test_convert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.jsonl").write_bytes(ROWS + b"{oops\n")
    assert main(["data", "convert", "in.jsonl", "out.jsonl", "--to", "verl"]) == 2
    assert "in.jsonl:2: not JSON" in capsys.readouterr().err
    assert main(["data", "convert", "in.jsonl", "out.jsonl", "--to", "verl", "--skip-bad"]) == 0
    assert "1 question written to out.jsonl, 1 row skipped" in capsys.readouterr().err
    assert read_questions("out.jsonl")[0].id == "t1"


@pytest.mark.parametrize("size", ["0", "-1"])
def test_a_sample_of_nothing(size: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text('{"id": "q", "question": "Where?", "answers": ["Kestel"]}\n')
    assert main(["data", "convert", str(source), str(tmp_path / "out.jsonl"), "--sample", size]) == 2
    assert "--sample must be at least 1" in capsys.readouterr().err
    assert not (tmp_path / "out.jsonl").exists()
