"""Which documents are older versions of others, by what they say about themselves and by the names of their files.

Near its beginning or in its front matter a document may name its version (`Version: 2.1`), what it replaces
(`Supersedes: Travel policy 2023`, `This plan replaces version 1`) or what has replaced it (`Superseded by …`). Such a
statement counts only if it points to another document that is here: by file name, by title, or, for a document of the
same title, by version or date. Dates alone are no versions: the minutes of May do not replace those of April.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

from ...codec import Record
from ...english import MONTHS
from ...record import Document
from .versions import are_related, newer_versions, version_in

HEAD = 1500
"""Characters of a document in which it speaks of itself."""
_HEADING = 80
"""Characters of a first line that may be a title."""
_NUMBER = r"(\d{1,3}(?:\.\d{1,3}){0,3})"
_OWN_VERSION = re.compile(
    rf"(?:^|[\n|·•,;(]|[.!?]\s)[\s*_#>-]*(?:document\s+)?(?:version|revision|rev|issue|edition)\b[\s.:*_#|-]*{_NUMBER}(?![\d.]*\d)",
    re.IGNORECASE,
)
_ANY_VERSION = re.compile(rf"\b(?:version|revision|rev|issue|edition|v)[\s.:]*{_NUMBER}\b", re.IGNORECASE)
_TARGET = r"[\s:*_|-]+([^\n;]{2,160}?)(?=[.!?]?\s*(?:\n|$)|[.!?]\s|;)"
_SELF = (
    r"(?:^|[\n.!?;|,(])[\s*_#>|-]*(?:(?:this|the present)\b(?:[^\n.!?;]|\.(?=\S)){0,80}?\s|it\s+)?"
    r"(?:(?:also|hereby|fully|now|is|was|ha(?:s|ve)\s+been)\s+)*"
)
"""The beginning of a line or sentence about the document itself: `This policy …`, or nothing before the verb."""
_REPLACES = re.compile(rf"{_SELF}(?:supersed(?:es|ing)|replac(?:es|ing))\b{_TARGET}", re.IGNORECASE)
_REPLACED = re.compile(rf"{_SELF}(?:superseded|replaced)[\s_]+by\b{_TARGET}", re.IGNORECASE)
_EARLIER = re.compile(r"\b(?:previous|earlier|older|former|prior|preceding|last)\b", re.IGNORECASE)
_MONTHS = [name[:3].lower() for name in MONTHS]
_MONTH = rf"({'|'.join(_MONTHS)})[a-z]*"
_DATES = (
    (re.compile(r"\b(\d{4})-(\d{1,2})-(\d{1,2})\b"), (0, 1, 2)),
    (re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?\s+{_MONTH}\.?,?\s+(\d{{4}})\b", re.IGNORECASE), (2, 1, 0)),
    (re.compile(rf"\b{_MONTH}\.?\s+(\d{{1,2}})(?:st|nd|rd|th)?,?\s+(\d{{4}})\b", re.IGNORECASE), (2, 0, 1)),
)
"""How dates are written, and at which places year, month and day are."""


class Stated(Record):
    """What a document says about itself."""

    title: str = ""
    version: tuple[int, ...] = ()
    """As it says, or else as the name of its file does."""
    date: str = ""
    """The first that is named, as 2024-05-01."""
    replaces: tuple[str, ...] = ()
    """What it replaces, in its own words."""
    replaced_by: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        """The title without version and date: what all versions of a document share."""
        return _words(
            re.sub(r"\b(?:19|20)\d\d\b", " ", _without_dates(_ANY_VERSION.sub(" ", self.title.replace("_", " "))))
        )


def stated_in(documents: Iterable[Document]) -> Stated:
    """What the first passages of a file say about it."""
    passages = list(documents)
    if not passages:
        return Stated()
    fields = {name.casefold().replace("-", "_"): value for name, value in passages[0].meta.items()}
    file = PurePosixPath(str(fields.get("file", ""))).name
    title = re.sub(r" \(superseded by .*\)$", "", passages[0].title).partition(" > ")[0]
    first = passages[0].text.partition("\n")[0].strip(" #*=-\t")
    if title == file and len(first) <= _HEADING:  # a text without headings
        title = first or title
    text = "\n".join(passage.text for passage in passages)[:HEAD]
    replaces = (*_listed(fields, "supersedes", "replaces"), *(found[1].strip() for found in _REPLACES.finditer(text)))
    by = (*_listed(fields, "replaced_by"), *(found[1].strip() for found in _REPLACED.finditer(text)))
    own = _REPLACED.sub(" ", _REPLACES.sub(" ", text))
    version = next(
        (
            found[1]
            for where, pattern in (
                (" ".join(f"version {value}" for value in _listed(fields, "version", "revision")), _ANY_VERSION),
                (title, _ANY_VERSION),
                (own, _OWN_VERSION),
            )
            if (found := pattern.search(where))
        ),
        "",
    )
    named = version_in(file)
    number = _number(version) or (_without_zeros(named.number) if named else ())
    dates = (*_listed(fields, "date", "effective", "valid_from", "updated"), title, own)
    return Stated(title, number, next((date for where in dates for date in _dates(where)), ""), replaces, by)


def replaced_files(stated: Mapping[str, Stated], names: Iterable[str]) -> dict[str, str]:
    """The newest version of each file that has a newer one, by the names of files and by what they state."""
    newer = newer_versions(names)
    subjects: dict[str, list[str]] = {}
    called: dict[str, list[str]] = {}
    for name, one in stated.items():
        if one.subject:
            subjects.setdefault(one.subject, []).append(name)
        for words in _names(name, one):
            called.setdefault(words, []).append(name)
    for name, one in stated.items():
        if not (one.version or one.replaces or one.replaced_by):
            continue
        family = [other for other in subjects.get(one.subject, ()) if other != name]
        for target in one.replaces:
            for other in _meant(target, name, stated, family, called):
                newer.setdefault(other, name)
        for target in one.replaced_by:
            for other in _meant(target, name, stated, family, called)[:1]:
                newer.setdefault(name, other)
        later = [
            other
            for other in family
            if one.version and stated[other].version > one.version and are_related(name, other)
        ]
        if later:
            newer.setdefault(name, max(later, key=lambda other: stated[other].version))
    return _newest(newer)


def _newest(newer: Mapping[str, str]) -> dict[str, str]:
    """For each file the end of its chain; those that claim to replace each other are left out."""
    ends: dict[str, str] = {}
    for name in newer:
        chain: dict[str, None] = {}
        while name in newer and name not in ends and name not in chain:
            chain[name] = None
            name = newer[name]
        end = "" if name in chain else ends.get(name, name)
        ends.update(dict.fromkeys(chain, end))
    return {name: end for name, end in ends.items() if end}


def _names(name: str, one: Stated) -> set[str]:
    """What others call a document: its file, with or without the suffix, and its title; no single ordinary word."""
    file = PurePosixPath(name)
    found = {_words(file.stem), _words(one.title)}
    return {_words(file.name), *(words for words in found if " " in words or re.search(r"\d", words))}


def _meant(
    target: str, name: str, stated: Mapping[str, Stated], family: list[str], called: Mapping[str, list[str]]
) -> list[str]:
    """The files that a document means: by file name, by title, or as an earlier version of itself."""
    words, one = _words(target).split(), stated[name]
    stretches = (" ".join(words[a:b]) for a in range(len(words)) for b in range(len(words), a, -1))
    own = _names(name, one)
    for stretch in sorted({s for s in stretches if s in called and s not in own}, key=len, reverse=True):
        if found := [other for other in called[stretch] if other != name]:
            return found
    if (version := _ANY_VERSION.search(target)) is not None:
        number = _number(version[1])
        known = [other for other in family if stated[other].version]
        if found := [other for other in known if stated[other].version == number]:
            return found
        unknown = [other for other in family if not stated[other].version]
        return unknown if len(unknown) == 1 and not known else []
    if dates := set(_dates(target)):
        return [other for other in family if stated[other].date in dates]
    if _EARLIER.search(target) or (one.subject and f" {one.subject} " in f" {' '.join(words)} "):
        return [other for other in family if _is_earlier(stated[other], one)]
    return []


def _is_earlier(old: Stated, new: Stated) -> bool:
    if old.version and new.version:
        return old.version < new.version
    return bool(old.date and new.date) and old.date < new.date


def _listed(fields: Mapping[str, object], *names: str) -> tuple[str, ...]:
    values = (fields[name] for name in names if fields.get(name))
    return tuple(str(item) for value in values for item in (value if isinstance(value, list) else [value]))


def _number(text: str) -> tuple[int, ...]:
    return _without_zeros(tuple(int(part) for part in text.split("."))) if text else ()


def _without_zeros(number: tuple[int, ...]) -> tuple[int, ...]:
    """Version 2.0 is version 2."""
    while number[-1:] == (0,):
        number = number[:-1]
    return number


def _dates(text: str) -> Iterator[str]:
    for pattern, (year, month, day) in _DATES:
        for found in pattern.finditer(text):
            parts = found.groups()
            number = parts[month] if parts[month].isdigit() else _MONTHS.index(parts[month][:3].lower()) + 1
            yield f"{parts[year]}-{int(number):02}-{int(parts[day]):02}"


def _without_dates(text: str) -> str:
    for pattern, _ in _DATES:
        text = pattern.sub(" ", text)
    return text


def _words(text: str) -> str:
    return " ".join(re.findall(r"[^\W_]+", text.casefold()))
