"""An answer as a Word document."""

from __future__ import annotations

import io
import re

from docx import Document

from ..record import Episode, Report
from .markdown import answer_text, cited, sources_of, support_line

_FORBIDDEN = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot hold."""


def to_docx(episode: Episode) -> bytes:
    report = episode.report or Report("short")
    document = Document()
    document.core_properties.title = _clean(report.title or episode.question.question)[:255]
    document.add_heading(_clean(report.title or episode.question.question), 0)
    if not report.sections:
        document.add_paragraph(_clean(answer_text(episode)))
    for section in report.sections:
        if section.title:
            document.add_heading(_clean(section.title), 1)
        paragraph = document.add_paragraph()
        for sentence in section.sentences:
            paragraph.add_run("".join(map(_clean, cited(sentence))) + " ")
        if not section.sentences:
            paragraph.add_run(_clean(f"{section.missing[:1].upper()}{section.missing[1:]}.")).italic = True
    if note := support_line(episode):
        document.add_paragraph().add_run(note).italic = True
    if episode.evidence:
        document.add_heading("Sources", 1)
    for number, (where, quote, mark) in enumerate(sources_of(episode.evidence), 1):
        paragraph = document.add_paragraph(f"[{number}] {_clean(where)}: ")
        paragraph.add_run(f"“{_clean(quote)}”").italic = True
        paragraph.add_run(mark)
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("", text)
