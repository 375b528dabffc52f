"""Gold decompositions as plans that a planner could have written before anything was found.

2WikiMultiHopQA's plans are triples ("X >> director") that name intermediate entities outright; MuSiQue mixes triples
with lower-case questions. The rules:

- a triple becomes a question of its relation, and a title's bracket a descriptor ("the 1959 film Li'l Abner");
- a subject that is an earlier step's answer becomes `#n`;
- lower-case questions get capitals (from the whole question), a question mark and clean spacing;
- steps of a world that ask about each item of a list which an earlier step finds become one step about that list,
  because no planner knows the items' names.

`world plans`, training and the plan metric (SEPR) all use these rules, so their gold plans are the same.
"""

from __future__ import annotations

import functools
import io
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from msgspec.structs import replace

from ..codec import to_dict
from ..errors import DataError
from ..output_file import complete_file
from ..record import Question, Step
from .question_files import iterate_questions

REFERENCE = re.compile(r"#(\d{1,9})")
"""An earlier step's answer."""
CHAINS = frozenset(["compositional", "inference"])
"""Types of 2WikiMultiHopQA whose every step starts from the answer of the one before."""
MALFORMED, UNKNOWN, UNLINKED = "malformed step", "unknown relation", "reference to a later step"
_ITEM = re.compile(r"#(\d+)\.(\d+)")
_SHARED = re.compile(r"#(\d+)&(\d+)")
_SPACED = re.compile(r"\s+(?=[?,.;:](?:\s|$))")
"""Space before a mark that ends a word; not before the dots that begin a title."""
_NO_NAMES = frozenset({"yes", "no", "a", "an", "the"})
"""Answers that occur in a question as ordinary words."""
DESCRIPTORS = frozenset([
    "film", "song", "album", "band", "novel", "book", "play", "director", "actor", "actress", "singer", "musician",
    "composer", "writer", "author", "politician", "footballer", "painter", "poet", "screenwriter", "producer",
    "photographer", "magazine", "newspaper", "opera", "game", "series", "musical", "company", "group", "soundtrack",
    "single", "EP", "filmmaker", "cinematographer", "architect", "journalist", "cricketer", "river", "city",
    "village", "town", "station", "airport", "bishop", "king", "queen", "cyclist", "boxer", "rapper", "drummer",
    "guitarist", "comics", "manga",
])  # fmt: skip
"""Last words of a title's bracket that say what the thing is: `(1959 film)`."""
SMALL_WORDS = frozenset([
    "a", "an", "and", "at", "by", "for", "from", "in", "is", "of", "on", "or", "the", "to", "what", "when", "where",
    "which", "who", "with",
])  # fmt: skip
"""Words that say nothing about how the whole question spells a name."""
PREPOSITIONS = frozenset(["after", "at", "by", "for", "from", "in", "into", "of", "on", "to", "with"])
"""Last words of a relation that is no noun (`influenced by`), which no rule turns into a question."""


@dataclass(slots=True)
class PlanReport:
    """What became of the plans of a file."""

    plans: int = 0
    rewritten: int = 0
    """Plans whose every step is natural now."""
    unchanged: int = 0
    """Plans that were natural already."""
    steps: int = 0
    triples: int = 0
    linked: int = 0
    """Subjects replaced by `#n`."""
    refused: Counter[str] = field(default_factory=Counter)
    """Plans left out, by reason."""

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "refused": dict(self.refused)}

    def summary(self) -> str:
        left = ", ".join(f"{reason}: {n}" for reason, n in sorted(self.refused.items())) or "none"
        return (
            f"{self.plans} plans: {self.rewritten} rewritten, {self.unchanged} natural already; {self.triples} triples "
            f"among {self.steps} steps, {self.linked} subjects linked; left out: {left}"
        )


class Refused(Exception):
    """A plan that the rules cannot make natural; the argument is the reason."""


def gold_plan(question: Question) -> tuple[str, ...]:
    """The question's plan as a planner could have written it; unchanged where the rules do not apply."""
    given = enumerate(question.decomposition, 1)
    steps = tuple(replace(step, question=with_unknown_items(question, n, step.question)) for n, step in given)
    with suppress(Refused):
        steps = rewrite_plan(replace(question, decomposition=steps)).decomposition
    return tuple(step.question for n, step in enumerate(steps, 1) if not repeats(question, n))


def rewrite_plan(question: Question, report: PlanReport | None = None) -> Question:
    """The question with a natural plan; raises Refused with the reason where the rules do not apply."""
    report = report if report is not None else PlanReport()
    steps: list[Step] = []
    for n, step in enumerate(question.decomposition, 1):
        text = step.question.strip()
        if any(int(m) >= n for m in REFERENCE.findall(text)):
            raise Refused(UNLINKED)
        if ">>" in text:
            report.triples += 1
            text = _from_triple(text, question, steps, report)
        else:
            text = _with_references(polish(text, question.question), steps)
        report.steps += 1
        steps.append(replace(step, question=text))
    return replace(question, decomposition=tuple(steps))


@functools.cache
def relation_questions() -> dict[str, str]:
    """The question that each relation becomes."""
    lines = (Path(__file__).parent / "relation_questions.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.partition(": ") for line in lines if line and not line.startswith("#"))
    return {relation: question for relation, _, question in pairs}


def rewrite_file(source: Path, out: Path | None) -> PlanReport:
    """Rewrites the plans of a question file (or only counts them, without `out`); refused plans are left out."""
    report = PlanReport()
    if not source.is_file():
        raise DataError(f"{source} does not exist")
    with ExitStack() as stack:
        target: IO[str] = io.StringIO()
        if out is not None:
            target = stack.enter_context(stack.enter_context(complete_file(out)).open("w", encoding="utf-8"))
        for question in iterate_questions(source):
            if not question.decomposition:
                report.refused["no plan"] += 1
                continue
            report.plans += 1
            try:
                natural = rewrite_plan(question, report)
            except Refused as reason:
                report.refused[str(reason)] += 1
                continue
            if natural.decomposition == question.decomposition:
                report.unchanged += 1
            else:
                report.rewritten += 1
            target.write(json.dumps(to_dict(natural), ensure_ascii=False) + "\n")
    return report


def _from_triple(text: str, question: Question, earlier: list[Step], report: PlanReport) -> str:
    subject, _, relation = (part.strip() for part in text.partition(">>"))
    if not subject or not relation:
        raise Refused(MALFORMED)
    template = relation_questions().get(relation.lower())
    if template is None:
        if relation.lower().split()[-1] in PREPOSITIONS or REFERENCE.search(relation):
            raise Refused(UNKNOWN)
        template = f"What is the {relation} of {{x}}?"
    link = _link(subject, question, earlier)
    if link:
        report.linked += 1
        return template.replace("{x}", f"#{link}")
    subject = _SPACED.sub("", subject)
    if relation == "country" and re.search(r"#\d+ at the \d{4}", subject):
        template = "Which country hosted the event in {x}?"
    named = describe(subject)
    return (
        template.replace("{x}?", "{x}").replace("{x}", named) if named.endswith("?") else template.replace("{x}", named)
    )


def _link(subject: str, question: Question, earlier: list[Step]) -> int:
    """The step whose answer the subject is, by likeness of names; 0 where it is none."""
    if "#" in subject or not earlier:
        return 0
    starts = {step.question.partition(">>")[0].strip() for step in question.decomposition[: len(earlier)]}
    best, score = 0, 0.0
    for n, step in enumerate(earlier, 1):
        likeness = name_similarity(subject, step.answer)
        if likeness > score:
            best, score = n, likeness
    if score >= 0.5:
        return best
    asked = set(_tokens(question.question))
    named = [t for t in _tokens(_bare(subject)) if t not in asked]
    used = {int(m) for s in earlier for m in REFERENCE.findall(s.question)}
    free = [n for n in range(1, len(earlier) + 1) if n not in used]
    # A subject that the question does not name can only have come from an earlier step.
    if len(named) == len(_tokens(_bare(subject))) and len(free) == 1:
        return free[0]
    # A chain goes on from its last answer, however differently its article is called.
    return len(earlier) if question.type in CHAINS and subject not in starts else 0


def _with_references(text: str, before: Sequence[Step]) -> str:
    """A question that names earlier answers, with their numbers instead."""
    if "#" in text:
        return text
    for n in range(len(before), 0, -1):
        answer = before[n - 1].answer.strip()
        if re.search(r"\w", answer) and answer.casefold() not in _NO_NAMES:
            text = re.sub(rf"(?<!\w){re.escape(answer)}(?!\w)", f"#{n}", text)
    return text


def _bare(title: str) -> str:
    return re.sub(r"\s*\([^)]*\)$", "", title)


def _tokens(text: str) -> list[str]:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.findall(r"[a-z0-9]+", plain)


def name_similarity(a: str, b: str) -> float:
    """How much two names are the same person's: 1 equal, above 0.5 where one adds initials, titles or brackets."""
    one, two = _tokens(_bare(a)), _tokens(_bare(b))
    if not one or not two:
        return 0.0
    if one == two:
        return 1.0
    x, y = set(one), set(two)
    shared = len(x & y) / min(len(x), len(y))
    whole = len(x & y) / len(x | y)
    return 0.4 + 0.5 * whole if shared == 1.0 else whole


def describe(title: str) -> str:
    """`Li'l Abner (1959 film)` as `the 1959 film Li'l Abner`; other brackets stay."""
    match = re.fullmatch(r"(.+?) \(([^()]+)\)", title)
    if match and match.group(2).split()[-1] in DESCRIPTORS:
        return f"the {match.group(2)} {match.group(1)}"
    return title


def polish(text: str, whole: str) -> str:
    """A question with clean spacing, capitals as in the whole question and a question mark; idempotent."""
    text = _SPACED.sub("", re.sub(r"\s+", " ", text.strip()))
    text = re.sub(r"\s+'s\b", "'s", text)
    capitals: dict[str, str] = {}
    for word in re.findall(r"(?<=\s)[A-Z][\w'’-]*", whole):
        if word.lower() not in SMALL_WORDS:
            capitals.setdefault(word.lower(), word)
    if text == text.lower():
        text = re.sub(r"(?<![#\w])[a-z][\w'’-]*", lambda m: capitals.get(m.group(), m.group()), text)
        text = re.sub(r"\bi\b", "I", text)
    text = (text if text.endswith("?") else text.rstrip(". ")).rstrip("? ") + "?"
    return text[0].upper() + text[1:]


def with_unknown_items(question: Question, n: int, text: str) -> str:
    """The n-th step's text, an item of a list that an earlier step finds as that step's number."""
    item = item_of(question, n)
    if not item:
        return text
    subject = _subject(question, n)
    one, both = _ITEM.fullmatch(subject), _SHARED.fullmatch(subject)
    return text.replace(item, f"#{one[1]}" if one else f"the one in #{both[1]} and #{both[2]}" if both else item)


def repeats(question: Question, n: int) -> bool:
    """Whether the n-th step asks of a further item what one before it asks of the first."""
    one, item = _ITEM.fullmatch(_subject(question, n)), item_of(question, n)
    return one is not None and one[2] != "0" and bool(item) and item in question.decomposition[n - 1].question


def items_of(question: Question, n: int) -> tuple[str, ...]:
    """The list that the n-th step finds or counts, where it does and its items are known."""
    return tuple(question.meta.get("items", {}).get(str(n), ()))


def item_of(question: Question, n: int) -> str:
    """The item of an earlier list that the n-th step asks about; empty where it does not."""
    subject = _subject(question, n)
    if one := _ITEM.fullmatch(subject):
        items = items_of(question, int(one[1]))
        return items[int(one[2])] if int(one[2]) < len(items) else ""
    if both := _SHARED.fullmatch(subject):
        shared = set(items_of(question, int(both[1]))) & set(items_of(question, int(both[2])))
        return shared.pop() if len(shared) == 1 else ""
    return ""


def _subject(question: Question, n: int) -> str:
    """What the n-th row of a world's program asks about; empty where there is no program."""
    program = question.meta.get("program", ())
    return str(program[n - 1][1]) if n <= len(program) else ""
