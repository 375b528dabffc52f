"""Answers as files: Markdown, HTML, DOCX and PDF. DOCX and PDF need the extra `subquest[report]`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from ..errors import MissingDependency, UsageError
from ..output_file import Kind, check_output, complete_file
from ..record import Episode

FORMATS: dict[str, Kind] = {"md": "markdown", "html": "html", "docx": "docx", "pdf": "pdf"}
"""By the ending of a file's name."""
MEDIA_TYPES = {
    "md": "text/markdown; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "pdf": "application/pdf",
}
_MODULES = {"docx": ("docx", "python-docx"), "pdf": ("fpdf", "fpdf2")}

__all__ = ["FORMATS", "MEDIA_TYPES", "check_export", "check_format", "export", "write_export"]


def export(episode: Episode, form: str) -> bytes:
    """An episode's answer as a document with its sources; `form` is one of FORMATS."""
    check_format(form)
    if form == "docx":
        from .word import to_docx

        return to_docx(episode)
    if form == "pdf":
        from .pdf_file import to_pdf

        return to_pdf(episode)
    if form == "html":
        from .html_page import to_html

        return to_html(episode).encode("utf-8", "replace")
    from .markdown import to_markdown

    return to_markdown(episode).encode("utf-8", "replace")


def check_format(form: str) -> None:
    """Raises UsageError if there is no such format, or a library for it is missing."""
    if form not in FORMATS:
        raise UsageError(f"there is no format {form!r}; answers are written as {', '.join(FORMATS)}")
    module, name = _MODULES.get(form, ("", ""))
    if module and find_spec(module) is None:
        raise MissingDependency(f"{name}, which writes {form.upper()} files,", "report")


def check_export(path: Path) -> None:
    """Raises UsageError if an answer cannot be written to a file; to be called before the question is asked."""
    form = path.suffix.lower().removeprefix(".")
    if form not in FORMATS:
        endings = ", ".join(f".{name}" for name in FORMATS)
        raise UsageError(f"cannot write {path}: the name decides the format; end it with {endings}")
    check_format(form)
    check_output(path, FORMATS[form])


def write_export(episode: Episode, path: Path) -> None:
    """Write an episode's answer to a file whose ending says the format."""
    data = export(episode, path.suffix.lower().removeprefix("."))
    with complete_file(path) as scratch:
        scratch.write_bytes(data)
