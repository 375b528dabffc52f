"""An answer in sentences as Markdown: sections, numbered citations, and the list of what is cited."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ..citation import cite
from ..record import Episode, Evidence, Report, Section, Sentence

_SPECIAL = re.compile(r"([\\`*_<>\[\]])")
_ENDING = re.compile(r"[.!?]+[\"')\]]*$")


def to_markdown(episode: Episode) -> str:
    """A whole document: the title, the sections and the sources. Text of documents cannot act as markup."""
    report = episode.report or Report("short")
    parts = [f"# {_escaped(report.title or episode.question.question)}"]
    if report.sections:
        parts += [_section(section, _escaped) for section in report.sections]
    else:
        parts.append(_escaped(answer_text(episode)))
    if note := support_line(episode):
        parts.append(f"*{note}*")
    return "\n\n".join([*parts, *_sources(episode.evidence, _escaped)]) + "\n"


def answer_text(episode: Episode) -> str:
    """A short answer, or a sentence that says why there is none."""
    return episode.answer or _sentence(episode.why_no_answer)


def support_line(episode: Episode) -> str:
    """What a reader must know of an answer that is not supported, as a sentence; of a report its sections say it."""
    report = episode.report is not None and episode.report.style == "report"
    return "" if report or not episode.support_note else _sentence(episode.support_note)


def written_text(sections: Iterable[Section], sources: Sequence[Evidence]) -> str:
    """The sections and their sources as they are read in a terminal."""
    return "\n\n".join([*map(section_text, sections), *_sources(sources, str)])


def section_text(section: Section) -> str:
    """One section as it is read in a terminal."""
    return _section(section, str)


def cited(sentence: Sentence, mark: str = "[{}]") -> tuple[str, str, str]:
    """A sentence as its words, its citations and its full stop: `… in Kestel`, ` [1]`, `.`."""
    ending = _ENDING.search(sentence.text)
    words = sentence.text[: ending.start()] if ending else sentence.text
    marks = "".join(mark.format(number) for number in sentence.sources)
    return words, f" {marks}" if marks else "", ending[0] if ending else ""


class Source(NamedTuple):
    """A source as it is listed."""

    where: str
    """Its title, with page and line."""
    quote: str
    mark: str
    """` (states the answer)` for the one of several that does."""


def sources_of(evidence: Sequence[Evidence]) -> list[Source]:
    found = []
    for each in evidence:
        place = cite(each.place) or each.id
        mark = " (states the answer)" if each.states_answer and len(evidence) > 1 else ""
        found.append(Source(f"{each.title}, {place}" if each.title else place, each.quote, mark))
    return found


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _section(section: Section, escape: Callable[[str], str]) -> str:
    sentences = []
    for sentence in section.sentences:
        words, marks, ending = cited(sentence)
        sentences.append(f"{escape(words)}{marks}{ending}")
    body = " ".join(sentences) or escape(_sentence(section.missing))
    return f"## {escape(section.title)}\n\n{body}" if section.title else body


def _sources(sources: Sequence[Evidence], escape: Callable[[str], str]) -> list[str]:
    lines = []
    for number, (where, quote, mark) in enumerate(sources_of(sources), 1):
        lines.append(f'[{number}] {escape(where)}: "{escape(" ".join(quote.split()))}"{mark}')
    return ["## Sources", "\n\n".join(lines)] if lines else []


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
