"""A search worker: a process of its own that searches one index for the server. Run by `workers`, never by hand.

    in    length, then JSON: {"queries", "k"}
    out   length, then for each query a length and the JSON text of its hits; where it failed: 0, then a message

All lengths are four bytes, little end first. It ends when its input does, so it cannot outlive the server.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from typing import BinaryIO

import orjson

from ..record import Document, Hit
from ..retrieval import Index


def contents(document: Document) -> dict[str, str]:
    """A document in Search-R1's form."""
    return {"id": document.id, "contents": f'"{document.title}"\n{document.text}'}


def rendered(hits: Sequence[Hit]) -> bytes:
    """The hits of one query in Search-R1's form with scores."""
    return orjson.dumps([{"document": contents(hit.document), "score": hit.score} for hit in hits])


def packed(parts: Sequence[bytes]) -> bytes:
    return b"".join(len(part).to_bytes(4, "little") + part for part in parts)


def unpacked(data: bytes) -> list[bytes]:
    parts, place = [], 0
    while place < len(data):
        size = int.from_bytes(data[place : place + 4], "little")
        parts.append(data[place + 4 : place + 4 + size])
        place += 4 + size
    return parts


def serve(index: Index, source: BinaryIO, sink: BinaryIO) -> None:
    while head := source.read(4):
        request = orjson.loads(source.read(int.from_bytes(head, "little")))
        try:
            found = index.search_many(request["queries"], request["k"])
            body = packed([rendered(hits) for hits in found])
        except Exception as error:
            body = packed([b"", f"{type(error).__name__}: {error}".encode()])
        sink.write(len(body).to_bytes(4, "little") + body)
        sink.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which then closes our input
    with Index.open(sys.argv[1], mode=sys.argv[2]) as opened:  # type: ignore[arg-type]
        serve(opened, sys.stdin.buffer, sys.stdout.buffer)
