"""Connections: requests in pieces and in pipelines, clients that stop in the middle of one, heads that never end."""

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from subquest.serve import connection as limits

from .conftest import Running, Start

BODY = json.dumps({"queries": ["Orvane"], "topk": 2, "return_scores": True}).encode()


def request(
    body: bytes = BODY, *lines: bytes, size: int | None = None, line: bytes = b"POST /retrieve HTTP/1.1"
) -> bytes:
    head = [line, b"Host: 127.0.0.1", *lines, b"Content-Length: %d" % (len(body) if size is None else size)]
    return b"\r\n".join(head) + b"\r\n\r\n" + body


@contextmanager
def connected(server: Running) -> Iterator[socket.socket]:
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=120) as found:
        yield found


def reply(connection: socket.socket, left: bytes = b"") -> tuple[int, dict[str, str], Any, bytes]:
    """Status, header, JSON of the next reply, and what came behind it."""
    data = left
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536) or pytest.fail(f"the server hung up after {data!r}")
    head, _, rest = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    header = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    size = int(header["content-length"])
    while len(rest) < size:
        rest += connection.recv(65536) or pytest.fail("the server hung up")
    return int(first.split()[1]), header, json.loads(rest[:size]), rest[size:]


def test_no_reply_waits_for_its_client_s_receipt(server: Running) -> None:
    """Head and body are sent apart: with Nagle's delay each reply on a kept connection took 40 ms."""
    with connected(server) as connection:
        connection.sendall(request())
        assert reply(connection)[0] == 200
        (ours,) = server.server.server_state.connections
        accepted = ours.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_body_may_come_in_pieces(server: Running) -> None:
    whole = request()
    with connected(server) as connection, server.client() as other:
        connection.sendall(whole)
        expected = reply(connection)[2]
        for cuts in ([len(whole) - len(BODY)], [10], [len(whole) - len(BODY), len(whole) - 3]):
            for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
                connection.sendall(whole[start:end])
                other.get("/health")  # by now the piece has arrived
            assert reply(connection)[2] == expected


def test_pipelined_requests_are_answered_in_order(server: Running) -> None:
    bodies = [
        json.dumps({"queries": [word], "topk": 1, "return_scores": True}).encode() for word in ("Orvane", "zzzzzz")
    ]
    with connected(server) as connection:
        connection.sendall(request(bodies[0]))
        connection.sendall(request(bodies[1]) + request(bodies[0]))
        left, found = b"", []
        for _ in range(3):
            _, _, answer, left = reply(connection, left)
            found.append(bool(answer["result"][0]))
    assert found == [True, False, True]


def test_a_failed_search_is_reported(server: Running) -> None:
    with connected(server) as connection:
        connection.sendall(request())
        assert reply(connection)[0] == 200
        asyncio.run_coroutine_threadsafe(_close_index(server), server.loop).result()
        connection.sendall(request())
        status, _, found, _ = reply(connection)
    assert status == 400
    assert "closed" in found["error"]["message"]


async def _close_index(server: Running) -> None:
    server.state.agents.indexes.local("docs").index.close()


def test_a_head_has_an_end(server: Running) -> None:
    with connected(server) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: " + b"a" * (limits.MAX_HEAD - 200))
        connection.sendall(b"\r\n\r\n")
        assert reply(connection)[0] == 200
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: ")
        got = b""
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                connection.sendall(b"a" * 65536)
            got = connection.recv(100)
        assert got.startswith(b"HTTP/1.1 431") or not got  # a client that is still writing may find it closed
    with server.client() as client:
        assert client.get("/health").status_code == 200


def test_clients_that_say_no_more_are_given_up(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that never begin, those in the midst of a head, and those in the midst of a body."""
    monkeypatch.setattr(limits, "PATIENCE", 0.6)
    beginnings = [b"", b"GET /health HTTP/1.1\r\nHost: 127", request(b"{", b"X: y", size=100)]
    for beginning in beginnings:
        with connected(server) as connection:
            connection.sendall(beginning)
            assert connection.recv(100) == b""  # closed by the server; the test would wait for two minutes


def test_clients_that_say_more_are_waited_for(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that is turned by hand: a machine may be slower than any client."""
    now = 1000.0
    monkeypatch.setattr(limits, "PATIENCE", 0.6)  # so that clients are looked at ten times a second
    monkeypatch.setattr(limits, "time", SimpleNamespace(monotonic=lambda: now))
    with connected(server) as connection, server.client() as other:
        connection.sendall(request(b"", b"X: slow", size=len(BODY)))
        for n in range(0, len(BODY), 6):
            other.get("/health")  # by now the piece before has arrived
            now += 0.5
            time.sleep(0.12)
            connection.sendall(BODY[n : n + 6])
        assert reply(connection)[0] == 200
        now += 100  # between two requests nothing is owed
        time.sleep(0.3)
        connection.sendall(request())
        assert reply(connection)[0] == 200


def test_a_head_in_one_segment_has_an_end_too(server: Running) -> None:
    head = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: " + b"a" * limits.MAX_HEAD + b"\r\n\r\n"
    with connected(server) as connection:
        connection.sendall(head)
        with contextlib.suppress(ConnectionError):  # a client that is still writing may find it closed
            assert connection.recv(100).startswith(b"HTTP/1.1 431")


def test_a_body_that_trickles_ends(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PATIENCE", 1.2)
    monkeypatch.setattr(limits, "BODY_TIME", 1.0)
    with connected(server) as connection:
        connection.sendall(request(b"", b"X: slow", size=1_000_000))

        def trickle() -> None:
            while True:  # until the server closes the connection; otherwise until the test's time is up
                connection.sendall(b" ")
                time.sleep(0.1)

        with pytest.raises(ConnectionError):
            trickle()


TOKEN = "correct-horse-battery"
HUGE = 100 << 20


@pytest.mark.parametrize("kind", [b"Content-Length: %d" % HUGE, b"Transfer-Encoding: chunked"])
def test_a_refused_request_is_answered_and_its_body_not_read(start: Start, kind: bytes) -> None:
    head = b"\r\n".join([b"POST /api/indexes/new/documents HTTP/1.1", b"Host: 127.0.0.1", kind, b"", b""])
    part = b"10000\r\n" + b"x" * 65536 + b"\r\n" if b"chunked" in kind else b"x" * 65536
    with start(token=TOKEN) as server, connected(server) as connection:
        connection.sendall(head)
        assert reply(connection)[0] == 401  # before any of the body
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < HUGE:
                sent += connection.send(part)
        assert sent < HUGE / 4  # what the buffers of both sides hold, and no more
        with server.client(headers={"Authorization": f"Bearer {TOKEN}"}) as client:
            assert client.get("/api/about").status_code == 200


def test_a_refused_client_is_not_told_to_send_its_body(start: Start) -> None:
    expecting = request(b"", b"Expect: 100-continue", size=HUGE)
    with start(token=TOKEN) as server, connected(server) as connection:
        connection.sendall(expecting)
        assert reply(connection)[0] == 401
    with start() as server, connected(server) as connection:  # too long for this server
        connection.sendall(expecting)
        assert reply(connection)[0] == 413


def test_a_short_body_that_comes_after_its_refusal_keeps_the_connection(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FAREWELL_TIME", 300.0)
    whole = request()
    with start(token=TOKEN) as server, connected(server) as connection:
        connection.sendall(whole[: -len(BODY)])
        status, _, _, left = reply(connection)
        assert status == 401
        connection.sendall(BODY)
        connection.sendall(request(BODY, b"Authorization: Bearer " + TOKEN.encode()))
        assert reply(connection, left)[0] == 200


def test_a_refused_client_that_stays_silent_is_disconnected(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FAREWELL_TIME", 0.1)
    with start(token=TOKEN) as server, connected(server) as connection:
        connection.sendall(request(b"", size=HUGE))
        assert reply(connection)[0] == 401
        assert connection.recv(1) == b""


def test_the_body_of_the_next_request_may_take_its_time(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FAREWELL_TIME", 0.05)
    with connected(server) as connection, server.client() as other:
        connection.sendall(request() + request()[:-5])
        status, _, _, left = reply(connection)
        assert status == 200
        for _ in range(3):
            other.get("/health")
            time.sleep(0.05)
        connection.sendall(BODY[-5:])
        assert reply(connection, left)[0] == 200
