"""English around names: articles, possessives, lists in a sentence, pronouns."""

from __future__ import annotations

import re

from .entity import Entity

SMALL_NUMBERS = (
    "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
)  # fmt: skip
PRONOUNS = {
    "male": {word: word for word in ("he", "his", "him", "son", "man", "wife", "husband")},
    "female": {"he": "she", "his": "her", "him": "her", "son": "daughter", "man": "woman", "wife": "husband",
               "husband": "wife"},
    "it": {"he": "it", "his": "its", "him": "it"},
}  # fmt: skip
"""What the male form of a word becomes."""
_ARTICLE = re.compile(r"\b([Aa])~ (\W*)(\w+)")
_DEFINITE = frozenset(("river", "museum", "war", "battle", "treaty", "party", "award", "bridge"))
_DEFINITE_COMPANIES = re.compile(r"^(Bank|House) of |(Line|Company|Savings Bank|Brewery|Shipyard)$")


def definite(e: Entity) -> str:
    """The name with "the" where English wants it: the Tolvik River, but Mount Tolvik."""
    name = e.name
    if e.kind in _DEFINITE or (e.kind == "university" and name.startswith("University")):
        return f"the {name}"
    if e.kind == "newspaper" and not name.startswith("The "):
        return f"the {name}"
    return f"the {name}" if e.kind == "company" and _DEFINITE_COMPANIES.search(name) else name


def described(e: Entity, name: str) -> str:
    """A name that several entities share, with what its title's bracket says: the painter X (born 1893)."""
    label, _, rest = e.title[len(e.name) + 2 : -1].partition(", ")
    return f"the {label} {name} ({rest})" if rest else f"the {label} {name}"


def fix_articles(text: str) -> str:
    """`a~ umber house` to `an umber house`, by sound as far as spelling shows it."""
    if "a~" not in text and "A~" not in text:
        return text

    def article(match: re.Match[str]) -> str:
        a, gap, word = match.groups()
        low = word.lower()
        vowel = low[0] in "aeiou" and not low.startswith(("uni", "eu", "one", "use", "ut"))
        if low[0] == "8" or low[:2] in ("11", "18") or low.startswith("hour"):
            vowel = True
        return f"{a}{'n' if vowel else ''} {gap}{word}"

    return _ARTICLE.sub(article, text)


def capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]


def possessive(name: str) -> str:
    return f"{name}'" if name.endswith("s") else f"{name}'s"


def join(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
