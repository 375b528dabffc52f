"""Evidence: which sentence of which document that was read supports what was found.

Quotes are chosen by code from the documents themselves, so a citation can never be invented by a model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..record import Document, Evidence

_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[\w])|\n+")
_ABBREVIATION = re.compile(r"\b(?:[A-Z]|Mr|Mrs|Ms|Dr|St|Prof|Jr|Sr|vs|No|c|ca|e\.g|i\.e)\.$")


@dataclass(frozen=True, slots=True)
class Finding:
    """What a role concluded, and the documents it had read by then."""

    task: str
    result: str
    notes: str
    """What it wrote about the documents before it concluded (refine, filter)."""
    documents: Sequence[Document]
    trajectory: str = ""
    query: str = ""


def support(findings: Sequence[Finding]) -> tuple[Evidence, ...]:
    """For each finding the sentence that supports it best, where there is one; no quote twice."""
    quotes: dict[tuple[str, int], Evidence] = {}
    for finding in findings:
        evidence = _best(finding)
        if evidence is not None:
            quotes.setdefault((evidence.id, evidence.start), evidence)
    return tuple(quotes.values())


def _best(finding: Finding) -> Evidence | None:
    result = _words(finding.result)
    about = set(_words(finding.task)) | set(_words(finding.notes))
    if not result and not about:
        return None
    wanted = " ".join(result)
    best: tuple[float, Document, int, int] | None = None
    for document in finding.documents:
        titled = set(_words(document.title))
        for start, end in sentences(document.text):
            words = _words(document.text[start:end])
            if not words:
                continue
            states = bool(wanted) and f" {wanted} " in f" {' '.join(words)} "
            overlap = len(about & (set(words) | titled)) / max(len(about), 1)
            score = states + overlap
            if (states or overlap >= 0.6) and (best is None or score > best[0]):
                best = (score, document, start, end)
    if best is None:
        return None
    _, document, start, end = best
    return Evidence(document.id, document.title, document.text[start:end], start, finding.trajectory, finding.query)


def sentences(text: str) -> list[tuple[int, int]]:
    """Start and end of each sentence; an initial or a common abbreviation does not end one."""
    spans: list[tuple[int, int]] = []
    start = 0
    for match in _SENTENCE_END.finditer(text):
        if "\n" not in match[0] and _ABBREVIATION.search(text[max(start, match.start() - 6) : match.start()]):
            continue
        if text[start : match.start()].strip():
            spans.append((start, match.start()))
        start = match.end()
    if text[start:].strip():
        spans.append((start, len(text.rstrip())))
    return spans


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())
