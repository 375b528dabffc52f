"""What is judged, and what a judgement is.

A verdict is yes, no, or undecided where a model's reply says neither: nothing is ever guessed from an unclear reply.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ..protocol import parse


@dataclass(frozen=True, slots=True)
class AnswerCase:
    """Is this answer right?"""

    question: str
    answers: tuple[str, ...]
    """Gold answers; any one of them will do."""
    prediction: str
    instruction: str = ""
    """What counts as right, for a model that judges; empty: the judge's own instruction."""


@dataclass(frozen=True, slots=True)
class StepCase:
    """Did this role do its job in this step? (DECOR 4.3)"""

    role: str
    """planner, filter or answerer"""
    trajectory: str
    question: str
    answers: tuple[str, ...]
    output: str
    """The whole turn, as the role wrote it."""
    content: str
    """What it handed on: a query (empty for STOP), a paragraph of evidence, an answer."""
    query: str = ""
    """What the filter was asked about."""
    queries: tuple[str, ...] = ()
    """Queries sent before this step."""
    memory: tuple[str, ...] = ()
    """Evidence that planner and answerer read in memory at this step: after compression, cuts and drops."""
    memory_queries: tuple[str, ...] = ()
    """The query that each entry of memory answers; empty for compressed facts."""
    documents: str = ""
    """What the filter had to read."""
    sub_answers: tuple[str, ...] = ()
    """Answers of the gold decomposition's steps, where known."""
    format_errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judgement."""

    yes: bool | None
    """None: the judge did not say."""
    reason: str = ""
    """The rule that decided, or the model's reply."""

    @property
    def sign(self) -> float:
        """+1 for yes, -1 for no, 0 where undecided."""
        return 0.0 if self.yes is None else 1.0 if self.yes else -1.0


class AnswerJudge(Protocol):
    async def judge_answers(self, cases: Sequence[AnswerCase]) -> list[Verdict]: ...


class StepJudge(Protocol):
    async def judge_steps(self, cases: Sequence[StepCase]) -> list[Verdict]: ...


_WORD = re.compile(r"\b(yes|no)\b", re.IGNORECASE)
_OPENING = re.compile(r"(yes\b(?!\s*\?)|no(?=\s*$|\s*[^\w\s?]))", re.IGNORECASE)
"""A first word that is the verdict: not `Yes?`, nor the beginning of `No doubt it is right`."""
_LABEL = re.compile(
    r"^(?:(?:final\s+)?(?:verdict|judg(?:e)?ment|decision|output|answer|correct))\s*[:=]\s*", re.IGNORECASE
)


def read_verdict(reply: str) -> bool | None:
    """Yes or no from a judge's reply; None where it is not plain.

    Plain is: the reply is that one word; or it begins with the word and never says the other; or its last line is
    that one word, perhaps after a label such as `Verdict:`, and no other line is the other one. Thinking in `<think>`
    is not looked at.
    """
    text = parse(reply, ("think",)).outside if "think>" in reply.casefold() else reply
    lines = [_bare(line) for line in text.splitlines() if _bare(line)]
    if not lines:
        return None
    bare = [_bare(_LABEL.sub("", line)).casefold() for line in lines]
    if _WORD.fullmatch(bare[-1]):
        return bare[-1] == "yes" if len({"yes", "no"} & {*bare}) == 1 else None
    said = {word.casefold() for word in _WORD.findall(text)}
    first = _OPENING.match(_LABEL.sub("", lines[0]))
    if first and len(said) == 1:
        return said == {"yes"}
    return None


def _bare(line: str) -> str:
    return line.strip().strip("*_`#>\"'.!,;:()[]{}- \t").strip()
