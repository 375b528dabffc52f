"""A real server on loopback that sends back whatever credentials it is sent, in every way that a client reads; keys to
plant, and how to find them again."""

from __future__ import annotations

import base64
import json
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .http_server import QuietHandler, serving

SEEN = "whatever-you-sent"
"""Stands beside every echo, so that a test can tell that it has looked in the right place."""

KEY = "sk-planted/4f9a+77c1e0b2"
USER, PASSWORD = "wolf", "p4ss:w0rd-31c9"
PARAMETER = "q-key-88bb22dd"
INFO = f"{USER}:{quote(PASSWORD, safe='')}"
QUERY = f"api_key={PARAMETER}&version=7"
BASIC = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
PLANTED = (KEY, quote(KEY, safe=""), PASSWORD, quote(PASSWORD, safe=""), PARAMETER, BASIC)


def leaks(text: str) -> list[str]:
    """Planted keys in a text, or the better part of one: a message that was cut off may end inside a key."""
    parts = {part for key in PLANTED for part in (key[:10], key[-10:])}
    return sorted(part for part in parts if part in text)


def stored(folder: Path) -> str:
    """All that files say, packed or not."""
    found = []
    for file in sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "subquest.toml"):
        content = file.read_bytes()
        found.append(content.decode("utf-8", "replace"))
        if content.startswith(b"SQLite format 3"):
            found += _rows(file)
    return "\n".join(found)


def _rows(file: Path) -> Iterator[str]:
    db = sqlite3.connect(file)
    for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        for row in db.execute(f'SELECT * FROM "{table}"'):
            for value in row:
                try:
                    yield zlib.decompress(value).decode()
                except (TypeError, zlib.error, UnicodeDecodeError):
                    yield str(value)
    db.close()


@dataclass
class Echo:
    """What the server does, and what it was sent."""

    port: int = 0
    mode: str = "completion"
    """completion, error, busy, page, broken or escaped: how it answers for a model."""
    received: list[str] = field(default_factory=list)
    """The credentials of each request, as it repeats them."""

    def url(self, path: str, info: str = "", query: str = "") -> str:
        """The address of one of its services, with user info and a query."""
        at, mark = f"{info}@" if info else "", f"?{query}" if query else ""
        return f"http://{at}127.0.0.1:{self.port}{path}{mark}"


def events(text: str, size: int) -> Iterator[bytes]:
    """A completion as server-sent events of a few characters each."""
    for at in range(0, len(text), size):
        yield f"data: {json.dumps({'choices': [{'delta': {'content': text[at : at + size]}}]})}\n\n".encode()
    yield b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'


def _completion(text: str, ids: Sequence[int] = ()) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, "reasoning_content": text}
    return {"choices": [{"message": message, "finish_reason": "stop", "token_ids": list(ids)}]}


class _Handler(QuietHandler):
    protocol_version = "HTTP/1.1"
    echo: Echo

    def do_GET(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))

    def _answer(self, body: Any) -> None:
        path, _, query = self.path.partition("?")
        names = ("authorization", "api-key", "x-api-key", "x-subscription-token")
        sent = [self.headers[name] for name in names if self.headers[name]]
        said = f"{SEEN}: {' '.join(sent)} {query}"
        self.echo.received.append(said)
        if path.endswith("/models"):
            self._send({"data": [{"id": "m", "owned_by": said}]})
        elif path.endswith("/embeddings"):
            self._send({"error": said}, 400)
        elif path.endswith("/retrieve"):
            found = {"document": {"id": said, "title": said, "contents": f"Orvane\n{said}"}, "score": 1.0}
            self._send({"result": [[found] for _ in body["queries"]]})
        elif path.endswith("/search"):
            self._send({"results": [{"url": f"https://example.org/{SEEN}", "title": said, "content": said}]})
        elif path.endswith("/execute"):
            self._send({"output": said, "result": None, "error": None})
        else:
            self._model(said, body)

    def _model(self, said: str, body: Any) -> None:
        mode, text = self.echo.mode, f"<think>{said}</think><answer>Kestel {said}</answer>"
        if mode == "error":
            self._send({"error": {"message": "x" * 940 + said, "code": said}}, 401)
        elif mode == "busy":
            self._send({"error": {"message": said}}, 503)
        elif mode == "page":
            self.send(f"<html>{'x' * 60}{said}</html>".encode(), 200, "text/html")
        elif mode == "broken":
            self.send(f"{'x' * 150}{said}".encode(), 200, "application/json")
        elif mode == "escaped":
            hidden = "".join(f"\\u{ord(letter):04x}" for letter in said)
            self.send(json.dumps(_completion("HERE")).replace("HERE", hidden).encode(), 200, "application/json")
        elif body.get("stream"):
            self.send(b"".join(events(text, 5)), 200, "text/event-stream")
        else:
            self._send(_completion(text, [1, 2, 3]))

    def _send(self, value: Any, status: int = 200) -> None:
        self.send(json.dumps(value).encode(), status, "application/json")


@contextmanager
def echoing() -> Iterator[Echo]:
    echo = Echo()
    handler = type("Handler", (_Handler,), {"echo": echo})
    with serving(handler) as url:
        echo.port = int(url.rpartition(":")[2])
        yield echo
