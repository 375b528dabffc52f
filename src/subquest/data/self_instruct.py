"""Self-instruct: a teacher model rewrites questions and their plans; only what passes a filter is kept.

As APEX-Searcher does for its plans: generate, filter for correctness, triviality and flawed reasoning, validate. A
rewritten plan must keep which step depends on which and the names it starts from, must not give answers away, and the
teacher must find each gold sub-answer in the supporting article when asked the new sub-question. Refusals are counted
by their reason.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from ..engine.interface import Engine, Message, Sampling
from ..record import Question, Step

REWRITE = """You rewrite a question and its plan in other words. Keep every name, the number of steps and their order. \
#1 stands for the answer of step 1. Never write an answer into the question or the plan.
Reply in this form:
<question>the question in other words</question>
<plan>
1. first sub-question
2. second sub-question about #1
</plan>"""
ANSWER = """Answer the question from the article alone, with a name, a date, a number or a short phrase. \
If the article does not say, write None: <answer>answer</answer>"""

MALFORMED = "malformed"
LENGTH = "another number of steps"
DEPENDENCE = "flawed reasoning: other references"
REPEATED = "flawed reasoning: a repeated step"
NAMES = "incorrect: a name was lost"
LEAK = "trivial: an answer is given away"
WHOLE = "trivial: a step asks the whole question"
UNCHANGED = "unchanged"
INVALID = "not validated: the article gives another answer"
ARTICLE = "not validated: no supporting article"


@dataclass(slots=True)
class Instructed:
    """The rewritten questions of a batch, and how many were refused for which reason."""

    kept: list[Question] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)


async def instruct(
    teacher: Engine, questions: Iterable[Question], articles: Mapping[str, str], sampling: Sampling | None = None
) -> Instructed:
    """Rewrites each question once; `articles` maps titles to texts. Engine failures are the caller's to handle."""
    out, how = Instructed(), sampling or Sampling()
    for question in questions:
        plan = "\n".join(f"{n}. {s.question}" for n, s in enumerate(question.decomposition, 1))
        text = await ask(teacher, REWRITE, f"Question: {question.question}\nPlan:\n{plan}", how)
        made = parse(text, question)
        reason = MALFORMED if made is None else find_flaw(made, question)
        if made is not None and not reason:
            reason = await _validate(teacher, made, articles, how)
        if made is None or reason:
            out.refused[reason] += 1
        else:
            out.kept.append(made)
    return out


async def ask(teacher: Engine, system: str, user: str, sampling: Sampling, examples: Sequence[str] = ()) -> str:
    """One reply; `examples` are earlier turns: what was asked, what was replied, and so on."""
    turns = [Message("assistant" if n % 2 else "user", text) for n, text in enumerate((*examples, user))]
    session = await teacher.open([Message("system", system), *turns])
    try:
        return (await session.generate(sampling)).text
    finally:
        await session.close()


def parse(text: str, question: Question) -> Question | None:
    """The rewritten question; None where the reply does not have the requested form."""
    asked = re.search(r"<question>(.+?)</question>", text, re.DOTALL)
    plan = re.search(r"<plan>(.+?)(?:</plan>|$)", text, re.DOTALL)
    if not asked or not plan:
        return None
    lines = [re.sub(r"^\s*\d+[.)]\s*", "", line).strip() for line in plan.group(1).strip().split("\n")]
    lines = [line for line in lines if line]
    steps = tuple(
        replace(old, question=line) for line, old in zip(lines, question.decomposition, strict=False)
    ) + tuple(Step(line) for line in lines[len(question.decomposition) :])
    meta = {**question.meta, "rewritten": question.question}
    return replace(question, question=" ".join(asked.group(1).split()), decomposition=steps, meta=meta)


def find_flaw(made: Question, gold: Question) -> str:
    """Why a rewritten question is not as good as the gold one; empty where it is."""
    if len(made.decomposition) != len(gold.decomposition):
        return LENGTH
    steps = [s.question for s in made.decomposition]
    if made.question == gold.question and steps == [s.question for s in gold.decomposition]:
        return UNCHANGED
    if [_references(s) for s in steps] != [_references(s.question) for s in gold.decomposition]:
        return DEPENDENCE
    if len({s.casefold() for s in steps}) < len(steps):
        return REPEATED
    if len(steps) > 1 and made.question.casefold() in (s.casefold() for s in steps):
        return WHOLE
    answers = [a for s in gold.decomposition for a in (s.answer,) if len(a) > 3]
    for new, old in zip(
        (made.question, *steps), (gold.question, *(s.question for s in gold.decomposition)), strict=True
    ):
        if any(mentions(new, a) and not mentions(old, a) for a in answers):
            return LEAK
        if any(name not in new for name in names_in(old)):
            return NAMES
    return ""


async def _validate(teacher: Engine, made: Question, articles: Mapping[str, str], sampling: Sampling) -> str:
    """Asks the teacher each new sub-question over its supporting article."""
    answers = [s.answer for s in made.decomposition]
    for step in made.decomposition:
        article = articles.get(step.support)
        if article is None:
            return ARTICLE
        asked = re.sub(r"#(\d+)", lambda m: answers[int(m.group(1)) - 1], step.question)
        reply = await ask(teacher, ANSWER, f"Article: {step.support}\n{article}\nQuestion: {asked}", sampling)
        found = re.search(r"<answer>(.*?)(?:</answer>|$)", reply, re.DOTALL)
        if not found or not same_answer(found.group(1), step.answer):
            return INVALID
    return ""


def _references(text: str) -> list[str]:
    return sorted(set(re.findall(r"#\d+", text)))


def names_in(text: str) -> list[str]:
    """Runs of capitalised words and numbers after the first word: what a rewriting must keep."""
    return re.findall(r"(?<=\s)[A-Z0-9][\w'’.-]*\w(?: [A-Z0-9][\w'’.-]*\w)*", text.replace("'s ", " "))


def mentions(text: str, answer: str) -> bool:
    text, answer = text.casefold(), answer.casefold()
    return answer in text and re.search(rf"\b{re.escape(answer)}\b", text) is not None


def holds(text: str, value: str) -> bool:
    """Whether a value stands in a text as a whole: 4,500 does not stand in 14,500."""
    return re.search(rf"(?<![\w.,]){re.escape(value)}(?![\d])(?!,\d)(?!\w)", text, re.IGNORECASE) is not None or (
        not value[0].isalnum() and re.search(rf"{re.escape(value)}(?!\d)(?!,\d)", text) is not None
    )


def same_answer(given: str, gold: str) -> bool:
    plain = [re.sub(r"[^\w ]", "", re.sub(r"\b(the|an?)\b", "", t.casefold())).split() for t in (given, gold)]
    return plain[0] == plain[1]
