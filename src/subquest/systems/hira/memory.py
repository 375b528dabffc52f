"""The dual-channel memory: what experts have found, and where (HiRA's paper, "Dual-Channel Memory Mechanism").

    fact memory       statements with their source; statements that say the same and have the same source are merged
    resource memory   what can be read or used again: a description and a path (URL, file or variable)

What is worth remembering is the coordinator's decision: its prompts ask it to leave out failed attempts and guesses. No
rule looks into a fact: "the first attempts failed in 1922" is one. Code keeps out what it can know to be useless: empty
entries, repetitions, and addresses that are none or did not open.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

_WORD = re.compile(r"\w+")
_SOURCE = re.compile(r"\s?\[\s?sources?\s?:", re.IGNORECASE)
SAME = 0.7
"""Share of common words from which on a line of a reply counts as an entry of memory."""
_LITTLE = frozenset(
    _WORD.findall(
        "a an the is are was were be been being has have had do does did of in on at to by for from with as and or "
        "that this these those its it his her their which who whose there all also very"
    )
)
"""Words that two statements of the same fact may differ in."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing remembered."""

    text: str
    source: str
    """Where a fact was found, or the path of a resource."""
    kind: str
    """fact or resource."""

    @property
    def line(self) -> str:
        return f"{self.text} [Source: {self.source}]" if self.kind == "fact" else f"{self.text}: {self.source}"


class Memory:
    """What one run remembers, in the order in which it was found."""

    def __init__(self, url_is_bad: Callable[[str], bool] = lambda url: False) -> None:
        self.entries: list[Entry] = []
        self._url_is_bad = url_is_bad

    def add_fact(self, statement: str) -> Entry | None:
        """Remember `statement [Source: …]`; None if it is kept out."""
        text, source = _with_source(" ".join(statement.split()))
        return self._add(Entry(text, source or "Not Specified", "fact"))

    def add_resource(self, description: str, path: str) -> Entry | None:
        return self._add(Entry(" ".join(description.split()), " ".join(path.split()), "resource"))

    def _add(self, entry: Entry) -> Entry | None:
        if not entry.text or not entry.source or self.is_poor(entry):
            return None
        for at, known in enumerate(self.entries):
            if known.kind == entry.kind and known.source == entry.source and _same(known.text, entry.text):
                kept = max(known, entry, key=lambda e: len(e.text))
                self.entries[at] = kept
                return None if kept is known else kept
        self.entries.append(entry)
        return entry

    def is_poor(self, entry: Entry) -> bool:
        """Whether an entry points to a URL that is none or did not open."""
        place = entry.source
        looks_like_url = "://" in place or (entry.kind == "resource" and place.startswith("www."))
        return looks_like_url and (not _valid(place) or self._url_is_bad(place))

    def relevant(self, task: str, limit: int) -> list[Entry]:
        """The entries that share most words with a task, in the order of memory: the fallback for a model's choice."""
        wanted = set(_words(task))
        good = [entry for entry in self.entries if not self.is_poor(entry)]
        shared = {id(e): len(wanted & set(_words(e.line))) / max(len(wanted), 1) for e in good}
        best = sorted((e for e in good if shared[id(e)] >= 0.2), key=lambda e: -shared[id(e)])[:limit]
        return [entry for entry in good if entry in best]

    def chosen(self, reply: str, limit: int) -> list[Entry] | None:
        """The entries that a model's reply names, by `Memory Fact N` or by their words; None if it names none.

        An entry comes from memory or not at all: a reply cannot put anything into it.
        """
        good: list[Entry] = []
        words = [set(_words(entry.line)) for entry in self.entries]
        said_none = bool(re.search(r"\bnone\b|no (?:relevant )?memor", reply, re.IGNORECASE))
        for line in reply.splitlines():
            match = re.match(r"\W*memory\s*(?:fact\s*)?(\d{1,6})\W*(.*)", line.strip(), re.IGNORECASE)
            text = match[2] if match else line
            entry = self._like(text, words) or (self._at(int(match[1])) if match else None)
            if entry is not None and len(good) < limit and entry not in good and not self.is_poor(entry):
                good.append(entry)
        if not good and not said_none:
            return None
        return [entry for entry in self.entries if entry in good[:limit]]

    def _at(self, number: int) -> Entry | None:
        return self.entries[number - 1] if 1 <= number <= len(self.entries) else None

    def _like(self, text: str, known: Sequence[set[str]]) -> Entry | None:
        """The entry that shares most words with a text, where they are enough; `known` are the words of each."""
        words = set(_words(text))
        if len(words) < 3:
            return None
        shared = [_overlap(words, entry) for entry in known]
        best = max(range(len(shared)), key=lambda at: shared[at], default=-1)
        return self.entries[best] if best >= 0 and shared[best] >= SAME else None


def rendered(entries: Sequence[Entry]) -> str:
    """Entries as an expert reads them."""
    return "\n".join(f"Memory Fact {n}: {entry.line}" for n, entry in enumerate(entries, 1)) or "none"


def _with_source(statement: str) -> tuple[str, str]:
    """A statement and what stands in the brackets at its end, if they name a source."""
    head, bracket, end = statement.rpartition("]")
    found = _SOURCE.search(head, head.rfind("]") + 1) if bracket and end.strip() in ("", ".") else None
    return (statement[: found.start()], head[found.end() :].strip()) if found else (statement, "")


def _same(first: str, second: str) -> bool:
    """Whether one statement says all that the other says: every word of it that carries meaning, and the same numbers.

    Facts of one page are often worded alike ("A was born in X", "B was born in X"): one other name is another fact.
    """
    words = [set(_words(text)) - _LITTLE or set(_words(text)) for text in (first, second)]
    return (words[0] <= words[1] or words[1] <= words[0]) and _numbers(first) == _numbers(second)


def _overlap(first: set[str], second: set[str]) -> float:
    """Common words over the words of the shorter."""
    return len(first & second) / max(min(len(first), len(second)), 1)


def _numbers(text: str) -> set[str]:
    """Numbers, and words that negate a statement."""
    return set(re.findall(r"\d+|\b(?:not?|never|nor|neither|without)\b|n't\b", text.casefold()))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _valid(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    host = parts.hostname or ""
    return parts.scheme in ("http", "https") and bool(host) and " " not in url
