"""Jobs: asking, following without gaps, cancelling, limits, stopping and starting again."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from subquest.events import Event
from subquest.runs import RunStore
from subquest.serve.settings import Settings

from .conftest import QUESTION, Gate, Running, Start, reply


def ask(client: httpx2.Client, **more: Any) -> str:
    reply = client.post("/api/ask", json={"question": QUESTION, **more})
    assert reply.status_code == 202, reply.text
    return str(reply.json()["id"])


def frames(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    found: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            found[name] = value
        elif found:
            yield found
            found = {}


def until(condition: Any) -> None:
    for _ in range(12_000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never happened")


def test_an_episode_from_question_to_store(server: Running, settings: Settings) -> None:
    with server.client() as client:
        identifier = ask(client)
        with client.stream("GET", f"/api/episodes/{identifier}/events") as stream:
            told = list(frames(stream.iter_lines()))
        assert [int(f["id"]) for f in told[:-1]] == list(range(len(told) - 1))
        assert json.loads(told[0]["data"])["kind"] == "start"
        assert json.loads(told[-2]["data"])["kind"] == "end"
        assert (told[-1]["event"], json.loads(told[-1]["data"])) == ("done", {"status": "finished"})
        found = client.get(f"/api/episodes/{identifier}").json()
        assert (found["status"], found["answer"], len(found["trajectories"])) == ("finished", "Kestel", 3)
        assert found["events"] == [json.loads(f["data"]) for f in told[:-1]]
    with RunStore.open(settings.runs / "asked.sqlite") as store:
        assert store.episode(identifier).answer == "Kestel"


def test_a_lost_stream_is_taken_up_without_gaps(start: Start, gate: Gate) -> None:
    with start(gate) as server, server.client() as client:
        identifier = ask(client)
        place = f"/api/episodes/{identifier}/events"
        seen = []
        with client.stream("GET", place) as stream:  # lost in the middle, while the episode goes on
            for found in frames(stream.iter_lines()):
                seen.append(found)
                if len(seen) == 3:
                    break
        gate.open()
        with client.stream("GET", place, headers={"Last-Event-ID": seen[-1]["id"]}) as stream:
            seen += list(frames(stream.iter_lines()))
        assert [int(f["id"]) for f in seen[:-1]] == list(range(len(seen) - 1))
        whole = client.get(f"/api/episodes/{identifier}").json()["events"]
        assert [json.loads(f["data"]) for f in seen[:-1]] == whole
        after = client.get(f"/api/runs/asked/episodes/{identifier}/events?after={len(whole) - 2}").text
        assert after.startswith(f"id: {len(whole) - 1}\n")


def test_cancel(start: Start, gate: Gate) -> None:
    with start(gate, running=1) as server, server.client() as client:
        first, second = ask(client), ask(client)
        until(lambda: gate.waiting)
        live = client.get("/api/episodes").json()["live"]
        assert [(job["id"], job["status"]) for job in live] == [(first, "running"), (second, "queued")]
        for identifier in (second, first):
            assert client.post(f"/api/episodes/{identifier}/cancel").json()["status"] == "cancelled"
            assert client.post(f"/api/episodes/{identifier}/cancel").json()["status"] == "cancelled"
        stored = client.get("/api/runs/asked/episodes").json()
        assert sorted((e["id"], e["stop_reason"]) for e in stored["episodes"]) == sorted(
            [(first, "cancelled"), (second, "cancelled")]
        )
        kept = client.get(f"/api/runs/asked/episodes/{first}").json()
        assert [e["kind"] for e in kept["events"]].count("turn") == 3
        assert kept["usage"]["model_calls"] == 3
        assert client.post("/api/episodes/nothing/cancel").status_code == 404


def test_a_client_that_goes_takes_its_question_along(start: Start, gate: Gate) -> None:
    message = {"model": "subquest-coda", "messages": [{"role": "user", "content": QUESTION}]}
    with start(gate) as server, server.client() as client:
        with client.stream("POST", "/v1/chat/completions", json={**message, "stream": True}) as stream:
            lines = stream.iter_lines()  # kept: an iterator that is dropped closes the connection
            next(lines)
            until(lambda: gate.waiting)
        until(lambda: not server.state.jobs.live())
        with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as impatient:
            body = json.dumps(message)
            head = f"Host: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
            impatient.sendall(f"POST /v1/chat/completions HTTP/1.1\r\n{head}\r\n\r\n{body}".encode())
            until(lambda: gate.waiting == 2)
        until(lambda: not server.state.jobs.live())
        endings = [e["stop_reason"] for e in client.get("/api/runs/asked/episodes").json()["episodes"]]
        assert endings == ["cancelled", "cancelled"]


def test_queue_and_rate_limits(start: Start, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subquest.serve.access.time", SimpleNamespace(monotonic=lambda: 0.0))
    with start(gate, running=1, queued=1, asks_per_minute=3) as server, server.client() as client:
        ask(client)
        until(lambda: gate.waiting)
        ask(client)
        full = client.post("/api/ask", json={"question": QUESTION})
        assert (full.status_code, full.json()["error"]["code"]) == (429, "queue_full")
        limited = client.post("/api/ask", json={"question": QUESTION})
        assert (limited.status_code, limited.json()["error"]["code"]) == (429, "rate_limit")
        assert int(limited.headers["retry-after"]) >= 1


def test_a_stop_lets_episodes_finish_within_the_grace(start: Start, gate: Gate, settings: Settings) -> None:
    with start(gate, grace=100.0) as server, server.client() as client:
        identifier = ask(client)
        until(lambda: gate.waiting)
        server.stop()
        threading.Timer(0.3, gate.open).start()
    with RunStore.open(settings.runs / "asked.sqlite") as store:
        assert store.episode(identifier).answer == "Kestel"


def test_a_stop_records_what_does_not_finish_and_it_can_be_asked_again(
    start: Start, gate: Gate, settings: Settings
) -> None:
    with start(gate, grace=0.1) as server, server.client() as client:
        identifier = ask(client, index="docs")
        until(lambda: gate.waiting)
    with start() as server, server.client() as client:
        found = client.get(f"/api/episodes/{identifier}").json()
        assert (found["status"], found["question"]["question"]) == ("interrupted", QUESTION)
        second = client.post(f"/api/episodes/{identifier}/again").json()["id"]
        client.get(f"/api/episodes/{second}/events")
        repeated = client.get(f"/api/episodes/{second}").json()
        assert repeated["answer"] == "Kestel"
        meta = repeated["question"]["meta"]
        assert (meta["system"], meta["index"], meta["again"]) == ("coda", "docs", identifier)


def test_what_a_kill_left_is_listed_as_interrupted(start: Start, settings: Settings) -> None:
    settings.runs.mkdir()
    with RunStore.create(settings.runs / "asked.sqlite", settings={"kind": "server"}) as store:
        store.add_event("killed", Event(0, "start", 0.0, data={"question": QUESTION, "system": "coda", "model": "m"}))
    with start() as server, server.client() as client:
        listed = client.get("/api/episodes").json()["interrupted"]
        assert [(e["id"], e["question"]["question"]) for e in listed] == [("killed", QUESTION)]
        found = client.get("/api/episodes/killed").json()
        assert (found["status"], found["system"], len(found["events"])) == ("interrupted", "coda", 1)
        assert 'data: {"status":"interrupted"}' in client.get("/api/episodes/killed/events").text


def _interrupted(settings: Settings) -> list[str]:
    with RunStore.open(settings.runs / "asked.sqlite") as store:
        return store.interrupted()


def test_a_list_with_running_questions_reads_no_others(
    start: Start, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much was asked before: a list that reads it all makes a server grow with its age."""
    with start(gate) as server, server.client() as client:
        identifier = ask(client)
        until(lambda: gate.waiting)
        until(lambda: _interrupted(server.state.settings) == [identifier])  # as the file tells it

        def refused(self: RunStore, *, question: str | None = None) -> Any:
            raise AssertionError("all questions were read")

        monkeypatch.setattr(RunStore, "questions", refused)
        listed = client.get("/api/episodes").json()
        assert [one["id"] for one in listed["live"]] == [identifier]
        assert listed["interrupted"] == []


def test_runs(server: Running) -> None:
    with server.client() as client:
        client.get(f"/api/episodes/{ask(client)}/events")
        (run,) = client.get("/api/runs").json()["runs"]
        assert (run["name"], run["episodes"]) == ("asked", 1)
        assert client.get("/api/runs/asked").json()["table"]["asked"]["coda"]["n"] == 1
        for query, count in (("", 1), ("text=ORVANE", 1), ("text=nowhere", 0), ("system=direct", 0), ("offset=1", 0)):
            assert len(client.get(f"/api/runs/asked/episodes?{query}").json()["episodes"]) == count
        assert client.get("/api/runs/asked/episodes?limit=0").status_code == 400


def test_metrics_count_what_happened(server: Running) -> None:
    with server.client() as client:
        client.get(f"/api/episodes/{ask(client)}/events")
        lines = client.get("/metrics").text.splitlines()
    assert 'subquest_episodes_total{ending="answered",system="coda"} 1' in lines
    assert 'subquest_searches_total{system="coda"} 2' in lines
    assert 'subquest_requests_total{method="POST",route="/api/ask",status="202"} 1' in lines
    assert 'subquest_jobs{status="running"} 0' in lines


@pytest.mark.slow
def test_many_followers(start: Start, gate: Gate) -> None:
    with start(gate) as server, server.client() as client:
        place = f"/api/episodes/{ask(client)}/events"
        found: list[str] = []

        def follow() -> None:
            found.append(httpx2.get(server.url + place, timeout=240).text)

        threads = [threading.Thread(target=follow) for _ in range(40)]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        gate.open()
        for thread in threads:
            thread.join()
        assert len(found) == 40
        assert len(set(found)) == 1


def test_a_cancel_that_comes_while_the_end_is_recorded(start: Start) -> None:
    """It waits for the end, whatever the moment it comes at, and nothing is recorded twice."""
    with start(running=8, asks_per_minute=10_000) as server:
        told: list[str] = []

        def work(number: int) -> None:
            with server.client() as client:
                for turn in range(12):
                    identifier = ask(client)
                    time.sleep((number * 12 + turn) % 16 / 1000)
                    told.append(client.post(f"/api/episodes/{identifier}/cancel").json()["status"])

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(told) == 48
        assert set(told) <= {"cancelled", "finished"}
        with server.client() as client:
            assert client.get("/api/runs/asked/episodes?limit=500").json()["total"] == 48


def test_a_conversation_turn_by_turn(start: Start) -> None:
    def ended(client: Any, **body: Any) -> str:
        identifier: str = client.post("/api/ask", json={"system": "direct", **body}).json()["id"]
        client.get(f"/api/episodes/{identifier}/events")
        return identifier

    with start(lambda _: "<answer>Kestel</answer>") as server, server.client() as client:
        first = ended(client, question="Where?")
        beside = ended(client, question="Where?", system="coda", beside=first)
        older = ended(client, question="When?", follows=first)
        second = ended(client, question="And when?", follows=first)
        third = ended(client, question="And who?", follows=second)
        alone = ended(client, question="Something else?")
        for asked, line in (
            (first, [[first, beside], [second], [third]]),
            (beside, [[first, beside], [second], [third]]),
            (third, [[first, beside], [second], [third]]),
            (older, [[first, beside], [older]]),
            (alone, [[alone]]),
        ):
            turns = client.get(f"/api/episodes/{asked}/thread").json()["turns"]
            assert [[one["id"] for one in turn["episodes"]] for turn in turns] == line
        turns = client.get(f"/api/episodes/{third}/thread").json()["turns"]
        assert [turn["asked"] for turn in turns] == ["Where?", "And when?", "And who?"]
        assert [one["system"] for one in turns[0]["episodes"]] == ["direct", "coda"]
        rows = {row["id"]: row for row in client.get("/api/episodes").json()["episodes"]}
        assert (rows[beside]["beside"], rows[third]["follows"]) == (first, second)
        assert client.get("/api/episodes/nothing/thread").status_code == 404
        refused = client.post("/api/ask", json={"question": "q", "beside": "nothing"})
        assert refused.status_code == 404


def test_a_calibration_says_how_likely_an_answer_is_right(start: Start) -> None:
    from subquest.metrics.confidence import Calibrations, Curve, SystemCalibration

    known = SystemCalibration("direct", "scripted", (Curve(None, 50, 0.93),))

    def script(context: Any) -> str:
        return reply(context) if context.role in ("planner", "executor") else "<answer>Kestel</answer>"

    with start(script, calibrations=Calibrations((known,))) as server, server.client() as client:
        for system, words in (("direct", "very likely right: 93% of answers"), ("coda", "not calibrated for coda")):
            identifier = client.post("/api/ask", json={"question": QUESTION, "system": system}).json()["id"]
            client.get(f"/api/episodes/{identifier}/events")
            assert words in client.get(f"/api/episodes/{identifier}").json()["likely"]
            assert words in client.get(f"/api/runs/asked/episodes/{identifier}").json()["likely"]
