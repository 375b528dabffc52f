"""Questions with a picture: the name that they begin with is only in an attached image.

Worlds are text, so nothing in them needs an expert for media. Here a share of the questions says "the name in x.png" in
place of the name. The image is a plain PNG that carries the name as its caption (a tEXt chunk), and `picture_reader` is
a loopback endpoint that takes the place of the omni model and reads it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import struct
import threading
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from ..record import Question, Step

ASKED = "Which name stands in {}?"
_KEY = b"Caption\0"


def with_pictures(questions: Sequence[Question], share: float, folder: Path) -> list[Question]:
    """Every n-th of the questions that name what they begin with, its name moved into a picture."""
    every, found, seen = round(1 / share), [], 0
    folder.mkdir(parents=True, exist_ok=True)
    for question in questions:
        name = question.decomposition[0].support if question.decomposition else ""
        seen += bool(name) and question.question.count(name) == 1
        found.append(_pictured(question, name, folder) if seen == every else question)
        seen %= every
    return found


def _pictured(question: Question, name: str, folder: Path) -> Question:
    place = folder / f"{question.dataset}-{question.id}.png".replace("/", "-")
    place.write_bytes(png(name))
    first = Step(ASKED.format(place.name), name)
    text = question.question.replace(name, f"the name in {place.name}")
    # steps refer to earlier ones by number: the new one comes first, so they all move by one
    steps = tuple(replace(s, question=_moved(s.question)) for s in question.decomposition)
    return replace(question, question=text, decomposition=(first, *steps), files=(str(place),))


def _moved(text: str) -> str:
    return re.sub(r"#(\d+)", lambda m: f"#{int(m[1]) + 1}", text)


def png(caption: str) -> bytes:
    """A white pixel with a caption."""
    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    text, pixel = _KEY + caption.encode(), zlib.compress(b"\0" + b"\xff" * 3)
    parts = [(b"IHDR", head), (b"tEXt", text), (b"IDAT", pixel), (b"IEND", b"")]
    chunks = (struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in parts)
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def caption_of(content: bytes) -> str:
    """The caption of such a picture; empty where it has none."""
    at = content.find(b"tEXt" + _KEY)
    if at < 0:
        return ""
    length = struct.unpack(">I", content[at - 4 : at])[0]
    return content[at + 4 + len(_KEY) : at + 4 + length].decode()


class _Reader(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        content = self.rfile.read(length)
        if len(content) < length:  # the client was stopped
            return
        url = json.loads(content)["messages"][0]["content"][0]["image_url"]["url"]
        text = f"The picture shows the name {caption_of(base64.b64decode(url.partition(',')[2]))}."
        reply = json.dumps({"choices": [{"message": {"content": text}}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, format: str, *args: object) -> None:
        """Silent: requests are events of their episodes."""


@contextlib.contextmanager
def picture_reader() -> Iterator[None]:
    """The endpoint, which takes the place of the user's while it is open."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Reader)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    before = {name: os.environ.get(name) for name in ("SUBQUEST_OMNI_URL", "SUBQUEST_OMNI_MODEL")}
    os.environ |= {"SUBQUEST_OMNI_URL": f"http://127.0.0.1:{server.server_port}/v1", "SUBQUEST_OMNI_MODEL": "oracle"}
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        server.shutdown()
        server.server_close()
        thread.join()
