"""`subquest serve` and `subquest view` as processes: started, asked, told to stop, killed, started again."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from subquest import Index
from subquest.cli import main
from subquest.record import Episode, Question

from ..cli.conftest import SCRIPT
from ..systems.fakes import DOCUMENTS
from .conftest import QUESTION
from .test_episode_handlers import until

SLOW = """
import asyncio
from subquest.runtime.system import System
from subquest.runtime.run import Answer

class Slow(System):
    name = "slow"
    roles = ("agent",)

    async def answer(self, run):
        await asyncio.sleep(60)
        return Answer("never")
"""
SERVE = ["serve", "--port", "0", "--model", "scripted:script.jsonl", "--index", "docs.sq"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUBQUEST_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SUBQUEST_TOKEN", raising=False)
    Index.build(tmp_path / "docs.sq", DOCUMENTS).close()
    lines = [json.dumps({"role": role, "reply": reply}) for role, reply in SCRIPT]
    (tmp_path / "script.jsonl").write_text("\n".join(lines))
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "prompts").mkdir()
    return tmp_path


@contextmanager
def process(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    found = subprocess.Popen([sys.executable, "-m", "subquest", *arguments], stderr=subprocess.PIPE, text=True)
    try:
        assert found.stderr is not None
        line = found.stderr.readline()
        address = re.search(r"http://\S+", line)
        assert address, line + found.stderr.read()
        yield found, address.group()
    finally:
        found.kill()
        found.wait()
        assert found.stderr is not None
        found.stderr.close()


def test_ask_and_stop(place: Path) -> None:
    with process(*SERVE) as (server, url):
        assert httpx2.get(f"{url}/health", timeout=120).json()["status"] == "ok"
        about = httpx2.get(f"{url}/api/about", timeout=120).json()
        assert (about["systems"][0], about["indexes"]) == ("coda", ["docs"])
        message = {"model": "subquest-coda", "messages": [{"role": "user", "content": QUESTION}]}
        reply = httpx2.post(f"{url}/v1/chat/completions", json=message, timeout=120).json()
        assert reply["choices"][0]["message"]["content"] == "Kestel"
        server.send_signal(signal.SIGTERM)
        assert server.wait(120) == 0
    assert (place / "runs" / "asked.sqlite").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_what_a_stop_or_a_kill_cut_off_is_there_afterwards(place: Path, how: signal.Signals) -> None:
    slow = [*SERVE, "--system", "slow.py:Slow", "--grace", "0.2"]
    with process(*slow) as (server, url):
        identifier = httpx2.post(f"{url}/api/ask", json={"question": QUESTION}, timeout=120).json()["id"]
        with httpx2.stream("GET", f"{url}/api/episodes/{identifier}/events", timeout=120) as stream:
            next(stream.iter_lines())
        until(lambda: _stored(place))
        server.send_signal(how)
        server.wait(120)
    with process(*SERVE) as (_, url):
        found = httpx2.get(f"{url}/api/episodes/{identifier}", timeout=120).json()
        assert (found["status"], found["question"]["question"]) == ("interrupted", QUESTION)
        again = httpx2.post(f"{url}/api/episodes/{identifier}/again", timeout=120).json()["id"]
        httpx2.get(f"{url}/api/episodes/{again}/events", timeout=120)
        assert httpx2.get(f"{url}/api/episodes/{again}", timeout=120).json()["answer"] == "Kestel"


def test_a_second_signal_stops_at_once_and_nothing_is_lost(place: Path) -> None:
    with process(*SERVE, "--system", "slow.py:Slow", "--grace", "600") as (server, url):
        identifier = httpx2.post(f"{url}/api/ask", json={"question": QUESTION}, timeout=120).json()["id"]
        with httpx2.stream("GET", f"{url}/api/episodes/{identifier}/events", timeout=120) as stream:
            next(stream.iter_lines())
        until(lambda: _stored(place))
        server.send_signal(signal.SIGINT)
        assert server.stderr is not None
        said = next(line for line in server.stderr if line.startswith("stopping"))
        assert said.startswith("stopping: 1 answer being written may take 600 s more; Ctrl-C again stops at once")
        server.send_signal(signal.SIGINT)
        assert server.wait(120) == 0
    with process(*SERVE) as (_, url):
        assert httpx2.get(f"{url}/api/episodes/{identifier}", timeout=120).json()["status"] == "interrupted"


def _stored(place: Path) -> bool:
    from subquest.runs import RunStore

    with RunStore.open(place / "runs" / "asked.sqlite") as store:
        return bool(store.interrupted())


def test_view_shows_a_trace_and_takes_no_questions(place: Path) -> None:
    assert main(["ask", QUESTION, *SERVE[3:], "--quiet", "--trace", "t.json"]) == 0
    with process("view", "t.json", "--no-open") as (_, url):
        base, _, target = url.partition("/#/runs/")
        run, _, identifier = target.partition("/")
        found = httpx2.get(f"{base}/api/runs/{run}/episodes/{identifier}", timeout=120).json()
        assert found["answer"] == "Kestel"
        assert httpx2.get(f"{base}/api/about", timeout=120).json()["asks"] is False
        assert httpx2.post(f"{base}/api/ask", json={"question": "q"}, timeout=120).status_code == 403
        assert httpx2.get(f"{base}/api/episodes", timeout=120).status_code == 200
    assert main(["view", "t.json", "--html", "t.html"]) == 0
    assert "Kestel" in (place / "t.html").read_text()


@pytest.mark.parametrize("run", ["first", "first.sqlite", "kept/run.sqlite"])
def test_view_shows_the_run_of_an_evaluation_whatever_its_name(place: Path, run: str) -> None:
    (place / "runs" / run).parent.mkdir(parents=True)
    (place / "toy.jsonl").write_text(json.dumps({"id": "q", "question": QUESTION, "answers": ["Kestel"]}))
    assert main(["eval", "toy.jsonl", *SERVE[3:], "--out", f"runs/{run}"]) == 0
    name = run.partition("/")[0].removesuffix(".sqlite")
    for shown, end in ((f"runs/{run}", f"/#/runs/{name}"), ("runs", "/#/runs")):
        if "/" not in run or shown == "runs":
            with process("view", shown, "--no-open") as (_, url):
                base = url.partition("/#")[0]
                assert url == base + end
                (found,) = httpx2.get(f"{base}/api/runs", timeout=120).json()["runs"]
                assert (found["name"], found["episodes"]) == (name, 1)
                assert httpx2.get(f"{base}/api/runs/{name}", timeout=120).json()["table"]["toy"]["coda"]["em"] == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*SERVE, "--host", "0.0.0.0"], "give a token"),
        ([*SERVE, "--token-file", "nowhere"], "nowhere"),
        ([*SERVE, "--queued", "0"], "1 or more"),
        (["serve", "--port", "99999", *SERVE[3:]], "ports are numbers from 0 to 65535"),
        (["mcp", "--http", "-1", *SERVE[3:]], "--http -1: a port is a number"),
        ([*SERVE, "--also-index", "x"], "NAME=VALUE"),
        ([*SERVE, "--also-index", "a/b=docs.sq"], "must not contain a slash"),
        ([*SERVE, "--also-index", "docs=docs.sq"], "the name 'docs' is taken"),
        ([*SERVE, "--also-index", "x=docs.sq", "--also-index", "x=docs.sq"], "the name 'x' is taken"),
        ([*SERVE, "--also-model", "default=scripted:script.jsonl"], "the name 'default' is taken"),
        ([*SERVE, "--allow-host", "wiki.intern:8420"], "without a scheme, a path or a port"),
        ([*SERVE, "--allow-host", "http://wiki.intern"], "without a scheme, a path or a port"),
        ([*SERVE, "--token-file", "empty"], "empty: it is empty"),
        ([*SERVE, "--token-file", "binary"], "binary:1: not UTF-8 text"),
        ([*SERVE, "--token-file", "lines"], "no spaces"),
        (["view", "nowhere.json"], "no nowhere.json"),
        (["view", "script.jsonl", "--html", "x.html"], "--html writes one trace"),
    ],
)
def test_wrong_usage(place: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    for name, content in {"empty": b"\n", "binary": b"\xff\xfe" * 20, "lines": b"twelve letters\nand more"}.items():
        (place / name).write_bytes(content)
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_a_file_is_no_folder_of_runs(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SERVE, "--runs", "script.jsonl"]) == 2
    assert "--runs script.jsonl: it is a file; name a folder" in capsys.readouterr().err


def test_a_trace_as_a_file_says_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.json"
    trace.write_text(Episode("one", Question("q", "Which?"), "coda", "m").to_json())
    assert main(["view", str(trace), "--html", str(tmp_path / "trace.html")]) == 0
    monkeypatch.setitem(sys.modules, "subquest.serve.episode_view", None)
    assert main(["view", str(trace), "--html", str(tmp_path / "other.html")]) == 2
    assert "subquest[serve]" in capsys.readouterr().err
