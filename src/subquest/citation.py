"""Citations: where in a file a passage or a quote is, as people cite it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

FIELDS = (
    *("file", "member", "url", "page", "slide", "sheet"),
    *("row", "row_end", "line", "line_end", "paragraph", "section"),
)
"""The metadata that say where a passage is."""
SUPERSEDED = "superseded_by"
"""The metadata that name the newer version of the file."""
STEPS = "line_steps"
"""The metadata that say where lines of the file begin in a passage (`line_steps`)."""
KEPT = "kept_parts"
"""The metadata of a cut passage that say where its parts stand in the whole one (`keep_parts`)."""
_COUNTED = ("row", "line", "paragraph")
_WRITTEN = re.compile(r"(?:\d{1,9}(?::-?\d{1,9})?(?: |$))*")


class KeptParts(NamedTuple):
    """The parts of a passage that were kept."""

    begins: tuple[tuple[int, int], ...]
    """Where each begins in the text that is left, and in the whole one."""


def place_of(meta: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of a passage that say where it is; nothing for one that does not come from a file."""
    found = {field: meta[field] for field in (*FIELDS, SUPERSEDED) if meta.get(field) not in (None, "", 0)}
    return found if "file" in found or "url" in found else {}


def place_in(meta: Mapping[str, Any], text: str, start: int, end: int) -> dict[str, Any]:
    """Where a quote is that stands at text[start:end] of a passage: with its own row, line or paragraph, if known.

    Without a quote (start is end), where the passage is.
    """
    place = place_of(meta)
    for field in _COUNTED if start < end else ():
        first = line_at(meta, text, start, field)
        if not place or first is None:
            continue
        place[field] = first
        if (last_field := f"{field}_end") in place:
            place[last_field] = line_at(meta, text, end - 1, field)
            if place[last_field] == first:
                del place[last_field]
        if not first:  # above the first paragraph
            del place[field]
    return place


def line_at(meta: Mapping[str, Any], text: str, at: int, field: str = "line") -> int | None:
    """The line (or the row, the paragraph) of the file in which a character of a passage stands; None if unknown."""
    line, last, steps = meta.get(field), meta.get(f"{field}_end"), meta.get(STEPS)
    if not isinstance(line, int):
        return None
    if not isinstance(steps, str) or not _WRITTEN.fullmatch(steps):
        rows = isinstance(last, int) and last - line == text.count("\n")
        return line + text.count("\n", 0, at) if rows else None
    begin = 0
    line += text.count("\n", 0, at)
    for step in steps.split():
        distance, _, lines = step.partition(":")
        begin += int(distance)
        if begin > at:
            break
        line += int(lines or 1)
    return line


def line_steps(text: str, begins: Iterable[tuple[int, int]]) -> str:
    """Where the line number of the file and that of a passage's text come apart, for `line_at`.

    `begins` are the places in the text at which lines of the file begin, each with the number of the line. Wrapped
    lines that were joined, lines that were left out and rows of several lines are steps: `63 72:2` says that at
    character 63 the file is one line further than the line ends of the text, and 72 characters later two more.
    """
    steps: list[str] = []
    before = counted = 0
    ahead: int | None = None
    ends = 0
    for offset, line in begins:
        ends += text.count("\n", counted, offset)
        counted = offset
        if ahead is None:
            ahead = line - ends
        if more := line - ends - ahead:
            steps.append(f"{offset - before}:{more}" if more != 1 else f"{offset - before}")
            before, ahead = offset, ahead + more
    return " ".join(steps)


def keep_parts(
    meta: Mapping[str, Any], text: str, parts: Sequence[tuple[int, int]], gap: str
) -> tuple[dict[str, Any], str]:
    """A passage of which only some parts are kept, each from a start to before an end, with `gap` between them: its
    metadata, by which what is quoted from it is cited as before, and its text. By `KEPT` a place in the new
    text is found in the whole one (`place_in_whole`)."""
    kept = gap.join(text[start:end] for start, end in parts)
    shifts = list(
        accumulate((len(gap) + end - begin for (_, end), (begin, _) in pairwise(parts)), initial=-parts[0][0])
    )
    found, written = dict(meta), str(meta.get(STEPS) or "")
    found[KEPT] = KeptParts(
        tuple(
            (place + shift, place_in_whole(meta, place))
            for (start, end), shift in zip(parts, shifts, strict=True)
            for place in (start, *(begin for begin, _ in _kept(meta) if start < begin < end))
        )
    )
    steps = [int(step.partition(":")[0]) for step in written.split()] if _WRITTEN.fullmatch(written) else []
    begins = [
        (place, place + shift)
        for (start, end), shift in zip(parts, shifts, strict=True)
        for place in (start, *(step for step in accumulate(steps) if start < step < end))
    ]
    for field in _COUNTED:
        lines = [line_at(meta, text, place, field) for place in (*(old for old, _ in begins), parts[-1][1] - 1)]
        known = [line for line in lines if line is not None]
        if len(known) < len(lines):
            continue
        found[field], last = known[0], known.pop()
        found[STEPS] = line_steps(kept, zip((new for _, new in begins), known, strict=True))
        if (last_field := f"{field}_end") in found:
            found[last_field] = last
            if last == found[field]:
                del found[last_field]
    return found, kept


def place_in_whole(meta: Mapping[str, Any], at: int) -> int:
    """Where a character of a passage stands in the whole one, of which it may have only some parts."""
    return at + next((place - begin for begin, place in reversed(_kept(meta)) if begin <= at), 0)


def _kept(meta: Mapping[str, Any]) -> tuple[tuple[int, int], ...]:
    kept = meta.get(KEPT)
    return kept.begins if isinstance(kept, KeptParts) else ()  # a corpus may have a field of this name


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
        for field in _COUNTED:
            if field in place:
                end = place.get(f"{field}_end")
                parts.append(f"{field}s {place[field]} to {end}" if end else f"{field} {place[field]}")
    newer = f" (superseded by {place[SUPERSEDED]})" if SUPERSEDED in place else ""
    return ", ".join(parts) + newer
