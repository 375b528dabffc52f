"""PDF by page, through pdfium; tables by row where the layout shows them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from ..english import counted
from ..errors import DataError, MissingDependency
from .part import Part, Place, row_of
from .pdf_tables import tables_of

_HYPHEN = re.compile("[\ufffe\xad\x02]\r?\n?")
_DPI = 200
_LONGEST_CAPTION = 100
_NUMBERED = re.compile(r"tab[a-z]*\.? [A-Z]?\d", re.IGNORECASE)
"""*Table 1*, *Tab. A2*, *Tabelle 3*."""
_ENDS = (".", ",", ";", "!", "?")
_WRONG = 100
"""Broken pages before the rest is skipped: a file may claim to have a billion."""
_NO_TITLES = frozenset({"untitled", "untitled document", "(anonymous)", "(unspecified)"})
"""Titles that programs write by default."""
Recognise = Callable[[Any], str]
"""Recognises the text in an image."""


def read_pdf(file: BinaryIO, recognise: Recognise | None = None) -> Iterator[Part]:
    """One part per page, or several where it has tables; pages without text are empty, or their image is read by
    `recognise`.

    Pages that cannot be read are skipped; a DataError names them after the others.
    """
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
        if document.get_formtype():
            document.init_forms()
        wrong: list[str] = []
        for number in range(1, len(document) + 1):
            try:
                parts = _page(document, number, recognise)
            except pypdfium2.PdfiumError as error:
                wrong.append(f"page {number} cannot be read: {error}")
                if len(wrong) > _WRONG:
                    break
                continue
            for part in parts:
                yield part._replace(title=title)
                title = ""
        if wrong:
            raise DataError(
                wrong[0] + (f" (nor can {counted(len(wrong) - 1, 'other page')})" if len(wrong) > 1 else "")
            )
    finally:
        document.close()


def _page(document: Any, number: int, recognise: Recognise | None) -> list[Part]:
    place = {"page": number}
    page = document[number - 1]
    try:
        if document.formenv:
            page.flatten()  # form entries become part of the page
            page.close()
            page = document[number - 1]
        words = page.get_textpage()
        try:
            text = str(words.get_text_bounded())
            if not text.strip():
                text = str(words.get_text_range())  # all text is outside the page, which happens with rotated pages
            if text.strip() or recognise is None:
                return _parts(words, text, place)
        finally:
            words.close()
        return [Part(recognise(page.render(scale=_DPI / 72).to_pil()), place)]
    finally:
        page.close()


def _parts(words: Any, text: str, place: Place) -> list[Part]:
    """The text of a page, with the rows of its tables where they stand."""
    found: list[Part] = []
    top = None
    for table in tables_of(words):
        if above := _clean(str(words.get_text_bounded(bottom=table.top, top=top))):
            found.append(Part(above, place))
        section = (caption,) if (caption := _caption(above)) else ()
        found += [row_of(cells, {**place, "row": n}, section) for n, cells in enumerate(table.rows, 1)]
        top = table.bottom
    if found and (below := _clean(str(words.get_text_bounded(top=top)))):
        found.append(Part(below, place))
    if not found or sum(_letters("".join(part.cells) or part.text) for part in found) < _letters(_clean(text)):
        return [Part(_clean(text), place)]  # no tables, or some text stands where none was looked for
    return found


def _caption(above: str) -> str:
    """What a table is called: the line above it, unless it ends a sentence."""
    line = above.rpartition("\n")[2].strip()
    return line if len(line) <= _LONGEST_CAPTION and (_NUMBERED.match(line) or not line.endswith(_ENDS)) else ""


def _letters(text: str) -> int:
    return len("".join(text.split()))


def _clean(text: str) -> str:
    return _HYPHEN.sub("", text).replace("\r\n", "\n").strip()
