"""202 means stored: kills right after the reply, and a disk that is full."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from subquest.runs import RunStore
from subquest.serve import jobs
from subquest.serve.settings import Settings

from ..runs.test_prune import asked
from .conftest import QUESTION, Gate, Running, Start
from .test_episode_handlers import ask, until
from .test_serve_command import SERVE, place, process

__all__ = ["place"]
KILLS = 3


@contextmanager
def full_disk(server: Running) -> Iterator[None]:
    """SQLite itself says that the disk is full: its file may have no page more than it has now."""
    writer: Any = server.state.jobs._store._writer
    connection = writer._transactions._connection
    connection.execute("PRAGMA max_page_count = 1")  # SQLite takes the current number of pages
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(jobs, "_has_room", lambda folder: False)
            yield
    finally:
        connection.execute("PRAGMA max_page_count = 1073741823")


def long_question(n: int) -> str:
    """More than fits into pages that are there already."""
    return " ".join(f"{hash((n, i)):x}" for i in range(1500))


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "RETRY", 0.05)


@pytest.mark.slow
def test_what_was_accepted_survives_a_kill_right_after_the_reply(place: Path) -> None:
    accepted: list[str] = []
    for number in range(KILLS):
        with process(*SERVE, "--system", "slow.py:Slow") as (server, url):
            body: dict[str, Any] = {"question": f"{QUESTION} {number}"}
            if accepted:
                body["follows"] = accepted[-1]
            reply = httpx2.post(f"{url}/api/ask", json=body, timeout=120)
            server.send_signal(signal.SIGKILL)
            accepted.append(reply.json()["id"])
            server.wait(120)
    with process(*SERVE, "--system", "direct") as (_, url), httpx2.Client(base_url=url, timeout=120) as client:
        listed = client.get("/api/episodes").json()["interrupted"]
        assert sorted(found["id"] for found in listed) == sorted(accepted)
        for identifier in accepted:
            gone_on = client.post(f"/api/episodes/{identifier}/resume")
            assert gone_on.status_code == 202
            client.get(gone_on.json()["events"])


def test_a_question_is_on_disk_before_the_reply(start: Start, settings: Settings, gate: Gate) -> None:
    with start(gate, running=1) as server, server.client() as client:
        for number in range(8):
            identifier = ask(client, question=f"Number {number}?")
            with RunStore.open(settings.runs / "asked.sqlite") as store:
                assert next(store.questions(question=identifier), None) is not None
        gate.open()


def test_on_a_full_disk_questions_are_refused(start: Start) -> None:
    with start() as server, server.client() as client:
        client.get(f"/api/episodes/{ask(client)}/events")
        with full_disk(server):
            for place, body in {
                "/api/ask": {"question": long_question(0)},
                "/v1/chat/completions": {
                    "model": "subquest-coda",
                    "messages": [{"role": "user", "content": long_question(1)}],
                },
            }.items():
                reply = client.post(place, json=body)
                assert (reply.status_code, reply.json()["error"]["code"]) == (507, "storage"), reply.text
                assert "disk is full" in reply.json()["error"]["message"]
            health = client.get("/health").json()
            assert (health["status"], health["unstored"]) == ("storage", 0)
            assert "disk is full" in health["storage"]
            assert "asked.sqlite" not in health["storage"]  # it needs no token
            assert client.get("/api/episodes").json()["live"] == []
        until(lambda: client.get("/health").json()["status"] == "ok")
        client.get(f"/api/episodes/{ask(client)}/events")


def test_an_answer_that_cannot_be_stored_is_kept_and_written_later(
    start: Start, settings: Settings, gate: Gate
) -> None:
    with start(gate) as server, server.client() as client:
        identifier = ask(client, question=long_question(2))
        until(lambda: gate.waiting)
        with full_disk(server):
            gate.open()
            events = client.get(f"/api/episodes/{identifier}/events").text
            assert events.endswith('event: done\ndata: {"status":"unstored"}\n\n')
            found = client.get(f"/api/episodes/{identifier}").json()
            assert (found["status"], found["answer"]) == ("unstored", "Kestel")
            health = client.get("/health").json()
            assert (health["status"], health["unstored"]) == ("storage", 1)
            assert client.post("/api/ask", json={"question": "Short?"}).status_code == 507
            listed = client.get("/api/episodes").json()
            assert ([job["status"] for job in listed["live"]], listed["interrupted"]) == (["unstored"], [])
        until(lambda: client.get("/health").json()["status"] == "ok")
        found = client.get(f"/api/episodes/{identifier}").json()
        assert (found["status"], found["answer"]) == ("finished", "Kestel")
    with RunStore.open(settings.runs / "asked.sqlite") as store:
        assert store.episode(identifier).answer == "Kestel"
        assert [event.seq for event in store.events(identifier)] == list(range(len(store.events(identifier))))


def test_an_answer_that_was_never_stored_can_be_resumed(start: Start, gate: Gate) -> None:
    with start(gate) as server, server.client() as client:
        identifier = ask(client, question=long_question(3))
        until(lambda: gate.waiting)
        writer: Any = server.state.jobs._store._writer
        writer._transactions._connection.execute("PRAGMA max_page_count = 1")
        gate.open()
        client.get(f"/api/episodes/{identifier}/events")
    with start() as server, server.client() as client:
        assert [found["id"] for found in client.get("/api/episodes").json()["interrupted"]] == [identifier]
        gone_on = client.post(f"/api/episodes/{identifier}/resume").json()["id"]
        client.get(f"/api/episodes/{gone_on}/events")
        assert client.get(f"/api/episodes/{gone_on}").json()["answer"] == "Kestel"


def test_documents_on_a_full_disk(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    with start() as server, server.client() as client:
        files = {"files": [{"name": "a.txt", "text": "One."}]}
        assert client.post("/api/indexes/mine/documents", json=files).status_code == 201

        def full(*_: Any, **__: Any) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "write_bytes", full)
        reply = client.post("/api/indexes/mine/documents", json=files)
        assert (reply.status_code, json.loads(reply.text)["error"]["code"]) == (507, "storage")


def test_old_conversations_are_removed_at_the_start(start: Start, settings: Settings) -> None:
    settings.runs.mkdir()
    asked(settings.runs / "asked.sqlite", {"old": 50.0, "new": 1.0})
    with start(keep_days=30.0) as server, server.client() as client:
        assert [found["id"] for found in client.get("/api/episodes").json()["episodes"]] == ["new"]
