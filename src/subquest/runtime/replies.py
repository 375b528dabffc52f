"""Reading what models reply: final answers in tags or boxes, one-word decisions, hedges and refusals."""

from __future__ import annotations

import re

from .statements import declines
from .turn import Turn

_WORD = re.compile(r"\w+")
_HEDGE = re.compile(
    r"\b(?:unknown|unclear|uncertain|unsure|not (?:sure|certain|clear|known|specified|mentioned|provided|enough)|"
    r"(?:can|could)(?:not|n't| not) (?:be )?(?:determined?|found|find|answer(?:ed)?|say|tell)|insufficient|"
    r"(?:do|does|did)(?:n't| not) (?:know|say|mention|specify|state)|maybe|perhaps|possibly|probably|might|likely|"
    r"no (?:answer|information|evidence))\b",
    re.IGNORECASE,
)
_LABEL = re.compile(r"\W*answer[^\w:]*:\W*\w")
_BOX = re.compile(r"\\boxed\s*\{")
_SET_AS_TEXT = re.compile(r"\\(?:text(?:bf|it|rm|sf|tt)?|mathrm|mathbf|mbox)\s*\{([^{}]*)\}")
_SMALL = frozenset({"a", "an", "and", "by", "for", "in", "of", "on", "or", "s", "the", "to"})


def hedges(text: str) -> bool:
    """Whether a text carries a marker of uncertainty ("perhaps", "not specified", ...) that is not part of a name."""
    title = _is_title(text)
    return declines(text) or any(not _is_name(text, found, title) for found in _HEDGE.finditer(text))


def _is_name(text: str, found: re.Match[str], title: bool) -> bool:
    """Whether a marker is one capitalised word of a name: inside a sentence, or where the whole answer is a title."""
    if len(found[0].split()) > 1 or not found[0][0].isupper():
        return False
    before = text[max(0, found.start() - 3) : found.start()].rstrip(" \"'“‘(*_")
    opens = (not before and found.start() <= 3) or before.endswith((".", "!", "?", ";", ":", "\n"))
    return title or not opens


def _is_title(text: str) -> bool:
    """Whether all words but small ones are capitalised and there are no numbers: "The Likely Lads"."""
    words = _WORD.findall(text)
    return all(word[0].isupper() or word in _SMALL for word in words)


def boxed(text: str) -> str:
    r"""Content of the last `\boxed{...}`, braces balanced, without the `\text{}` that many put into it; or empty."""
    boxes = list(_BOX.finditer(text))
    if not boxes:
        return ""
    depth, begin, end = 1, boxes[-1].end(), len(text)
    for at in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            end = at
            break
    return _SET_AS_TEXT.sub(r"\1", text[begin:end]).strip()


def box_in(turn: Turn) -> str:
    """The answer in a turn's box; none where it was cut inside its thought."""
    return "" if turn.generation.cut_in_thought else boxed(turn.text)


def answer_in(turn: Turn, tag: str = "answer") -> str:
    """The answer a turn gives: in the tag, in a box, or else whatever it says outside its thinking."""
    block = turn.parsed.last(tag)
    content = block.content if block else ""
    return (boxed(content) if content else box_in(turn)) or content or turn.parsed.outside


def said(turn: Turn) -> str:
    """What a turn says, exactly as written, without closed thinking: JSON drafted in a thought is not the reply."""
    text, kept = turn.text, 0
    parts = []
    for block in turn.parsed.blocks:
        if block.tag == "think" and block.closed:
            parts.append(text[kept : block.start])
            kept = block.end
    return "".join([*parts, text[kept:]])


def decides(turn: Turn, yes: str, no: str, *, default: bool) -> bool:
    """A decision between two words: the first word of the reply, or the only one of both that it holds.

    `Answer: retrieve` is a label with the decision behind it.
    """
    text = " ".join([turn.parsed.outside, *(b.content for b in turn.parsed.blocks if b.tag != "think")]).casefold()
    words: list[str] = _WORD.findall(text)
    if _LABEL.match(text) and words[1] in (yes, no):
        del words[0]
    found = {word for word in words if word in (yes, no)}
    if words and words[0] in found:
        return words[0] == yes
    return found == {yes} if len(found) == 1 else default
