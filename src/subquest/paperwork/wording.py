"""Whether a model's wording of a question can take the place of the plain one: it keeps the names, gives nothing away
and asks for the same thing. What is worked out (a comparison, a sum) must show in the words, and so must the kind of
answer: who learns from a wording that has lost it learns to guess what is meant."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from ..data.self_instruct import mentions
from . import fact_check
from .questions import Asked, Facts

UNCHANGED = "unchanged"
MALFORMED = "not one question"
LEAK = "it holds its answer, or what a step finds"
LOST = "a name was lost"
OTHERWISE = "it asks for something else"
LONGEST = 60
"""Words."""


def _any(words: str) -> re.Pattern[str]:
    return re.compile(r"\b(?:" + "|".join(word.strip() for word in words.split(";")) + r")\b", re.IGNORECASE)


_NO_QUESTION = re.compile(
    r"[\[\]{}#*]|\b(?:sorry|language model|as an ai|more information|more details|clarify|you are referring)\b"
    r"|\bso I can\b",
    re.IGNORECASE,
)
_QUESTION_WORD = _any(r"(?<!person )(?<!people )(?<!one )who; whom; whose; when; where; which; what; how")
_MORE = r"""than; below; above; under; over; before; after; earlie\w+; later; latest; sooner; first; last; old\w+;
    newer; newest; recent\w*; high\w+; low\w+; larg\w+; small\w+; bigg\w+; great\w+; more; most; less; lesser; least;
    few\w+; long\w+; short\w+; cheap\w*; costlier; faster; slower; quicker; exceeds?; precedes?; predates?"""
_SIGNS = {
    "pick": _any(_MORE),
    "order": _any(_MORE),
    "same": _any(r"same; identical\w*; equal\w*; share[sd]?; both; match\w*; coincide\w*; differ\w*; also; too"),
    "sum": _any(r"""total\w*; together; combined?; sum; altogether; add\w*; overall; in all; cumulative; aggregate;
        (?:amounts?|comes?) to"""),
    "difference": _any(r"difference; differ\w*; gap; margin; exceeds?; more; higher; greater; less; lower; how much"),
    "count": _any("how many; number; count; how large; how big"),
}  # fmt: skip
"""By operation, words of which a wording needs one."""
_OPEN = re.compile(
    r"(?:who|when|where|which|what|how)\b|(?:can|could|do|would) you\b(?!.*\b(?:if|whether)\b)", re.IGNORECASE
)
"""How a question begins that yes or no does not answer."""
_DATE = _any("when; dates?; day; since; deadline; due; year; until; how long ago; (?:what|which) time; month")
_NO_SUM = re.compile(r"(?:\w+ )?(?:who|whom|whose|when|where|why|how (?:many|long|often|old|far))\b", re.IGNORECASE)
"""How a question begins that no sum of money answers."""
_OF_SOMEONE = _any("who; people; person; supplier; company; team")
_EMPTY = _any("""can; could; would; will; you; your; we; us; our; i; me; my; please; tell; let; know; about; need; want;
    like; ask; is; are; was; were; be; do; does; did; has; have; had; the; an?; of; for; to; in; on; at; by; with; and;
    or; any; some; there; it; its; what; what's; which; information; details?; thing; one; this; that; name; named;
    called""")  # fmt: skip
"""Words that say nothing of what is asked."""


def wording_flaw(made: str, asked: Asked, facts: Facts) -> str:
    """Why a wording is not as good as the plain one; empty where it is."""
    if made.casefold() == asked.text.casefold():
        return UNCHANGED
    if not made.endswith("?") or made.count("?") > 2 or len(made.split()) > LONGEST or _NO_QUESTION.search(made):
        return MALFORMED
    if any(fact_check.key_of(name) not in made for name in asked.names):
        return LOST
    old = asked.text.casefold()
    things = (*facts.organisation.things, *facts.organisation.strangers)
    others = [t.name for t in things if t.kind != "team"]
    numbers = re.findall(r"\d[\d,.]*\d|\d", made)
    if any(mentions(made, name) and name.casefold() not in old for name in others) or any(
        number not in asked.text for number in numbers
    ):
        return fact_check.NAME
    values = [s.answer for s in asked.steps if len(s.answer) > 1]
    operation = str(asked.operation[0])
    if operation in ("last", "sum", "difference", "count"):
        values += [a for a in asked.answers if len(a) > 1]
    if any(mentions(made, v.strip("£$€")) and not mentions(asked.text, v.strip("£$€")) for v in values):
        return LEAK
    kinds = {t.kind for t in things if t.name in asked.names}
    same = asks_the_same(made, asked.text, asked.answers[0], operation, (*asked.names, *kinds))
    return "" if same else OTHERWISE


def asks_the_same(made: str, plain: str, answer: str, operation: str = "last", names: Sequence[str] = ()) -> bool:
    """Whether a wording shows what has to be worked out, and asks for the kind of thing that the plain one asks for,
    with more words than `names`."""
    if operation in _SIGNS:
        open_question = operation in ("order", "same") and _OPEN.match(made)
        return bool(_SIGNS[operation].search(made)) and not open_question
    old, new = _question_word(plain), _question_word(made)
    if old == "when" and not (_DATE.search(made) and new != "who"):
        return False
    if (new == "who" and not _OF_SOMEONE.search(plain)) or (new == "when" and not _DATE.search(plain)):
        return False
    if unicodedata.category(answer[0]) == "Sc" and _NO_SUM.match(made):
        return False
    for name in names:
        made = made.replace(name, " ").replace(fact_check.key_of(name), " ")
    return bool(re.search(r"[a-z]", _EMPTY.sub(" ", made), re.IGNORECASE))


def _question_word(text: str) -> str:
    found = _QUESTION_WORD.search(text)
    return found[0].lower() if found else ""
