"""The short way of `/retrieve`: the same answers as by the app, in order, and nothing that the app would refuse."""

import asyncio
import contextlib
import json
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol

from subquest.serve import fast

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


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The bodies that went the short way."""
    taken: list[bytes] = []
    search = fast.Connection._search

    def watched(self: fast.Connection, body: bytes) -> bool:
        went = search(self, body)
        if went:
            taken.append(body)
        return went

    monkeypatch.setattr(fast.Connection, "_search", watched)
    return taken


def test_the_second_request_of_a_head_goes_the_short_way(server: Running, short: list[bytes]) -> None:
    with connected(server) as connection:
        answers = []
        for _ in range(3):
            connection.sendall(request())
            status, header, found, _ = reply(connection)
            answers.append(found)
            assert (status, header["content-type"], header["x-content-type-options"]) == (
                200,
                "application/json",
                "nosniff",
            )
    assert answers[0]["result"][0][0]["document"]["id"] == "d1"
    assert answers[0] == answers[1] == answers[2]
    assert short == [BODY, BODY]
    with server.client() as client:
        counted = client.get("/metrics").text
    assert 'subquest_requests_total{method="POST",route="/retrieve",status="200"} 3' in counted
    assert 'subquest_queries_total{index=""} 3' in counted


def test_no_reply_waits_for_its_client_s_receipt(server: Running) -> None:
    """Head and body are sent apart: with Nagle's delay each reply on a kept connection took 40 ms."""
    with connected(server) as connection:
        connection.sendall(request())
        assert reply(connection)[0] == 200
        (ours,) = server.server.server_state.connections
        accepted = ours.transport.get_extra_info("socket")  # type: ignore[union-attr]
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_body_may_come_in_pieces(server: Running, short: list[bytes]) -> None:
    whole = request()
    with connected(server) as connection, server.client() as other:
        connection.sendall(whole)
        expected = reply(connection)[2]
        for cuts in ([len(whole) - len(BODY)], [10], [len(whole) - len(BODY), len(whole) - 3]):
            for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
                connection.sendall(whole[start:end])
                other.get("/health")  # by now the piece has arrived
            assert reply(connection)[2] == expected
    assert len(short) == 2  # where the head itself was cut, the parser read it


def test_requests_behind_each_other_are_answered_in_order(server: Running, short: list[bytes]) -> None:
    bodies = [
        json.dumps({"queries": [word], "topk": 1, "return_scores": True}).encode() for word in ("Orvane", "zzzzzz")
    ]
    with connected(server) as connection:
        for body in bodies:
            connection.sendall(request(body))
            reply(connection)
        connection.sendall(request(bodies[0]))
        connection.sendall(request(bodies[1]) + request(bodies[0]))
        left, found = b"", []
        for _ in range(3):
            _, _, answer, left = reply(connection, left)
            found.append(bool(answer["result"][0]))
    assert found == [True, False, True]
    assert bodies[0] in short


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"[]", 400), (b"{", 400), (b'{"queries":[1],"return_scores":true}', 400), (b'{"queries":[]}', 200)],
)
def test_what_is_not_plainly_good_is_for_the_app(server: Running, short: list[bytes], body: bytes, status: int) -> None:
    with connected(server) as connection:
        for _ in range(2):
            connection.sendall(request(body))
            assert reply(connection)[0] == status
        connection.sendall(request())
        assert reply(connection)[0] == 200
    assert not short


@pytest.mark.parametrize(
    "line",
    [
        b"Origin: http://127.0.0.1",
        b"Expect: 100-continue",
        b"Connection: close",
        b"Host: 127.0.0.1",
        b"X-Folded: a\r\n b",
    ],
)
def test_unusual_heads_are_not_remembered(start: Start, short: list[bytes], line: bytes) -> None:
    with start() as server:
        for _ in range(2):
            with connected(server) as connection:
                connection.sendall(request(BODY, line))
                assert connection.recv(100).startswith(b"HTTP/1.1 ")
    assert not short


def test_a_head_is_known_by_every_byte_of_it(start: Start, short: list[bytes]) -> None:
    with start(token="correct-horse-battery") as server, connected(server) as connection:
        good = request(BODY, b"Authorization: Bearer correct-horse-battery")
        for _ in range(2):
            connection.sendall(good)
            assert reply(connection)[0] == 200
        connection.sendall(good.replace(b"battery", b"batterz"))
        assert reply(connection)[0] == 401
        connection.sendall(b"\r\n\r\n" + good)  # empty lines before a request are no head
        assert reply(connection)[0] == 200
        connection.sendall(b"\r\n\r\n" + BODY)
        assert connection.recv(100).startswith(b"HTTP/1.1 400")
    assert len(short) == 1


def test_a_failed_search_is_told(server: Running, short: list[bytes]) -> None:
    with connected(server) as connection:
        connection.sendall(request())
        assert reply(connection)[0] == 200
        asyncio.run_coroutine_threadsafe(_closed(server), server.loop).result()
        connection.sendall(request())
        status, _, found, _ = reply(connection)
    assert (status, len(short)) == (400, 1)
    assert "closed" in found["error"]["message"]


def _renamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(fast.HttpToolsProtocol, "_unset_keepalive_if_required")


def _gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "subquest.serve.fast", None)  # as where one of its imports fails


def _other_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    class Cycle:
        def __init__(self, **_: Any) -> None:
            self.finished = False

        async def run_asgi(self, app: Any) -> None:
            pass

    monkeypatch.setattr("uvicorn.protocols.http.httptools_impl.RequestResponseCycle", Cycle)


def _other_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = fast.HttpToolsProtocol.__init__

    def init(self: Any, config: Any, *, runtime: Any) -> None:
        plain(self, config, runtime, {})

    monkeypatch.setattr(fast.HttpToolsProtocol, "__init__", init)


@pytest.mark.parametrize("change", [_renamed, _gone, _other_cycle, _other_arguments])
def test_another_uvicorn_serves_without_the_short_way(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, change: Any
) -> None:
    """Its own protocol is taken, whole: here the one for h11, which nobody has changed."""
    change(monkeypatch)
    monkeypatch.setattr("uvicorn.protocols.http.auto.AutoHTTPProtocol", H11Protocol)
    with start() as server, connected(server) as connection:
        for _ in range(2):
            connection.sendall(request())
            assert reply(connection)[2]["result"][0][0]["document"]["id"] == "d1"
    assert "is new to Subquest" in caplog.text


def test_this_uvicorn_is_known(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    with start():
        pass
    assert caplog.text == ""


async def _closed(server: Running) -> None:
    server.state.agents.indexes.local("docs").index.close()


def test_a_head_has_an_end(server: Running) -> None:
    with connected(server) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: " + b"a" * (fast.HEAD_BYTES - 200))
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
    monkeypatch.setattr(fast, "PATIENCE", 0.6)
    beginnings = [b"", b"GET /health HTTP/1.1\r\nHost: 127", request(b"{", b"X: y", size=100)]
    for beginning in beginnings:
        with connected(server) as connection:
            connection.sendall(beginning)
            assert connection.recv(100) == b""  # closed by the server; the test would wait for two minutes


def test_clients_that_say_more_are_waited_for(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast, "PATIENCE", 1.0)
    with connected(server) as connection:
        connection.sendall(request(b"", b"X: slow", size=len(BODY)))
        for n in range(0, len(BODY), 8):
            time.sleep(0.2)
            connection.sendall(BODY[n : n + 8])
        assert reply(connection)[0] == 200
        time.sleep(1.5)  # between two requests nothing is owed
        connection.sendall(request())
        assert reply(connection)[0] == 200
