"""Plain text: from bytes of unknown encoding to lines of bounded length."""

from __future__ import annotations

import codecs
import io
import json
from collections.abc import Iterator
from typing import BinaryIO

from .base import Part

MAX_LINE = 1 << 20
"""Characters that are held of one line; a longer one comes in stretches."""
_JSON_BYTES = 64 << 20
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip


def _as_western(error: UnicodeError) -> tuple[str, int]:
    """Bytes that are not UTF-8 as what they most likely were, Windows' western set, so that nothing is lost."""
    if not isinstance(error, UnicodeDecodeError) or error.encoding != "utf-8":
        return codecs.replace_errors(error)  # type: ignore[return-value]
    wrong = error.object[error.start : error.end]
    return "".join(bytes([byte]).decode("cp1252", "replace") for byte in wrong), error.end


codecs.register_error("subquest-western", _as_western)
ERRORS = "subquest-western"


def decode(content: bytes) -> str:
    """Bytes as text: by their byte-order mark, else UTF-8, with stray bytes read as Windows' western set."""
    return content.decode(_encoding(content), ERRORS)


def lines(file: BinaryIO) -> Iterator[str]:
    """The lines of a file with their ends, overlong ones in stretches of MAX_LINE characters."""
    encoding = _encoding(file.read(4))
    file.seek(0)
    wrapper = io.TextIOWrapper(file, encoding=encoding, errors=ERRORS, newline="")
    try:
        while line := wrapper.readline(MAX_LINE):
            yield line
    finally:
        wrapper.detach()


def read_text(file: BinaryIO) -> Iterator[Part]:
    for number, line in enumerate(lines(file), 1):
        yield Part(line, {"line": number})


def read_json(file: BinaryIO) -> Iterator[Part]:
    """A JSON document, one value a line; what is not JSON, or very large, as the text it is."""
    content = file.read(_JSON_BYTES + 1)
    if len(content) > _JSON_BYTES:
        file.seek(0)
        yield from read_text(file)
        return
    text = decode(content)
    try:
        yield Part(json.dumps(json.loads(text), ensure_ascii=False, indent=1))
    except (ValueError, RecursionError):
        yield Part(text)


def _encoding(head: bytes) -> str:
    return next((name for mark, name in _BOMS if head.startswith(mark)), "utf-8")
