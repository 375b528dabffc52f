"""Citations: where in a file a passage is, as people cite it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FIELDS = ("file", "member", "url", "page", "slide", "sheet", "row", "row_end", "line", "line_end", "section")
"""The metadata that say where a passage is."""
SUPERSEDED = "superseded_by"
"""The metadata that name the newer version of the file."""


def place_of(meta: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of a passage that say where it is; nothing for one that does not come from a file."""
    found = {field: meta[field] for field in (*FIELDS, SUPERSEDED) if meta.get(field) not in (None, "")}
    return found if "file" in found or "url" in found else {}


def cite(place: Mapping[str, Any]) -> str:
    """`docs/report.pdf, page 3`: the file and the most exact place in it that a reader can turn to."""
    source = str(place.get("file") or place.get("url") or "")
    if not source:
        return ""
    parts = [f"{source}/{place['member']}" if "member" in place else source]
    if "page" in place:
        parts.append(f"page {place['page']}")
    elif "slide" in place:
        parts.append(f"slide {place['slide']}")
    else:
        if "sheet" in place:
            parts.append(f"sheet {place['sheet']}")
        elif "section" in place and "line" not in place:
            parts.append(f"section {place['section']}")
        for field in ("row", "line"):
            if field in place:
                end = place.get(f"{field}_end")
                parts.append(f"{field}s {place[field]} to {end}" if end else f"{field} {place[field]}")
    newer = f" (superseded by {place[SUPERSEDED]})" if SUPERSEDED in place else ""
    return ", ".join(parts) + newer
