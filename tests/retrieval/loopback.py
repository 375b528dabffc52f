"""A server on loopback that plays one side of a recorded conversation and is strict about the other.

An exchange file is a list of `{"request": {"method", "path", "query", "headers", "body"}, "response": {"status",
"body"}}`. Requests must come in this order and be equal to the recorded ones, to the last field; a `body` that is a
list stands for NDJSON. What differs is kept in `problems` and answered with status 418, so that a test can show it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from ..http_server import QuietHandler, serving

FOLDER = Path(__file__).parent / "exchanges"


class Conversation:
    """What is to be said, and what went wrong."""

    def __init__(self, exchanges: list[dict[str, Any]]) -> None:
        self.left = list(exchanges)
        self.problems: list[str] = []
        self.lock = threading.Lock()

    def answer(self, request: dict[str, Any]) -> tuple[int, Any]:
        with self.lock:
            if not self.left:
                self.problems.append(f"nothing more was expected, but: {request}")
                return 418, {}
            wanted = self.left[0]["request"]
            asked = {name: request[name] for name in ("method", "path", "query", "body")}
            asked["headers"] = {name: request["headers"].get(name) for name in wanted.get("headers", {})}
            expected = {"query": {}, "headers": {}, "body": None, **wanted}
            if not same(asked, expected):
                self.problems.append(f"expected {expected}\nbut got {asked}")
                return 418, {}
            response = self.left.pop(0)["response"]
            return response["status"], response["body"]


def same(one: Any, other: Any) -> bool:
    """Equal, but for the last digits of floats, which differ between processors."""
    if isinstance(one, float) and isinstance(other, int | float):
        return abs(one - other) < 1e-5
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def recorded(name: str, **places: str) -> list[dict[str, Any]]:
    """The exchanges of a file; `{name}` in it stands for what is only known now."""
    text = (FOLDER / f"{name}.json").read_text()
    for place, value in places.items():
        text = text.replace(f"{{{place}}}", value)
    found: list[dict[str, Any]] = json.loads(text)
    return found


@contextmanager
def play(exchanges: list[dict[str, Any]]) -> Iterator[tuple[str, Conversation]]:
    """The server's address and the conversation; at the end everything must have been said."""
    conversation = Conversation(exchanges)

    class Handler(QuietHandler):
        def reply(self) -> None:
            parts = urlsplit(self.path)
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            kind = self.headers.get("Content-Type", "")
            body: Any = None
            if content and kind == "application/x-ndjson":
                body = [json.loads(line) for line in content.splitlines()]
            elif content:
                body = json.loads(content) if kind == "application/json" else f"content of type {kind!r}"
            request = {
                "method": self.command,
                "path": parts.path,
                "query": dict(parse_qsl(parts.query)),
                "headers": {name.lower(): value for name, value in self.headers.items()},
                "body": body,
            }
            status, answer = conversation.answer(request)
            self.send((answer if isinstance(answer, str) else json.dumps(answer)).encode(), status)

        do_GET = do_POST = do_PUT = do_DELETE = reply

    with serving(Handler) as url:
        yield url, conversation
    assert not conversation.problems, "\n".join(conversation.problems)
    assert not conversation.left, f"{len(conversation.left)} exchanges were not asked for"
