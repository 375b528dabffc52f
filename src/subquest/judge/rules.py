"""Judges by rule: no model, no network, the same verdict every time. For training offline.

The answer rules follow DECOR's on dates, numbers, units and granularity (B.1); the step rules follow what it asks of
planner, filter and answerer (4.3, B.2 to B.4). Each rule is a small function that names what is wrong, or says
nothing; a step is good if no rule objects. Rules see words, not meaning: `subquest judge agree` measures how often
they agree with a model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ..metrics import answer_tokens, contains_answer, is_yes_no, normalize
from .cases import AnswerCase, StepCase, Verdict
from .text_facts import content_words, dates, in_digits, is_date_only, names, numbers, one_spelling, quantities

Rule = Callable[[StepCase], str]
"""Names what is wrong with a step; empty where nothing is."""


class RuleJudge:
    """Answers and steps, judged by rule."""

    async def judge_answers(self, cases: Sequence[AnswerCase]) -> list[Verdict]:
        return [judge_answer(case) for case in cases]

    async def judge_steps(self, cases: Sequence[StepCase]) -> list[Verdict]:
        return [judge_step(case) for case in cases]


def judge_step(case: StepCase) -> Verdict:
    """Yes if no rule of the role objects; the reason lists every objection."""
    if case.format_errors:
        return Verdict(False, f"format: {case.format_errors[0]}")
    objections = [found for rule in STEP_RULES[case.role] if (found := rule(case))]
    return Verdict(not objections, "; ".join(objections))


# Planner (B.2)


def stops_too_early(case: StepCase) -> str:
    """STOP is for a memory that suffices; with an empty one it answers from nothing."""
    return "stops with an empty memory" if not case.content and not case.memory else ""


def repeats_a_query(case: StepCase) -> str:
    """The same content words as a query sent before, whatever their order."""
    words = content_words(case.content)
    for earlier in case.queries if words else ():
        other = content_words(earlier)
        if words == other or len(words & other) / len(words | other) >= 0.85:
            return f"repeats the query {earlier!r}"
    return ""


def copies_the_question(case: StepCase) -> str:
    """Passing on a question of several hops whole is no plan, except at first: with nothing known, the planner is to
    search with all that the question says (appendix A.1, rule 6)."""
    several = len(case.sub_answers) > 1 and bool(case.queries or case.memory)
    return "copies the question" if several and normalize(case.content) == normalize(case.question) else ""


def is_nonsense(case: StepCase) -> str:
    """Words over and over, or no word at all."""
    words = answer_tokens(case.content)
    if not case.content:
        return ""
    if not content_words(case.content):
        return "the query says nothing"
    stuttering = any(words[i] == words[i + 1] == words[i + 2] for i in range(len(words) - 2))
    return "repeats words" if stuttering or (len(words) >= 6 and len(set(words)) < len(words) / 2) else ""


def misses_the_constraints(case: StepCase) -> str:
    """A query must be about the question: it names something that the question, or memory, names.

    Which constraints a later hop needs, rules cannot know; so one named entity or number is asked for where there is
    one, and otherwise that half of the query's words come from the question or from memory.
    """
    if not case.content:
        return ""
    known = " ".join((case.question, *case.memory))
    words, query = content_words(known), content_words(case.content)
    anchors = {w for name in names(known) for w in content_words(name)} | numbers(known)
    if anchors and not anchors & (query | numbers(case.content)):
        return "names nothing that the question or memory names"
    if query and not anchors and len(query & words) < len(query) / 2:
        return "is not about the question"
    invented = numbers(case.content) - numbers(known)
    return f"brings in the number {min(invented)}" if invented else ""


def gives_the_answer_away(case: StepCase) -> str:
    """A query with the answer in it guesses instead of searching, unless the answer was known by then."""
    if is_yes_no(case.answers) or not contains_answer(case.content, case.answers):
        return ""
    known = " ".join((case.question, *case.memory))
    return "" if contains_answer(known, case.answers) else "contains the answer before it was found"


# Filter (B.3)


def loses_evidence(case: StepCase) -> str:
    """What the documents say about the answer (or a sub-answer) must be kept, some of it at least."""
    wanted = [a for a in (*case.answers, *case.sub_answers) if not is_yes_no(a) and contains_answer(case.documents, a)]
    wanted = [a for a in wanted if not contains_answer(case.query, a)]
    return f"loses {wanted[0]!r}" if wanted and not any(contains_answer(case.content, a) for a in wanted) else ""


def keeps_noise(case: StepCase) -> str:
    """Copying most of a long input is no filtering, nor is a paragraph that is mostly about something else."""
    if not case.content:
        return ""
    kept, given = len(answer_tokens(case.content)), len(answer_tokens(case.documents))
    if given >= 40 and kept > 0.6 * given:
        return f"keeps {kept} of {given} words"
    topic = content_words(f"{case.query} {case.question}")
    for answer in (*case.answers, *case.sub_answers):
        topic |= content_words(answer)
    sentences = [s for s in re.split(r"(?<=[.!?])\s+", case.content) if content_words(s)]
    off = sum(not content_words(s) & topic for s in sentences)
    return f"{off} of {len(sentences)} sentences are off the topic" if sentences and off > len(sentences) / 2 else ""


def invents_facts(case: StepCase) -> str:
    """Every number and name must be in what was read."""
    source = f"{case.documents} {case.query}"
    made_up = numbers(case.content) - numbers(source)
    if made_up:
        return f"the number {min(made_up)} is not in the documents"
    words = content_words(source)
    for name in names(case.content):
        if not content_words(name) <= words:
            return f"the name {name!r} is not in the documents"
    return ""


def is_a_list(case: StepCase) -> str:
    """One flowing paragraph is asked for."""
    lines = [line for line in case.content.splitlines() if line.strip()]
    return "is not one paragraph" if len(lines) > 1 or re.match(r"\s*(?:[-*•]|1[.)])\s", case.content) else ""


# Answerer (4.3 over B.4)


def answers_wrongly_with_evidence(case: StepCase) -> str:
    """A wrong answer counts against the answerer only if memory held the right one."""
    if _right(case):
        return ""
    evidence = (is_yes_no(case.answers) and bool(case.memory)) or contains_answer(" ".join(case.memory), case.answers)
    return "wrong although memory holds the answer" if evidence else ""


def makes_things_up(case: StepCase) -> str:
    """A wrong answer that is neither in memory nor in the question was invented."""
    if _right(case) or not case.content or normalize(case.content) in {"yes", "no"}:
        return ""
    known = " ".join((case.question, *case.memory))
    missing = (content_words(case.content) - content_words(known)) | (numbers(case.content) - numbers(known))
    claims = {w for n in names(case.content, sentences=False) for w in content_words(n)} | numbers(case.content)
    return "the answer is not supported by memory" if missing & claims else ""


def gives_no_answer(case: StepCase) -> str:
    return "" if case.content.strip() else "gives no answer"


def _right(case: StepCase) -> bool:
    return bool(judge_answer(AnswerCase(case.question, case.answers, case.content)).yes)


STEP_RULES: dict[str, tuple[Rule, ...]] = {
    "planner": (
        stops_too_early,
        is_nonsense,
        repeats_a_query,
        copies_the_question,
        misses_the_constraints,
        gives_the_answer_away,
    ),
    "filter": (loses_evidence, keeps_noise, invents_facts, is_a_list),
    "answerer": (gives_no_answer, answers_wrongly_with_evidence, makes_things_up),
}


# Answers (B.1)


def judge_answer(case: AnswerCase) -> Verdict:
    """Yes if the prediction says the same as some gold answer, in more detail if it likes but not in less."""
    if not case.prediction.strip():
        return Verdict(False, "no answer")
    reason = ""
    for gold in case.answers:
        same, reason = _same(case.question, gold, case.prediction)
        if same:
            return Verdict(True, reason)
    return Verdict(False, reason or "no gold answer")


def _same(question: str, gold: str, prediction: str) -> tuple[bool, str]:
    gold, prediction = one_spelling(in_digits(gold)), one_spelling(in_digits(prediction))
    wanted, given = normalize(gold), normalize(prediction)
    wanted_amounts, given_amounts = quantities(gold), quantities(prediction)
    if wanted == given:
        minus = [value < 0 for value, _ in wanted_amounts] == [value < 0 for value, _ in given_amounts]
        return (True, "the same") if minus else (False, "another number")
    if wanted in {"yes", "no"}:
        return given.split()[:1] == [wanted], "yes or no"
    if is_date_only(gold):
        return _same_date(question, gold, prediction)
    if wanted_amounts and len(wanted_amounts) == 1 and not names(gold, sentences=False):
        return _same_amount(wanted_amounts[0], given_amounts)
    if sorted(answer_tokens(gold)) == sorted(answer_tokens(prediction)):
        return True, "the same words"
    if _is_acronym(wanted, given) or _is_acronym(given, wanted):
        return True, "an abbreviation"
    if contains_answer(prediction, gold):
        if re.search(r"\b(?:or|either|maybe|perhaps|not)\b", given.replace(wanted, " ")):
            return False, "hedges"
        extra = len(given.split()) - len(wanted.split())
        return (True, "more detail") if extra <= 12 else (False, "buries the answer")
    return False, "different"


def _same_date(question: str, gold: str, prediction: str) -> tuple[bool, str]:
    wanted = dates(gold)[0]
    if wanted.year is not None and re.search(r"\b(?:what|which)\s+year\b", question, re.IGNORECASE):
        wanted = wanted._replace(month=None, day=None)
    given = dates(prediction)
    if not given:
        return False, "no date"
    covering = all(d.covers(wanted) for d in given)
    return (True, "date") if covering else (False, "another or a coarser date")


def _same_amount(wanted: tuple[float, str], given: list[tuple[float, str]]) -> tuple[bool, str]:
    if len(given) != 1:
        return False, "no single number"
    (value, unit), (other, other_unit) = wanted, given[0]
    if value != other:
        return False, "another number"
    return (True, "number") if not unit or not other_unit or unit == other_unit else (False, "another unit")


def _is_acronym(short: str, long: str) -> bool:
    words = [w for w in long.split() if w not in {"of", "and", "for", "in", "on"}]
    return len(words) >= 2 and " " not in short and short == "".join(w[0] for w in words)
