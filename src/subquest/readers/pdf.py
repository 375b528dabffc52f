"""PDF by page, through pdfium."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from ..errors import DataError, MissingDependency
from .base import Part

_HYPHEN = re.compile("[\ufffe\xad\x02]\r?\n?")
_DPI = 200
_NO_TITLES = frozenset({"untitled", "untitled document", "(anonymous)", "(unspecified)"})
"""What programs write where nobody gave a title."""
Recognise = Callable[[Any], str]
"""The text in a picture."""


def read_pdf(file: BinaryIO, recognise: Recognise | None = None) -> Iterator[Part]:
    """A part a page; pages without text are empty, or read by `recognise` from their picture."""
    try:
        import pypdfium2
    except ImportError:
        raise MissingDependency("the PDF reader", "web-tools") from None
    try:
        document = pypdfium2.PdfDocument(file)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise DataError("the PDF is encrypted; it can be read after its password is removed") from None
        raise DataError(f"a damaged pdf file: {error}") from None
    try:
        title = str(document.get_metadata_dict().get("Title", "")).strip()
        title = "" if title.lower() in _NO_TITLES else title
        for number in range(1, len(document) + 1):
            text = _page(pypdfium2, document, number, recognise)
            yield Part(text, {"page": number}, title=title if number == 1 else "")
    finally:
        document.close()


def _page(pypdfium2: Any, document: Any, number: int, recognise: Recognise | None) -> str:
    try:
        page = document[number - 1]
    except pypdfium2.PdfiumError as error:
        raise DataError(f"page {number} cannot be read: {error}") from None
    try:
        words = page.get_textpage()
        text = str(words.get_text_bounded())
        words.close()
        if text.strip() or recognise is None:
            return _HYPHEN.sub("", text).replace("\r\n", "\n").strip()
        return recognise(page.render(scale=_DPI / 72).to_pil())
    finally:
        page.close()
