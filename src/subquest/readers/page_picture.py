"""A page of a PDF as it looks, with the place of a quote on it.

The page is drawn in a process of its own with limits on memory and time, because a file from elsewhere may be made to
break the library that draws it.
"""

from __future__ import annotations

import base64
import ctypes
import json
import math
import resource
import struct
import subprocess
import sys
import unicodedata
import zlib
from typing import Any, BinaryIO

from ..codec import Record, checked
from ..errors import DataError, MissingDependency, SubquestError
from .reader_pool import MEMORY

WIDTH = 1240
"""Pixels of a page of ordinary shape: 150 a inch on A4."""
PIXELS = 4_000_000
SECONDS = 60.0


class PagePicture(Record, frozen=True):
    page: int
    """From 1."""
    pages: int
    width: int
    """In pixels."""
    height: int
    png: str
    """The picture, in base64."""
    marks: tuple[tuple[float, float, float, float], ...] = ()
    """Where the quote stands: left, top, width and height, as shares of the page."""


def page_picture(file: BinaryIO, number: int, quote: str = "") -> PagePicture:
    """Draw a page of an open PDF. Raises DataError where that is not possible, with the reason."""
    command = [sys.executable, "-m", "subquest.readers.page_picture", str(number)]
    try:
        done = subprocess.run(
            [*command, base64.b64encode(quote.encode("utf-8", "replace")).decode()],
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise DataError(f"drawing page {number} takes more than {SECONDS:.0f} seconds, gave up") from None
    if done.returncode:
        raise DataError(f"page {number} cannot be drawn: the file is damaged, or takes more memory than it is allowed")
    answer = json.loads(done.stdout)
    if "missing" in answer:
        raise MissingDependency("pictures of PDF pages", "web-tools")
    if "error" in answer:
        raise DataError(answer["error"])
    return checked(PagePicture, answer, f"the picture of page {number}")


def draw(file: BinaryIO, number: int, quote: str) -> dict[str, Any]:
    try:
        import pypdfium2
    except ImportError:
        raise MissingDependency("pictures of PDF pages", "web-tools") from None
    try:
        document = pypdfium2.PdfDocument(file)
        pages = len(document)
        if not 1 <= number <= pages:
            raise DataError(f"there is no page {number}: the file has {pages}")
        if document.get_formtype():
            document.init_forms()
        page = document[number - 1]
        width, height = page.get_size()
        scale = min(WIDTH / width, math.sqrt(PIXELS / (width * height)))
        bitmap = page.render(scale=scale, rev_byteorder=True, prefer_bgrx=False)
        return {
            "page": number,
            "pages": pages,
            "width": bitmap.width,
            "height": bitmap.height,
            "png": base64.b64encode(_png(bitmap)).decode(),
            "marks": _marks(page, quote),
        }
    except (pypdfium2.PdfiumError, ZeroDivisionError) as error:
        raise DataError(f"page {number} cannot be drawn: {error}") from None


def _png(bitmap: Any) -> bytes:
    """The bitmap as a PNG file of eight bits a channel."""
    channels, stride, data = bitmap.n_channels, bitmap.stride, memoryview(bitmap.buffer)
    line = bitmap.width * channels
    rows = b"".join(b"\0" + data[at : at + line] for at in range(0, bitmap.height * stride, stride))
    colour = {1: 0, 3: 2, 4: 6}[channels]
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", bitmap.width, bitmap.height, 8, colour, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows, 6)),
        (b"IEND", b""),
    )
    out = b"\x89PNG\r\n\x1a\n"
    for kind, content in chunks:
        out += struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    return out


_CLOSING = frozenset(".,;:!?)]\"'”’»")


def _marks(page: Any, quote: str) -> list[tuple[float, float, float, float]]:
    """Where a quote stands, a rectangle for each line; none if it is not on the page word for word.

    Only letters and digits are compared: lines, hyphens and cells are divided otherwise on the page than in a passage.
    """
    from pypdfium2 import raw

    wanted = "".join(_signs(quote))
    if not wanted:
        return []
    words = page.get_textpage()
    letters: list[str] = []
    places: list[int] = []
    for at in range(words.count_chars()):
        for sign in _signs(chr(raw.FPDFText_GetUnicode(words, at))):
            letters.append(sign)
            places.append(at)
    found = "".join(letters).find(wanted)
    if found < 0:
        return []
    first, last = places[found], places[found + len(wanted) - 1]
    while last + 1 < words.count_chars() and chr(raw.FPDFText_GetUnicode(words, last + 1)) in _CLOSING:
        last += 1
    marks = []
    for number in range(words.count_rects(first, last - first + 1)):
        left, bottom, right, top = words.get_rect(number)
        corners = [_shown_at(raw, page, x, y) for x, y in ((left, top), (right, bottom))]
        (x0, x1), (y0, y1) = (sorted(axis) for axis in zip(*corners, strict=True))
        marks.append((x0, y0, x1 - x0, y1 - y0))
    return marks


def _signs(text: str) -> list[str]:
    """The letters and digits of a text, without differences of case and form."""
    return [sign for sign in unicodedata.normalize("NFKC", text).casefold() if sign.isalnum()]


_FINE = 100_000


def _shown_at(raw: Any, page: Any, x: float, y: float) -> tuple[float, float]:
    """A point of the page as shares of its picture, which may be turned or cropped."""
    across, down = ctypes.c_int(), ctypes.c_int()
    raw.FPDF_PageToDevice(page, 0, 0, _FINE, _FINE, 0, x, y, ctypes.byref(across), ctypes.byref(down))
    return across.value / _FINE, down.value / _FINE


def main() -> None:
    for limit, value in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0)):
        resource.setrlimit(limit, (value, value))
    quote = base64.b64decode(sys.argv[2]).decode()
    with open("/proc/self/fd/0", "rb") as file:
        try:
            answer = draw(file, int(sys.argv[1]), quote)
        except MissingDependency:
            answer = {"missing": True}
        except SubquestError as error:
            answer = {"error": str(error)}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
