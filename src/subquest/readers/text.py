"""Plain text: from bytes of unknown encoding to lines of bounded length."""

from __future__ import annotations

import codecs
import contextlib
import io
import json
from collections.abc import Iterator
from importlib.util import find_spec
from typing import BinaryIO, TextIO

from .part import Part

MAX_LINE = 1 << 20
"""Characters of one line; a longer one is yielded in pieces."""
_JSON_BYTES = 64 << 20
_SAMPLE = 1 << 14
"""Bytes from which the encoding is guessed."""
_FEW = 8
"""Fewer bytes above 127 than this do not identify a script."""
_FOREIGN = 0.3
"""From this share of bytes above 127 on, a text is not a western one with a few accents."""
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip


def _as_western(error: UnicodeError) -> tuple[str, int]:
    """Bytes that are not UTF-8, read as Windows' western encoding, so that nothing is lost."""
    if not isinstance(error, UnicodeDecodeError) or error.encoding != "utf-8":
        return codecs.replace_errors(error)  # type: ignore[return-value]
    wrong = error.object[error.start : error.end]
    return "".join(bytes([byte]).decode("cp1252", "replace") for byte in wrong), error.end


codecs.register_error("subquest-western", _as_western)
ERRORS = "subquest-western"


def decode(content: bytes) -> str:
    """Bytes as text: by their byte-order mark, else UTF-8, with stray bytes read as Windows' western encoding.

    Text that is mostly not UTF-8 and full of bytes above 127 is in another script: the most likely encoding is used,
    where the extra `web-tools` is installed.
    """
    return content.decode(encoding_of(content[:_SAMPLE]), ERRORS)


@contextlib.contextmanager
def opened(file: BinaryIO) -> Iterator[TextIO]:
    """The file as text, with its own line ends."""
    encoding = encoding_of(file.read(_SAMPLE))
    file.seek(0)
    wrapper = io.TextIOWrapper(file, encoding=encoding, errors=ERRORS, newline="")
    try:
        yield wrapper
    finally:
        wrapper.detach()


def lines(file: BinaryIO) -> Iterator[str]:
    """The lines of a file with their ends, overlong ones in pieces of MAX_LINE characters."""
    with opened(file) as text:
        while line := text.readline(MAX_LINE):
            yield line


def read_text(file: BinaryIO) -> Iterator[Part]:
    for number, line in enumerate(lines(file), 1):
        yield Part(line, {"line": number})


def read_json_text(file: BinaryIO) -> Iterator[Part]:
    """A JSON document, one value per line; what is not JSON, or very large, as plain text."""
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


def encoding_of(head: bytes) -> str:
    """The encoding of a text, from its first bytes."""
    if marked := next((name for mark, name in _BOMS if head.startswith(mark)), ""):
        return marked
    if not _is_foreign(head):
        return "utf-8"
    try:
        from resiliparse.parse.encoding import detect_encoding
    except ImportError:
        return "utf-8"
    found = str(detect_encoding(head))
    try:
        codecs.lookup(found)
    except LookupError:
        return "utf-8"
    return found


def is_unguessed(file: BinaryIO) -> bool:
    """Whether a text is in another script and its encoding cannot be guessed here: it is read as western letters."""
    head = file.read(_SAMPLE)
    file.seek(0)
    return not head.startswith(tuple(mark for mark, _ in _BOMS)) and _is_foreign(head) and not can_guess()


def can_guess() -> bool:
    """Whether encodings can be guessed here (the extra `web-tools`)."""
    return find_spec("resiliparse") is not None


def _is_foreign(head: bytes) -> bool:
    """Whether a text is mostly not UTF-8 and full of bytes above 127."""
    high = sum(byte > 127 for byte in head) if not head.isascii() else 0
    return high >= max(_FEW, _FOREIGN * len(head)) and 2 * _strays(head) >= high


def _strays(head: bytes) -> int:
    """How many bytes are not UTF-8; a character that the end of the sample cuts does not count."""
    count = at = 0
    while at < len(head):
        try:
            head[at:].decode()
            break
        except UnicodeDecodeError as error:
            if at + error.end == len(head) and error.reason == "unexpected end of data":
                break
            count += error.end - error.start
            at += error.end
    return count
