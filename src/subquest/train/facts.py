"""Reading like a teacher: the steps of a known plan, and where in the documents each of them is stated.

A step is read only where the passage that supports it was really retrieved, and what is noted of it are sentences of
that passage. A list is read only where every item of it can be seen, in the order of the passage: who learns from a
list that the passage does not show learns to make things up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ..data.gold_plans import REFERENCE, item_of, items_of, repeats, with_unknown_items
from ..metrics import contains_answer
from ..record import Question
from ..runtime.statements import sentences

_DOCUMENT = re.compile(r"^(?:<\w+>)?Doc (\d+)\(Title: (.*?)\) (.*)$", re.MULTILINE)
_WORD = re.compile(r"\w+")
_ENTITY = re.compile(r"[A-Z0-9][\w'’.-]*(?:[ –-](?:of|the|and|for|in|on|de|to|a)?\s?[A-Z0-9][\w'’.-]*)*")
_POSSESSIVE = re.compile(r"['’]s?(?!\w)")
_CELL = re.compile(r"[^:;.]{1,40}: ")
_NUMBER = re.compile(r"\d[\d,]*")
_HOW_MANY = re.compile(r"how many\b", re.IGNORECASE)
_QUESTION_WORDS = frozenset(
    {"who", "whom", "whose", "what", "which", "when", "where", "how", "in", "on", "at", "of", "by", "to", "is", "was"}
    | {"did", "does", "the", "a", "an", "many"}
)


class Fact(NamedTuple):
    """One step of the plan with its references filled in."""

    task: str
    answer: str
    support: str
    items: tuple[str, ...] = ()
    """The names in the list that the step finds or counts, where it does and they are known."""
    about: str = ""
    """The item of an earlier list that the step asks about."""
    query: tuple[str, str] | None = None
    """The file of the whole table that the step is about, and the SQL query that answers it, with `{table}` for the
    table's name."""

    @property
    def note(self) -> str:
        """Task and answer, as one who has found it may write it down."""
        return f"{self.task} {self.answer}"


class Found(NamedTuple):
    said: str
    """What the passage says, in its own sentences."""
    result: str
    title: str = ""
    number: int = 0
    """The passage's place among those shown."""

    @property
    def about(self) -> str:
        """The passage's title where its sentences do not name it: "he was born there" says nothing of whom."""
        return "" if self.title in self.said else self.title

    @property
    def note(self) -> str:
        return f"{self.about}: {self.said}" if self.about else self.said

    @property
    def cited(self) -> str:
        """The note with the number of its document."""
        return f"Doc {self.number}{self.about and f' ({self.about})'} says: {self.said}"


def facts_of(question: Question) -> list[Fact]:
    """The plan's steps, `#n` replaced by the answer of step n.

    A question without a plan is one step by itself: it can be learnt from where one search brings its answer. Not so
    where the answer is yes or no, which no passage states.
    """
    if not question.decomposition and question.answers and question.supporting_titles:
        answer = question.answers[0]
        return [] if answer.lower() in ("yes", "no") else [Fact(question.question, answer, "")]
    answers = [step.answer for step in question.decomposition]
    queries = {n: (file, sql) for n, (file, sql) in question.meta.get("sql", {}).items()}
    return [
        Fact(
            _filled(step.question, answers),
            step.answer,
            step.support,
            items_of(question, n),
            item_of(question, n),
            queries.get(str(n)),
        )
        for n, step in enumerate(question.decomposition, 1)
    ]


def _filled(task: str, answers: Sequence[str]) -> str:
    """References replaced by answers; "in #1" and "in Pell" make "in Pell"."""

    def fill(match: re.Match[str]) -> str:
        number = int(match[1])
        answer = answers[number - 1] if 0 < number <= len(answers) else match[0]
        before, first = task[: match.start()].split()[-1:], answer.partition(" ")
        repeats_word = first[2] and before and before[0].casefold() == first[0].casefold()
        return first[2] if repeats_word else answer

    return REFERENCE.sub(fill, task)


def foreseeable(question: Question, facts: Sequence[Fact]) -> bool:
    """Whether the tasks name only what the question or an earlier result names: a data set's plan may use another name
    of the same thing, which nobody could know."""
    known = question.question.casefold()
    for fact in facts:
        capitalised = re.findall(r"(?<=[^.:?!]\s)[A-Z][^\W\d_]{3,}", fact.task)  # a capital also begins a sentence
        if any(word.casefold() not in known for word in capitalised):
            return False
        known += f" {fact.answer} {fact.about} {' '.join(fact.items)}".casefold()
    return True


def plan_of(question: Question) -> list[str]:
    """The plan as it can be known before anything was found: items of a list yet to come stand as its number."""
    steps = enumerate(question.decomposition, 1)
    return [with_unknown_items(question, n, step.question) for n, step in steps if not repeats(question, n)]


def needs_lists(question: Question) -> bool:
    """Whether steps of the plan ask about items that only an earlier step brings."""
    return any(item_of(question, n) for n in range(1, len(question.decomposition) + 1))


def read(question: Question, fact: Fact, text: str) -> Found | None:
    """What the supporting passage says of the fact; None where it was not retrieved or does not show all of it.

    Where a data set does not say which passage supports which step, any of the question's supporting passages will
    do that states the answer word for word.
    """
    if not fact.answer:  # nobody knows it: no passage states it
        return None
    if fact.query is not None and not fact.items:  # a row with the answer does not say that it is the highest
        return None
    supports = {fact.support} if fact.support else set(question.supporting_titles)
    for number, title, body in _DOCUMENT.findall(text):
        if title.strip() not in supports:
            continue
        found = _read_list(fact, body) if fact.items else _read_plain(fact, title.strip(), body)
        if found is not None:
            return found._replace(title=title.strip(), number=int(number))
    return None


def _read_plain(fact: Fact, title: str, body: str) -> Found | None:
    asked = {_stem(word) for word in _WORD.findall(fact.task) if word.lower() not in _QUESTION_WORDS}
    names = [name for name in names_in(fact.task) if name not in title]
    best, chosen = 0.0, ""
    rows = table_rows(body)
    for sentence in rows or _sentences(body):
        # a family name alone may be another's: the whole name counts twice as much
        named = max((1.0 if name in sentence else 0.5 * (name.split()[-1] in sentence) for name in names), default=0.0)
        # an article about the answer names it everywhere: there the sentence must name whom the task asks about
        if not named if fact.answer in title and names else not states(sentence, fact.answer):
            continue
        if rows and names and not named:  # a value in the row of something else
            continue
        words = {_stem(word) for word in _WORD.findall(sentence)}
        score = 1 + named + _says(sentence, fact.answer) + len(words & asked) / max(len(asked), 1)
        if score > best:  # of equals the first, which says what the passage is about
            best, chosen = score, sentence
    return Found(chosen.strip(), fact.answer) if chosen else None


def _sentences(body: str) -> list[str]:
    return [body[start:end].strip() for start, end in sentences(body)]


def table_rows(body: str) -> list[str]:
    """The rows of a table as passages have them, `Name: Ana; Town: Pell`, each beginning with the first column; none
    where the text is no table."""
    first = _CELL.match(body)
    if first is None or "; " not in body:
        return []
    starts = [found.start() for found in re.finditer(rf"(?:^|(?<=\s)){re.escape(first[0])}", body)]
    return [body[a:b].strip() for a, b in zip(starts, [*starts[1:], len(body)], strict=True)] if starts[1:] else []


def _says(sentence: str, answer: str) -> bool:
    """Whether a sentence has the answer as words of its own: the Writers Guild of America says nothing of America."""
    name = re.escape(answer)
    longer = rf"[A-Z][\w'’-]* (?:of (?:the )?)?{name}(?!\w)|(?<!\w){name} [A-Z]"
    return contains_answer(re.sub(longer, " ", sentence), answer)


def states(sentence: str, answer: str) -> bool:
    """Whether a sentence says the answer: in its words, from the beginning of one (a nationality counts for the
    country), or in its numbers."""
    if re.search(rf"(?<!\w){re.escape(answer)}", sentence, re.IGNORECASE):
        return True
    numbers = set(_NUMBER.findall(answer))
    return bool(numbers) and numbers <= set(_NUMBER.findall(sentence))


def _read_list(fact: Fact, body: str) -> Found | None:
    told = table_rows(body) or _sentences(body)
    whole = [s for s in told if all(item in s for item in fact.items)]
    if whole:
        note = whole[0]
    else:
        missing, parts = set(fact.items), []
        for sentence in told:
            seen = {item for item in missing if item in sentence}
            if seen:
                parts.append(sentence)
                missing -= seen
        if missing:
            return None
        note = " ".join(parts)
    items = in_order(fact.items, note)
    if _HOW_MANY.match(fact.task):
        counted = ", ".join(f"{n} {item}" for n, item in enumerate(items, 1))
        return Found(f"{note} Counted: {counted}.", fact.answer)
    return Found(note, ", ".join(items))


def in_order(items: tuple[str, ...], text: str) -> list[str]:
    """Items in the order in which a text names them."""
    return sorted(items, key=text.index)


def query(fact: Fact, attempt: int) -> str:
    """The search query for a fact: first the task itself, then its names, then its content words."""
    if attempt == 0:
        return fact.task
    names = " ".join(names_in(fact.task))
    words = [w for w in _WORD.findall(_POSSESSIVE.sub("", fact.task)) if w.lower() not in _QUESTION_WORDS]
    return names if names and attempt == 1 else " ".join(words)


def names_in(task: str) -> list[str]:
    """The names in a question, without the endings of possession."""
    return [_POSSESSIVE.sub("", name) for name in _ENTITY.findall(task[1:])]


def titles_in(text: str) -> list[str]:
    """The titles of the documents shown, in their order."""
    return [title.strip() for _, title, _ in _DOCUMENT.findall(text)]


def _stem(word: str) -> str:
    return word.lower()[:5]
