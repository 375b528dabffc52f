"""Whether a text keeps facts: every value stands near its subject, exactly, and no other name or number is added."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from ..data.self_instruct import holds, mentions
from ..english import MONTHS
from .organisation import Fact, Thing

SHORT = "too short"
LONG = "too long, or cut off"
PLACEHOLDER = "a placeholder or the model's own words"
LOST = "a fact was lost"
APART = "a value is far from its subject"
NUMBER = "a number was added"
NAME = "a name was added"
REPEATED = "a sentence is repeated"
MADE_UP = "a name stands beside a subject that it does not belong to"
DIFFERENT = "a reader understands it differently"

_MARKUP = re.compile(r"<[^>]*>|[*_`#|]+")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_ORDINAL = re.compile(r"^\s*(?:[-*•]\s*)?\d{1,2}[.)]\s+", re.MULTILINE)
_PLACEHOLDER = re.compile(
    r"\[[^\]]*\]|\{[^}]*\}|\b(?:TBD|TBC|N/A|XX+|lorem|as an ai|language model|insert|your name|the facts)\b",
    re.IGNORECASE,
)
_DATED = re.compile(rf"\b(?:{'|'.join(MONTHS)})\b")
_NAMES = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]+(?: [A-Z][a-z]+)+")
_TITLED = re.compile(r"\b(?:Mr|Mrs|Ms|Miss|Dr|Prof)\.? +([A-Z][\w-]+)")
SMALL_NUMBERS = frozenset(
    ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "fifteen", "twenty",
     "thirty", "forty", "fifty", "sixty", "ninety", "hundred", "thousand", "million", "dozen")
)  # fmt: skip


def plain(text: str) -> str:
    """A text without the signs of Markdown and HTML."""
    return html.unescape(_MARKUP.sub(" ", text))


def blocks(text: str) -> list[str]:
    """Paragraphs; lines of a list or table count with the line before the first of them."""
    return [block for block in re.split(r"\n\s*\n|</(?:p|tr|ul|ol|table|h\d|section)>", text) if block.strip()]


def flaw(text: str, facts: Sequence[Fact], *, known: Iterable[Thing], allowed: Iterable[str], topic: str = "") -> str:
    """Why a text must not be used; empty if it keeps every fact and adds none.

    `known` are all things of the organisation, `allowed` the names that may stand in the text beside those of the
    facts, and `topic` the subject of the whole text, near which every line of it is.
    """
    bare = plain(text)
    if len(bare.split()) < 15 + 5 * len(facts):
        return SHORT
    if _PLACEHOLDER.search(text):
        return PLACEHOLDER
    if missing(text, facts) or (topic and not mentions(bare, key_of(topic))):
        return LOST
    if any(fact.subject != topic and not is_near(text, fact) for fact in facts):
        return APART
    reason = _added(bare, _own(facts, allowed, topic), known)
    if not reason and not topic and _misplaced(text, facts):
        reason = MADE_UP
    return reason or (REPEATED if _repeats(bare) else "")


def missing(text: str, facts: Iterable[Fact]) -> list[Fact]:
    """The facts whose value a text lacks."""
    bare = plain(text)
    return [fact for fact in facts if not holds(bare, fact.value)]


def pruned(text: str, facts: Sequence[Fact], *, known: Iterable[Thing], allowed: Iterable[str], topic: str = "") -> str:
    """The text without its sentences that hold something added and no fact."""
    own, things = _own(facts, allowed, topic), list(known)

    def stays(part: str) -> bool:
        bare = plain(part)
        if any(holds(bare, fact.value) for fact in facts):
            return True
        return not _PLACEHOLDER.search(part) and not _added(bare, own, things)

    lines = []
    for line in text.split("\n"):
        element = re.fullmatch(r"\s*<(\w+)[^>]*>.*</\1>\s*", line)
        parts = [line] if element or "<" in line else re.split(r"(?<=[.!?])\s+", line)
        kept = [part for part in parts if ("<" in part and not element) or stays(part)]
        if kept or not line.strip():
            lines.append(" ".join(kept))
    return "\n".join(lines)


def key_of(name: str) -> str:
    """What a text must have of a name: of a version of a policy, the policy's number."""
    return name.rpartition(" ")[2] if " of policy " in name else name


def _own(facts: Iterable[Fact], allowed: Iterable[str], topic: str) -> set[str]:
    return {*allowed, topic, *(n for f in facts for n in (f.subject, f.value))} - {""}


def _misplaced(text: str, facts: Sequence[Fact]) -> bool:
    """Whether a sentence names a subject and a value, and no fact joins the value to a subject of the sentence."""
    values = {f.value for f in facts}
    subjects = {f.subject for f in facts}
    for sentence in re.split(r"\n+|(?<=[.!?])\s+|</\w+>", plain(text)):
        named = {name for name in subjects if mentions(sentence, name)}
        joined = {f.value for f in facts if f.subject in named} | named
        if named and any(value not in joined and holds(sentence, value) for value in values):
            return True
    return False


def is_near(text: str, fact: Fact) -> bool:
    """Whether some block has the value and its subject; people may go by their family name."""
    names = [fact.subject, *([fact.subject.split()[-1]] if fact.kind == "person" else [])]
    found = [plain(block) for block in blocks(text)]
    return any(holds(block, fact.value) and any(mentions(block, name) for name in names) for block in found)


def _added(bare: str, own: set[str], known: Iterable[Thing]) -> str:
    """Whether a text has a number, date or name that is not its own."""
    rest = bare
    low = bare.casefold()
    for name in sorted((n for n in own if n.casefold() in low), key=len, reverse=True):
        rest = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", " ", rest, flags=re.IGNORECASE)
    rest = _ORDINAL.sub(" ", rest)
    if _NUMBER.search(rest) or _DATED.search(rest) or SMALL_NUMBERS & set(re.findall(r"[a-z]+", rest)):
        return NUMBER
    families = {name.split()[-1] for name in own}
    low = rest.casefold()  # most names are not there: a look is cheaper than a pattern
    for thing in known:
        first, *others = thing.name.split()
        if thing.name in own or first.casefold() not in low:
            continue
        person = thing.kind in ("person", "outsider")  # may go by a given name
        if mentions(rest, thing.name) or (person and others[-1] not in families and mentions(rest, first)):
            return NAME
    parts = {word for name in own for word in name.split()}
    if _TITLED.search(rest):
        return NAME
    for found in _NAMES.findall(rest):
        if not any(word in parts or word.lower() in bare.split() for word in found.split()):
            return NAME
    return ""


def _repeats(bare: str) -> bool:
    told = [s.strip().casefold() for s in re.split(r"[.!?]\s|\n", bare)]
    long = [s for s in told if len(s) > 25]
    return len(set(long)) < len(long)
