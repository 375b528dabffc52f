"""Readers: the content of a file as text in its natural parts: pages, slides, rows, sections.

The index (`retrieval.ingest`) and the agents' file tool (`tools.files`) use them. A reader takes an open binary file
and yields `Part`s, in bounded memory wherever the format allows it. It raises DataError for what is damaged or exceeds
the limits, and MissingDependency where a library is not installed. `reader_pool` runs readers of binary formats in
separate processes with limits on memory and time, because a file from elsewhere may be made to break them.
"""

from importlib import import_module

from .file_kind import MEDIA, sniff, sniff_file
from .part import Part, Reader

__all__ = ["MEDIA", "Part", "Reader", "reader", "sniff", "sniff_file"]


_READERS = {
    "pdf": ("pdf", "read_pdf"),
    "docx": ("docx", "read_docx"),
    "pptx": ("pptx", "read_pptx"),
    "xlsx": ("xlsx", "read_xlsx"),
    "odt": ("opendocument", "read_opendocument"),
    "ods": ("opendocument", "read_opendocument"),
    "odp": ("opendocument", "read_opendocument"),
    "csv": ("tables", "read_csv"),
    "html": ("html", "read_html"),
    "json": ("records", "read_json"),
    "mail": ("mail", "read_mail"),
    "text": ("text", "read_text"),
    "image": ("images", "read_image"),
}


def reader(kind: str) -> Reader | None:
    """The reader of a kind that `sniff` names; None for what cannot be read as text."""
    if kind not in _READERS:
        return None
    module, name = _READERS[kind]
    found: Reader = getattr(import_module(f".{module}", __name__), name)
    return found
