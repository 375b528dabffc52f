"""No request makes the server fail, and no client that leaves makes it complain."""

import json
import logging
import re
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from subquest.serve.openapi import openapi_document
from subquest.serve.routes import OPERATIONS

from ..cli.nasty import CONTENTS, WRONG
from .conftest import QUESTION, Gate, Running, Start

NAMES = (
    "..",
    "%2e%2e%2fetc",
    "a\0b",
    "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
    "x" * 3000,
    "é",
    "*",
)
"""What may stand in a path where a name belongs."""
EXAMPLES: dict[str, dict[str, Any]] = {
    "/api/ask": {"question": QUESTION, "system": "coda", "seed": 1},
    "/v1/chat/completions": {"model": "subquest-coda", "messages": [{"role": "user", "content": QUESTION}]},
    "/api/indexes/{index}/search": {"query": "bridge", "k": 1},
    "/api/indexes/{index}/documents": {"documents": [{"id": "1", "title": "T", "text": "Text."}]},
    "/retrieve": {"queries": ["bridge"], "topk": 1, "return_scores": True},
    "/rerank": {"queries": ["bridge"], "documents": [["Text."]]},
    "/search": {"query": "bridge", "top_n": 1},
    "/batch_search": {"query": ["bridge"], "top_n": 1},
}
DOCS = Path(__file__).parents[2] / "docs" / "server.md"


def bodies(example: dict[str, Any]) -> Iterator[bytes]:
    """Bodies that are wrong as a whole, then the example with one value wrong."""
    yield from (content for name, content in CONTENTS.items() if name != "line")
    for key in example:
        for wrong in WRONG.values():
            rest = json.dumps({k: v for k, v in example.items() if k != key} | {key: "\u2042"})
            yield rest.replace(json.dumps("\u2042"), wrong).encode()


def test_every_body_gets_a_clear_reply(start: Start) -> None:
    with start(asks_per_minute=100_000, queued=1000) as server, server.client() as client:
        for path, operations in openapi_document(OPERATIONS)["paths"].items():
            if "post" not in operations or "requestBody" not in operations["post"]:
                continue
            for body in bodies(EXAMPLES.get(path, {})):
                place = path.replace("{index}", "docs").replace("{id}", "nobody")
                reply = client.post(place, content=body, headers={"Content-Type": "application/json"})
                assert reply.status_code < 500 or reply.status_code == 503, (path, body[:200], reply.text)
                if reply.status_code >= 400:
                    said = reply.json()["error"]
                    assert (said["message"] if isinstance(said, dict) else said).strip(), (path, body[:200])


def test_every_name_and_parameter_gets_a_clear_reply(server: Running) -> None:
    with server.client() as client:
        for path, operations in openapi_document(OPERATIONS)["paths"].items():
            method = next(iter(operations))
            for name in NAMES:
                place = re.sub(r"\{\w+\}", lambda _, name=name: quote(name, safe="%"), path)  # type: ignore[misc]
                reply = client.request(method.upper(), f"{place}?after={quote(name)}&limit=-1&runs=,,{quote(name)}")
                assert reply.status_code < 500, (method, path, name, reply.text)


@contextmanager
def complaints() -> Iterator[list[str]]:
    """What the server logs from warnings on."""
    found: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(self.format(record))

    keep = Keep(logging.WARNING)
    loggers = [logging.getLogger(name) for name in ("subquest", "uvicorn.error", "asyncio")]
    for logger in loggers:
        logger.addHandler(keep)
    try:
        yield found
    finally:
        for logger in loggers:
            logger.removeHandler(keep)


def send(server: Running, text: bytes, *, reset: bool) -> socket.socket:
    place = urlsplit(server.url)
    connection = socket.create_connection((place.hostname, place.port), timeout=60)
    if reset:  # closing sends a reset, as when a program is killed
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.sendall(text)
    return connection


def post(path: str, body: bytes, size: int | None = None) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body) if size is None else size}\r\n\r\n".encode() + body


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("path", sorted(EXAMPLES))
def test_a_client_that_leaves_within_its_body_is_not_an_error(server: Running, path: str, reset: bool) -> None:
    body = json.dumps(EXAMPLES[path]).encode()
    with complaints() as found:
        send(server, post(path.replace("{index}", "docs"), body[:10], len(body)), reset=reset).close()
        _answers(server)
    assert not found


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_before_the_reply_is_not_an_error(
    start: Start, gate: Gate, reset: bool, stream: bool
) -> None:
    """Before the first byte, and in the midst of a stream."""
    body = json.dumps({**EXAMPLES["/v1/chat/completions"], "stream": stream}).encode()
    with start(gate) as server, complaints() as found:
        connection = send(server, post("/v1/chat/completions", body), reset=reset)
        for _ in range(6000):
            if gate.waiting:
                break
            time.sleep(0.01)
        assert gate.waiting, connection.recv(1000)
        if stream:
            assert connection.recv(10)
        connection.close()
        _answers(server)
        gate.open()
        _answers(server)
    assert not found


def test_a_client_that_leaves_while_it_watches_is_not_an_error(start: Start, gate: Gate) -> None:
    with start(gate) as server, complaints() as found, server.client() as client:
        identifier = client.post("/api/ask", json=EXAMPLES["/api/ask"]).json()["id"]
        watching = f"GET /api/episodes/{identifier}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
        for reset in (False, True):
            connection = send(server, watching, reset=reset)
            assert connection.recv(10)
            connection.close()
        gate.open()
        _answers(server)
    assert not found


def _answers(server: Running) -> None:
    with server.client() as client:
        assert client.get("/health").status_code == 200


def test_every_route_is_documented() -> None:
    documented = set(re.findall(r"`(GET|POST|PUT|DELETE) (/[^`?]*)", DOCS.read_text()))
    names = {"{id}": "ID", "{run}": "RUN", "{index}": "NAME", "{name}": "NAME"}
    there = {(o.method, re.sub(r"\{\w+\}", lambda found: names[found[0]], o.path)) for o in OPERATIONS}
    assert documented - {("GET", "/")} == there
