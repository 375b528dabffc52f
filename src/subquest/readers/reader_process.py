"""A process that reads files for `reader_pool`, under a memory limit that it cannot lift.

A request is a line of JSON with an open file (passed as a descriptor over the socket, so that the file cannot be
exchanged). The answer is a line of JSON for each part, its fields in order, and finally an object: `{"end": true}`, or
`{"error": reason}`.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import sys
from typing import Any, BinaryIO, TextIO

from ..errors import SubquestError
from . import reader

_REQUEST = 1 << 16
PART = 1 << 18
"""Characters of one answer; longer parts are sent in pieces."""
_TELL = 1000
"""After so many parts it is said how far the file is read."""


def main() -> None:
    memory = int(sys.argv[1])
    for limit, value in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
    ):
        resource.setrlimit(limit, (value, value))
    os.nice(1)
    out = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # what a library prints must not mix with the answers
    with socket.socket(fileno=0) as requests:
        while True:
            line, descriptors, _, _ = socket.recv_fds(requests, _REQUEST, 1)
            if not line:
                return
            with open(f"/proc/self/fd/{descriptors[0]}", "rb") as file:  # with a file position of its own
                os.close(descriptors[0])
                out.write(json.dumps(_answer(json.loads(line), file, memory, out), ensure_ascii=True) + "\n")
            out.flush()


def _answer(request: dict[str, Any], file: BinaryIO, memory: int, out: TextIO) -> dict[str, Any]:
    try:
        _read(request, file, out)
    except MemoryError:
        return {"error": f"reading it takes more than {memory / 1e9:.1f} GB of memory"}
    except SubquestError as error:
        return {"error": str(error)}
    except Exception as error:  # readers of broken files can raise anything
        return {"error": f"a damaged {request['kind']} file: {error or type(error).__name__}"}
    return {"end": True}


def _read(request: dict[str, Any], file: BinaryIO, out: TextIO) -> None:
    room = int(request["room"])
    found: Any
    if request["kind"] == "pdf" and request["ocr"]:
        from .pdf import read_pdf

        found = read_pdf(file, _recognise)
    else:
        read = reader(request["kind"])
        if read is None:
            raise ValueError(f"no reader for {request['kind']}")
        found = read(file)
    for number, part in enumerate(found, 1):
        if number % _TELL == 0:
            out.write(json.dumps({"at": file.tell()}) + "\n")
        room -= len(part.text) + 64
        if room < 0:
            raise ValueError("it holds far more text than a file of its size should: refused")
        text = part.text[2:-2] if part.row else part.text and f"{part.text}\n\n"
        for start in range(0, max(len(text), 1), PART):
            piece = text[start : start + PART]
            cells = part.cells if len(text) <= PART or not part.row else (piece,)
            sent = part._replace(text="" if part.row else piece, place=dict(part.place), cells=cells)
            sent = sent if start == 0 else sent._replace(uncomputed=0)
            out.write(json.dumps(sent, ensure_ascii=True) + "\n")


def _recognise(picture: Any) -> str:
    from .images import recognise

    return "\n".join(recognise(picture)[0])


if __name__ == "__main__":
    main()
