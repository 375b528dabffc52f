"""PowerPoint presentations by slide, in the order they are shown, with speaker notes."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Collection, Iterator
from typing import BinaryIO

from ..errors import DataError
from .archive import ZipLimits, open_zip
from .office_xml import Start, core_title, events, related
from .part import Part, row_text

_SHAPES = frozenset({"sp", "graphicFrame", "pic", "cxnSp", "grpSp"})
_SLIDE = re.compile(r"ppt/slides/slide(\d+)\.xml")


def read_pptx(file: BinaryIO, limits: ZipLimits | None = None) -> Iterator[Part]:
    """A part a slide; slides without words are empty."""
    with open_zip(file, limits) as archive:
        title = core_title(archive)
        for number, name in _slides(archive):
            heading, paragraphs = _words(archive, name)
            paragraphs += _beside(archive, name, ("chart", "diagramData"))
            spoken = _beside(archive, name, ("notesSlide",))
            if spoken:
                paragraphs += ["Notes:", *spoken]
            yield Part("\n".join(paragraphs), {"slide": number}, (heading,) if heading else (), title)
            title = ""


def _slides(archive: zipfile.ZipFile) -> list[tuple[int, str]]:
    """Number and name of the slides as they are shown; by the names of their files where the order is not recorded."""
    named = sorted((int(m[1]), m[0]) for m in map(_SLIDE.fullmatch, archive.namelist()) if m)
    if "ppt/presentation.xml" not in archive.NameToInfo:
        return named
    references = related(archive, "ppt/presentation.xml")
    shown: list[str] = []
    with archive.open("ppt/presentation.xml") as stream:
        for event in events(stream, "ppt/presentation.xml"):
            if isinstance(event, Start) and event.tag == "sldId":
                target = references.get(event.attributes.get("id", ""), ("", ""))[1]
                if target in archive.NameToInfo:
                    shown.append(target)
    return list(enumerate(shown, 1)) if shown else named


def _beside(archive: zipfile.ZipFile, name: str, kinds: Collection[str]) -> list[str]:
    """The paragraphs of what belongs to a slide and is stored separately."""
    paths = [path for kind, path in related(archive, name).values() if kind in kinds and path in archive.NameToInfo]
    lines = [_words(archive, path)[1] for path in paths]
    return [line for part in lines for line in dict.fromkeys(part)]  # each series of a chart names all columns


def _words(archive: zipfile.ZipFile, name: str) -> tuple[str, list[str]]:
    """The title and all paragraphs of a slide; the slide's number, date and footer are left out."""
    if name not in archive.NameToInfo:
        raise DataError(f"a damaged pptx file: it has no {name}")
    heading = ""
    paragraphs: list[str] = []
    text: list[str] = []
    cells: list[str] = []
    kind, inside, skipped, cached, cell = "", False, 0, False, 0
    with archive.open(name) as stream:
        for event in events(stream, name):
            if isinstance(event, str):
                if inside and not skipped:
                    text.append(event)
                continue
            inside = isinstance(event, Start) and (event.tag == "t" or (cached and event.tag == "v"))
            if isinstance(event, Start):
                if event.tag in _SHAPES:
                    kind = ""
                elif event.tag == "Fallback":  # the same content again, for older programs
                    skipped += 1
                elif event.tag == "ph":
                    kind = event.attributes.get("type", "body")
                elif event.tag == "strCache":  # the names of a chart's rows and columns
                    cached = True
                elif event.tag in ("p", "pt"):
                    text = []
                elif event.tag == "tr":
                    cells = []
                elif event.tag == "tc":
                    cell = len(paragraphs)
                elif event.tag in ("tab", "br"):
                    text.append(" ")
            elif event.tag == "Fallback":
                skipped -= 1
            elif event.tag == "strCache":
                cached = False
            elif event.tag == "p" or (cached and event.tag == "pt"):
                line = "".join(text).strip()
                if line and kind not in ("sldNum", "dt", "ftr"):
                    paragraphs.append(line)
                    if kind in ("title", "ctrTitle"):
                        heading = f"{heading} {line}".strip()
            elif event.tag == "tc":
                cells.append(" ".join(paragraphs[cell:]))
                del paragraphs[cell:]
            elif event.tag == "tr" and any(cells):
                paragraphs.append(row_text(cells))
    return heading, paragraphs
