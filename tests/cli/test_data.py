"""`subquest data`: listing, converting, and fetching from a hub that is there, refuses or is away."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from subquest.cli import main
from subquest.data import read_questions

ROWS = b'{"id": "t1", "question": "Who?", "golden_answers": ["A"]}\n'


class Hub(BaseHTTPRequestHandler):
    """The two answers of a hub that a download needs."""

    def do_HEAD(self) -> None:
        self._reply(body=False)

    def do_GET(self) -> None:
        self._reply(body=True)

    def _reply(self, *, body: bool) -> None:
        wanted = self.path == "/datasets/RUC-NLPIR/FlashRAG_datasets/resolve/main/bamboogle/test.jsonl"
        self.send_response(200 if wanted else 401)
        if wanted:
            self.send_header("X-Repo-Commit", "0" * 40)
            self.send_header("ETag", f'"{hashlib.sha1(ROWS).hexdigest()}"')
        else:
            self.send_header("X-Error-Code", "GatedRepo")
        self.send_header("Content-Length", str(len(ROWS) if wanted else 0))
        self.end_headers()
        if wanted and body:
            self.wfile.write(ROWS)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def get(tmp_path: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    env = {
        **os.environ,
        "SUBQUEST_CACHE": str(tmp_path / "cache"),
        "HF_HOME": str(tmp_path / "hf"),
        "HF_HUB_DISABLE_XET": "1",
        **env,
    }
    command = [sys.executable, "-m", "subquest", "data", "get", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=600)


def test_get(tmp_path: Path, hub: str) -> None:
    pytest.importorskip("huggingface_hub")
    done = get(tmp_path, "bamboogle", HF_ENDPOINT=hub)
    assert done.returncode == 0, done.stderr
    path = Path(done.stdout.strip())
    assert path == tmp_path / "cache" / "data" / "bamboogle_test.jsonl"
    assert [q.answers for q in read_questions(path)] == [("A",)]
    refused = get(tmp_path, "gaia", HF_ENDPOINT=hub)
    assert refused.returncode == 1
    assert "accept them at https://huggingface.co/datasets/gaia-benchmark/GAIA" in refused.stderr


def test_get_without_a_network(tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    done = get(tmp_path, "nq:test", HF_HUB_OFFLINE="1")
    assert done.returncode == 1
    assert "nq could not be fetched (nq/test.jsonl of" in done.stderr
    assert "SUBQUEST_DATA" in done.stderr


@pytest.mark.parametrize(
    ("name", "message"),
    [("hotpot", "did you mean 'hotpotqa'"), ("squad", "no known file"), ("nq:dev", "there are test, train")],
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
    assert "1 questions written to out.jsonl, 1 rows skipped" in capsys.readouterr().err
    assert read_questions("out.jsonl")[0].id == "t1"


@pytest.mark.parametrize("size", ["0", "-1"])
def test_a_sample_of_nothing(size: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text('{"id": "q", "question": "Where?", "answers": ["Kestel"]}\n')
    assert main(["data", "convert", str(source), str(tmp_path / "out.jsonl"), "--sample", size]) == 2
    assert "--sample must be at least 1" in capsys.readouterr().err
    assert not (tmp_path / "out.jsonl").exists()
