"""What models write, while they write it: over the event stream, for whoever asks for it."""

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from subquest.engine.openai import OpenAIEngine
from subquest.serve.jobs import Job, Piece

from ..engine.loopback import Answer, Loopback, delta, events
from .conftest import QUESTION, Gate, Start


class SlowEndpoint:
    """An endpoint on loopback that writes the beginning of an answer, and the rest once it is let through."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.url = ""

    def pieces(self) -> Iterator[bytes]:
        yield from events(delta("<think>The bridge is"), done=False)
        yield from events(delta(" old.</think>"), done=False)
        self.gate.wait(120)
        yield from events(delta("<answer>Kestel</answer>"), delta(finish="stop"))


@pytest.fixture
def endpoint() -> Iterator[SlowEndpoint]:
    """Serves in a thread of its own; the generator blocks only that thread."""
    found, ready, stop = SlowEndpoint(), threading.Event(), threading.Event()

    async def main() -> None:
        async with Loopback(lambda _: Answer(pieces=found.pieces())) as server:
            found.url = server.url
            ready.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    ready.wait(60)
    yield found
    found.gate.set()
    stop.set()
    thread.join(60)


def frames(lines: Iterator[str]) -> Iterator[tuple[str, Any]]:
    """Kind and data of each server-sent event."""
    kind = "event"
    for line in lines:
        if line.startswith("event: "):
            kind = line[7:]
        elif line.startswith("data: "):
            yield kind, json.loads(line[6:])
            kind = "event"


def test_text_arrives_before_its_turn_has_ended(start: Start, endpoint: SlowEndpoint) -> None:
    models = {"default": OpenAIEngine("m", base_url=endpoint.url, api_key="")}
    with start(models=models, systems=["direct"]) as server, server.client() as client:
        identifier = client.post("/api/ask", json={"question": QUESTION}).json()["id"]
        place = f"/api/episodes/{identifier}/events"
        for _ in range(2):  # whoever comes later gets what was written before
            with client.stream("GET", f"{place}?text=true") as stream:
                written = ""
                for kind, data in frames(stream.iter_lines()):
                    if kind == "text":
                        assert data["first"] == (written == "")
                        written += data["text"]
                    assert kind == "text" or data["kind"] != "turn"
                    if written.endswith("old.</think>"):
                        break
                assert (written, data["trajectory"]) == ("<think>The bridge is old.</think>", "1")
        endpoint.gate.set()
        with client.stream("GET", place) as stream:
            told = list(frames(stream.iter_lines()))
        assert "text" not in {kind for kind, _ in told}  # only for those who asked for it
        assert [data["data"]["answer"] for kind, data in told if data.get("kind") == "answer"] == ["Kestel"]


def test_a_live_question_says_how_long_it_has_been_answered(start: Start, gate: Gate) -> None:
    with start(gate) as server, server.client() as client:
        identifier = client.post("/api/ask", json={"question": QUESTION}).json()["id"]
        seconds = [0.0]
        while len(seconds) < 3:
            found = client.get(f"/api/episodes/{identifier}").json()["seconds"]
            if found > seconds[-1]:
                seconds.append(found)
        assert seconds[1] < seconds[2]


def test_a_turn_that_is_tried_again_begins_again() -> None:
    async def watched() -> list[Any]:
        from subquest.events import Event

        job = Job("1", None, None)  # type: ignore[arg-type]
        job.status = "running"
        found: list[Any] = []

        async def watch() -> None:
            async for one in job.watch():
                found.append(one)

        task = asyncio.create_task(watch())
        for piece in ("Once", " upon"):
            job.add_text("1", piece)
        while not found:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        job.add_event(Event(0, "retry", 0.1, "1", {}))
        job.add_text("1", "Again")
        while len(found) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        job.status = "finished"
        job.notify()
        await task
        return found

    first, retry, again = asyncio.run(watched())
    assert first == Piece("1", "Once upon", True)
    assert retry.kind == "retry"
    assert again == Piece("1", "Again", True)
