"""An answer as a PDF file.

The fonts that every PDF reader has know western letters only; for others, a font of this machine is embedded.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fpdf import FPDF

from ..errors import UsageError
from ..record import Episode, Report
from .markdown import answer_text, cited, sources_of, support_line

FONTS = ("DejaVuSans.ttf", "NotoSans-Regular.ttf", "LiberationSans-Regular.ttf", "FreeSans.ttf", "Arial Unicode.ttf")
"""Looked for in this order, in the folders where systems keep fonts; `SUBQUEST_FONT` names another file."""
_FOLDERS = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.fonts", "~/.local/share/fonts", "/Library/Fonts")
_WESTERN = str.maketrans("‘’“”–—•\u2212", "''\"\"----", "")


def to_pdf(episode: Episode) -> bytes:
    report = episode.report or Report("short")
    title = _clean(report.title or episode.question.question)
    blocks: list[tuple[int, str]] = [(18, title)]
    if not report.sections:
        blocks.append((11, _clean(answer_text(episode))))
    for section in report.sections:
        if section.title:
            blocks.append((14, _clean(section.title)))
        text = " ".join("".join(cited(sentence)) for sentence in section.sentences)
        blocks.append((11, _clean(text or f"{section.missing[:1].upper()}{section.missing[1:]}.")))
    if note := support_line(episode):
        blocks.append((11, note))
    if episode.evidence:
        blocks.append((14, "Sources"))
    for number, (where, quote, mark) in enumerate(sources_of(episode.evidence), 1):
        blocks.append((10, _clean(f'[{number}] {where}: "{quote}"{mark}')))
    return _laid_out(title, blocks)


def _laid_out(title: str, blocks: list[tuple[int, str]]) -> bytes:
    """Text of several sizes below each other, on as many pages as it needs."""
    pdf = FPDF()
    western = [(size, text.translate(_WESTERN).replace("…", "...")) for size, text in blocks]
    if all(_is_western(text) for _, text in western):
        font, blocks = "Helvetica", western
    else:
        font = "text"
        _add_font(pdf, font, "".join(text for _, text in blocks))
    pdf.set_title(title)
    pdf.set_auto_page_break(True, margin=20)
    pdf.add_page()
    for size, text in blocks:
        pdf.set_font(font, size=size)
        pdf.multi_cell(0, size * 0.5, text, new_x="LMARGIN", new_y="NEXT", align="L")
        pdf.ln(2)
    return bytes(pdf.output())


def _add_font(pdf: Any, name: str, text: str) -> None:
    """Embed the first font that has all characters of a text."""
    tried = []
    for path in _fonts():
        pdf.add_font(name, fname=str(path))
        known = pdf.fonts[name].cmap
        missing = next((c for c in text if ord(c) not in known and not c.isspace()), "")
        if not missing:
            return
        tried.append(f"{path.name} has no {missing!r}")
        del pdf.fonts[name]
    why = "; ".join(tried) or "no font was found"
    raise UsageError(f"cannot write a PDF in these letters ({why}): set SUBQUEST_FONT to a TrueType font that has them")


def _fonts() -> list[Path]:
    given = os.environ.get("SUBQUEST_FONT")
    if given:
        if not Path(given).is_file():
            raise UsageError(f"SUBQUEST_FONT: there is no font file {given}")
        return [Path(given)]
    found: dict[str, Path] = {}
    for folder in map(os.path.expanduser, _FOLDERS):
        for place, _, files in os.walk(folder):
            found |= {name: Path(place, name) for name in files if name in FONTS}
    return [found[name] for name in FONTS if name in found]


def _is_western(text: str) -> bool:
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        return False
    return True


def _clean(text: str) -> str:
    """One line without control characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
