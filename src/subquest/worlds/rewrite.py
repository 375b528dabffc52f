"""Gold plans as people would write them: triples and `>>` forms into natural sub-questions with `#n`.

2WikiMultiHopQA's plans are triples ("X >> director") that name intermediate entities outright; MuSiQue mixes triples
with bare lower-case questions. By rule: a triple becomes a question of its relation, a subject that is an earlier
step's answer becomes `#n`, a title's bracket becomes a descriptor ("the 1959 film Li'l Abner"), and bare questions
get their capitals (from the whole question), a question mark and clean spacing.
"""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..codec import from_dict, to_dict
from ..errors import DataError
from ..record import Question, Step
from .rows import parsed
from .wording import DESCRIPTORS, PREPOSITIONS, QUESTIONS, SMALL_WORDS

QUESTION = frozenset(f.name for f in dataclasses.fields(Question))
STEP = frozenset(f.name for f in dataclasses.fields(Step))
REFERENCE = re.compile(r"#(\d{1,9})")
"""An earlier step's answer."""
CHAINS = frozenset(["compositional", "inference"])
"""Types of 2WikiMultiHopQA whose every step starts from the answer of the one before."""
MALFORMED, UNKNOWN, UNLINKED = "malformed step", "unknown relation", "reference to a later step"


@dataclass(slots=True)
class PlanReport:
    """How a file's plans fared."""

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
        return {
            "plans": self.plans, "rewritten": self.rewritten, "unchanged": self.unchanged, "steps": self.steps,
            "triples": self.triples, "linked": self.linked, "refused": dict(self.refused),
        }  # fmt: skip

    def summary(self) -> str:
        left = ", ".join(f"{reason}: {n}" for reason, n in sorted(self.refused.items())) or "none"
        return (
            f"{self.plans} plans: {self.rewritten} rewritten, {self.unchanged} natural already; {self.triples} triples "
            f"among {self.steps} steps, {self.linked} subjects linked; left out: {left}"
        )


class Refused(Exception):
    """A plan that the rules cannot make natural; the argument is the reason."""


def rewrite_plan(question: Question, report: PlanReport | None = None) -> Question:
    """The question with a natural plan; raises Refused with the reason where the rules do not reach."""
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
            text = polish(text, question.question)
        report.steps += 1
        steps.append(replace(step, question=text))
    return replace(question, decomposition=tuple(steps))


def _from_triple(text: str, question: Question, earlier: list[Step], report: PlanReport) -> str:
    subject, _, relation = (part.strip() for part in text.partition(">>"))
    if not subject or not relation:
        raise Refused(MALFORMED)
    template = QUESTIONS.get(relation.lower())
    if template is None:
        if relation.lower().split()[-1] in PREPOSITIONS or REFERENCE.search(relation):
            raise Refused(UNKNOWN)
        template = f"What is the {relation} of {{x}}?"
    link = _link(subject, question, earlier)
    if link:
        report.linked += 1
        return template.replace("{x}", f"#{link}")
    subject = re.sub(r"\s+,", ",", subject)
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
        likeness = alike(subject, step.answer)
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


def _bare(title: str) -> str:
    return re.sub(r"\s*\([^)]*\)$", "", title)


def _tokens(text: str) -> list[str]:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.findall(r"[a-z0-9]+", plain)


def alike(a: str, b: str) -> float:
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
    """A bare question with spacing, capitals as in the whole question, and a question mark."""
    text = re.sub(r"\s+([?,.;:])", r"\1", re.sub(r"\s+", " ", text.strip()))
    text = re.sub(r"\s+'s\b", "'s", text)
    capitals: dict[str, str] = {}
    for word in re.findall(r"(?<=\s)[A-Z][\w'’-]*", whole):
        if word.lower() not in SMALL_WORDS:
            capitals.setdefault(word.lower(), word)
    if text == text.lower():
        text = re.sub(r"(?<![#\w])[a-z][\w'’-]*", lambda m: capitals.get(m.group(), m.group()), text)
    text = re.sub(r"\bi\b", "I", text).rstrip("?. ") + "?"
    return text[0].upper() + text[1:]


def read_questions(path: Path) -> Iterator[Question]:
    """Questions of a jsonl or jsonl.gz file in our form; unknown fields are kept in `meta`."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
            for n, line in enumerate(lines, 1):
                row = parsed(line, f"{path}:{n}")
                try:
                    question = _question(row)
                except DataError as error:
                    raise DataError(f"{path}:{n}: not a question ({error})") from None
                yield question
    except (UnicodeDecodeError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path} is not a file of lines ({error})") from None


def _question(row: dict[str, Any]) -> Question:
    """Fields without a value count as missing, an id that is a number as a text; fields of a step that ours does not
    have are left out."""
    given = {k: v for k, v in row.items() if v is not None}
    if isinstance(given.get("id"), int):
        given["id"] = str(given["id"])
    known = {k: v for k, v in given.items() if k in QUESTION}
    question = from_dict(Question, {**known, "decomposition": _plan(given.get("decomposition", []))})
    return replace(question, meta={**question.meta, **{k: v for k, v in row.items() if k not in QUESTION}})


def _plan(steps: object) -> object:
    if not isinstance(steps, list):
        return steps
    return [
        {k: v for k, v in step.items() if k in STEP and v is not None} if isinstance(step, dict) else step
        for step in steps
    ]


def rewrite_file(source: Path, out: Path | None) -> PlanReport:
    """Rewrites a file of questions (or only counts, without `out`); refused plans are left out and counted."""
    report = PlanReport()
    if not source.is_file():
        raise DataError(f"{source} does not exist")
    with out.open("w", encoding="utf-8") if out is not None else io.StringIO() as target:
        for question in read_questions(source):
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
