"""Readers: what stands in a file, as text in its natural parts: pages, slides, rows, sections.

They serve whoever meets files: the index (`retrieval.ingest`) and the agents' file tool (`tools.files`). A reader takes
an open binary file and yields `Part`s, in bounded memory wherever the form allows it. It raises DataError for what is
damaged or goes beyond the limits, and MissingDependency where a library is not installed. `worker` runs readers of
binary forms in a process of their own with limits on memory and time, because a file from elsewhere may be made to
break them.
"""

from .base import Part, Reader
from .kinds import MEDIA, sniff, sniff_file

__all__ = ["MEDIA", "Part", "Reader", "reader", "sniff", "sniff_file"]


def reader(kind: str) -> Reader | None:
    """The reader of a kind that `sniff` names; None for what cannot be read as text."""
    if kind == "pdf":
        from .pdf import read_pdf as found
    elif kind == "docx":
        from .docx import read_docx as found
    elif kind == "pptx":
        from .pptx import read_pptx as found
    elif kind == "xlsx":
        from .tables import read_xlsx as found
    elif kind == "csv":
        from .tables import read_csv as found
    elif kind == "html":
        from .html import read_html as found
    elif kind == "json":
        from .text import read_json as found
    elif kind == "text":
        from .text import read_text as found
    else:
        return None
    return found
