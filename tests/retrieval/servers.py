"""A retrieval server on loopback that speaks Search-R1's form, with its failures on demand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..http_server import QuietHandler, serving


@contextmanager
def retrieval_server() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Its address and the requests it has seen. Some queries make it fail in their own way."""
    seen: list[dict[str, Any]] = []

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            before = sum(other["queries"] == body["queries"] for other in seen)
            seen.append(body)
            first = body["queries"][0]
            status = {"broken": 500, "refused": 422}.get(first, 200)
            if first == "flaky" and before == 0:
                status = 503
            result: Any = [
                [
                    {"document": {"id": "d1", "contents": f'"Title of {query}"\nBody'}, "score": 0.9},
                    {"title": "Plain", "text": "No id", "contents": "x"},
                ][: body["topk"]]
                for query in body["queries"]
            ]
            if first == "short":
                result = []
            if first == "half":  # of an emoji
                result = [[{"id": "1", "contents": '"T"\nBuilt in 1931 \ud83c'}]]
            if first == "textless":
                result = [[{"id": "1"}]]
            self.send(json.dumps({"what": 1} if first == "strange" else {"result": result}).encode(), status)

    with serving(Handler) as url:
        yield url, seen
