"""A real /v1/embeddings server on loopback whose vectors are bags of hashed words: near texts, near vectors."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..http_server import QuietHandler, serving

WIDTH = 64


def vector(text: str, width: int = WIDTH) -> list[float]:
    out = [0.001] * width
    for word in re.findall(r"\w+", text.lower()):
        out[zlib.crc32(word.encode()) % width] += 1.0
    return out


@contextmanager
def embeddings_server(
    width: int = WIDTH, *, keys: list[str] | None = None
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Its base address and the requests it has seen; `fail` in a text makes it refuse, `busy` makes it busy once,
    `locked` makes it ask for a key.
    What it was shown as `Authorization` goes to `keys`."""
    seen: list[dict[str, Any]] = []

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.append(body)
            if keys is not None:
                keys.append(self.headers.get("Authorization", ""))
            status = 400 if any("fail" in text for text in body["input"]) else 200
            if any("locked" in text for text in body["input"]):
                status = 401
            if any("busy" in text for text in body["input"]) and seen.count(body) == 1:
                status = 503
            data = [{"index": i, "embedding": vector(text, width)} for i, text in enumerate(body["input"])]
            self.send(json.dumps({"data": data[::-1]}).encode(), status)

    with serving(Handler) as url:
        yield f"{url}/v1", seen
