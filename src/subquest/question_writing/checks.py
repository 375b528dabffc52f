"""Whether what a model wrote can be used, as far as code can tell: a question that is clear by itself, in words of its
own, whose answer stands in the passage; a yes-or-no question; two questions joined into one."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ..data.self_instruct import holds, mentions, names_in
from ..english import MONTHS, WEEKDAYS
from ..metrics import f1, normalize
from ..record import Document, Question
from ..retrieval.analysis import Analysis
from ..runtime.statements import sentences

MALFORMED = "not one question with an answer"
DANGLING = "it refers to the text, or to nobody in particular"
ABSENT = "the answer is not in the passage"
OTHERWISE = "the answer is of another kind than what is asked for"
LONG = "the answer is too long, or a sentence"
LEAK = "it holds its answer, or what a step finds"
ADDED = "it has a name or number that the passage lacks"
ROW = "the answer is in the row of something else"
VAGUE = "it names nothing of the passage"
UNNAMED = "it lacks the name that it has to contain"
COPIED = "it copies a sentence"
LOST = "a name or a part of what is asked was lost"
CLOSE = "it still has the words of the passage"
ALONE = "its last sentence says everything"
ONE_THING = "it asks for one thing"

LONGEST_QUESTION = 40
LONGEST_JOINED = 60
LONGEST_ANSWER = 10
"""Words. Of a list, each item."""
COPIED_SHARE = 0.75
"""From this share of its words (names aside) in one sentence on, a question is a copy of that sentence."""
KEPT_SHARE = 0.6
"""Share of the words of a question that a joined one must have."""
FEW_WORDS = 0.6
"""Share of its words, names aside, that a question put otherwise may have from its passage."""
GIVEN_AWAY = 0.6
"""Share of the words of an answer that a question must not have."""
SAME_ANSWER = 0.6
"""F1 of two answers that count as the same."""

_LABEL = re.compile(r"[\s*\d.)-]*(Q|Question|A|Answer)\s*\d*\s*[*]*:[*\s]*", re.IGNORECASE)
_MARKUP = re.compile(r"[\[\]{}<>#*_|]|\b(?:as an ai|language model)\b", re.IGNORECASE)
_TO_THE_TEXT = re.compile(
    r"\b(?:the|this|that|these|those|a|above|following|given) "
    r"(?:\w+ )?(?:text|passage|article|document|paragraph|table|excerpt|section|row|sentence|statement|question)\b"
    r"|\b(?:according to|mentioned|stated|described|listed|given|provided) (?:in|above|here|by the)\b"
    r"|\b(?:this|these|here)\b|\bthose\b(?! (?:who|that|of|in|with))|\bmentioned\b",
    re.IGNORECASE,
)
_PRONOUN = re.compile(r"\b(?:he|she|him|her|his|hers|they|them|their|its|it)\b", re.IGNORECASE)
_SUBJECT = re.compile(r"(?:he|she|it|they|we|i|you|this|these|there)\b", re.IGNORECASE)
_IDLE_IT = re.compile(
    r"\b(?:is|was|does|did|will|can) it (?:true|take|cost|mean|possible|necessary|\w+ to)\b|\bit is\b"
)
_NAME = re.compile(r"\b[A-Z0-9][\w'’&-]*")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_ROW = re.compile(r"[^:;]{1,40}: [^;]*; [^:;]{1,40}: ")
_ITEM = re.compile(r"[,;]\s*(?:and\s+)?")
_HOW_MANY = re.compile(r"how (?:many|much|long|old|large|tall|far)\b", re.IGNORECASE)
_COUNT = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|\w+ty|hundred|thousand|million|half"
    r"|dozen|none|no|all|both|several|once|twice|an?)\b",
    re.IGNORECASE,
)
_NO_SUM = re.compile(r"(?:\w+ )?(?:who|whom|whose|when|where|why)\b", re.IGNORECASE)
_YES_NO = re.compile(
    r"(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|may|must|should)\b", re.IGNORECASE
)
_QUESTION_WORD = re.compile(r"\b(who|whom|whose|when|where|which|what|how|why)\b", re.IGNORECASE)
_CALENDAR = re.compile(rf"\b(?:{'|'.join((*MONTHS, *WEEKDAYS))})\b", re.IGNORECASE)
_SHAPE = re.compile(r"\d+(?:[.,:]\d+)*|[A-Z][\w'’-]*|\s+|.")
_ENTITY = re.compile(r"[A-Z][\w.'’&-]*(?: (?:(?:of|the|and|for|de|la|von|van|&) )*[A-Z][\w.'’&-]*)*")
_KIND = re.compile(r"\b(who|where|(?:which|what) (?!(?:is|are|was|were|do|does|did)\b)(\w+))\b", re.IGNORECASE)
_I = re.compile(r"\bI['’]\w+")
_terms = Analysis().query_terms
_ANY = frozenset(_terms("name person people thing kind much many year date"))
"""Words that say what kind of answer is wanted, which another wording may leave out."""


class Pair(NamedTuple):
    question: str
    answer: str


def read_pairs(reply: str) -> list[Pair]:
    """The questions and answers of a reply; a question without an answer is left out."""
    pairs: list[Pair] = []
    question = ""
    for line in reply.splitlines():
        if (label := _LABEL.match(line)) is None:
            continue
        said = " ".join(line[label.end() :].strip(" *\"'").split())
        if label[1][0] in "Qq":
            question = said
        elif question:
            pairs.append(Pair(question, said.rstrip(".") if said.count(".") == 1 else said))
            question = ""
    return pairs


def items_of(answer: str) -> list[str]:
    """The items of a list of at least three; empty where the answer is no such list."""
    *items, last = _ITEM.split(answer)
    items = [item.strip() for item in (*items, *last.split(" and ", 1)) if item.strip()]
    return items if len(items) > 2 and not any(item[0].isdigit() for item in items) else []


def as_written(answer: str, text: str) -> str:
    """An answer, or a list of answers, as the passage spells them; empty if the passage does not have them."""
    found = [_spelling(item, text) for item in items_of(answer)]
    if found and all(found):
        return ", ".join(found)
    return _spelling(answer, text)


def _spelling(answer: str, text: str) -> str:
    if not answer or not holds(text, answer):
        return ""
    if answer in text:
        return answer
    at = text.casefold().find(answer.casefold())
    return text[at : at + len(answer)] if text[at : at + len(answer)].casefold() == answer.casefold() else answer


def question_flaw(question: str, answer: str, passage: Document, name: str = "") -> str:
    """Why a question about a passage must not be used; empty if nothing speaks against it.

    `answer` is as the passage spells it; with a `name`, the question has to contain that.
    """
    if not _is_question(question, LONGEST_QUESTION):
        return MALFORMED
    if not answer:
        return ABSENT
    if (_HOW_MANY.match(question) and not _COUNT.search(answer)) or (_is_sum(answer) and _NO_SUM.match(question)):
        return OTHERWISE
    if _SUBJECT.match(answer) or any(len(item.split()) > LONGEST_ANSWER for item in items_of(answer) or [answer]):
        return LONG
    if any(gives_away(question, item) for item in items_of(answer) or [answer]):
        return LEAK
    if dangles(question):
        return DANGLING
    if name and not holds(question, name):
        return UNNAMED
    known = f"{passage.title}\n{passage.text}"
    if any(word not in _words(known) for text in names_in(question) for word in _words(text)):
        return ADDED
    if _in_another_row(question, answer, passage.text):
        return ROW
    if not is_named(question) and len(set(_terms(question)) & set(_terms(known))) < 3:
        return VAGUE
    return COPIED if is_copy(question, passage) else ""


def _is_sum(answer: str) -> bool:
    """Whether an answer begins with the sign of a currency."""
    return unicodedata.category(answer[0]) == "Sc"


def _in_another_row(question: str, answer: str, text: str) -> bool:
    """Whether rows of a table have a name of the question, and none of them the answer."""
    names = [name for name in names_in(question) if not _NUMBER.fullmatch(name)]
    rows = [line for line in text.split("\n") if _ROW.match(line) and any(mentions(line, name) for name in names)]
    parts = items_of(answer) or [answer]
    return bool(rows) and not any(holds(row, part) for row in rows for part in parts)


def _is_question(text: str, longest: int) -> bool:
    words = len(text.split())
    return text.endswith("?") and text.count("?") == 1 and 4 <= words <= longest and not _MARKUP.search(text)


def dangles(question: str) -> bool:
    """Whether a question points to the text, or has a pronoun with no name before it."""
    if _TO_THE_TEXT.search(question):
        return True
    found = _PRONOUN.search(_IDLE_IT.sub("", question))
    return found is not None and not names_in(question[: found.start()])


def gives_away(question: str, answer: str) -> bool:
    """Whether a question has an answer in it, or most words of the answer."""
    words = set(_terms(answer))
    return mentions(question, answer) or len(words & set(_terms(question))) >= GIVEN_AWAY * len(words)


def is_named(question: str) -> bool:
    """Whether a question names something, or has a number."""
    return bool(names_in(question))


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold().replace("'s", "").replace("’s", "")))


def is_copy(question: str, passage: Document) -> bool:
    """Whether most of its words, names aside, stand in one sentence of the passage. Rows of tables do not count:
    what they list has no other name."""
    named = {term for name in names_in(question) for term in _terms(name)}
    plain = set(_terms(question)) - named - _ANY
    if len(plain) < 3:
        return False
    each = (passage.text[start:end] for start, end in sentences(passage.text))
    return any(len(plain & set(_terms(s))) >= COPIED_SHARE * len(plain) for s in each if not _ROW.match(s))


def agrees(given: str, answer: str) -> bool:
    """Whether two answers say the same: most words, and all numbers."""
    return f1(given, answer) >= SAME_ANSWER and set(_NUMBER.findall(given)) == set(_NUMBER.findall(answer))


def is_entity(answer: str) -> bool:
    """Whether an answer is a name that another passage can be asked about, not a date, number or phrase."""
    return bool(_ENTITY.fullmatch(answer)) and len(answer) > 3 and not _CALENDAR.search(answer) and len(answer) < 60


def alternatives(answer: str, passage: Document, question: str) -> list[str]:
    """Other values of the same shape in a passage: for a date the other dates, for a name the other names."""
    pattern = ""
    for part in _SHAPE.findall(answer):
        if len(part) == 4 and part.isdigit():  # mostly a year
            pattern += r"\d{4}"
        elif _NUMBER.fullmatch(part):
            pattern += r"\d[\d,.:]*\d|\d".join(("(?:", ")"))
        elif _CALENDAR.fullmatch(part):
            pattern += f"(?i:{_CALENDAR.pattern})"
        else:
            pattern += r"[A-Z][\w'’-]+" if part[0].isupper() else r"\s+" if part.isspace() else re.escape(part)
    if not re.search(r"\\d|A-Z", pattern):  # a phrase has no shape
        return []
    before = r"(?<=[a-z,;:] )" if answer[0].isupper() else r"(?<![\w.,:])"
    found = dict.fromkeys(match[0] for match in re.finditer(rf"{before}{pattern}(?!\w)(?!,\d)(?! [A-Z])", passage.text))
    return [other for other in found if normalize(other) != normalize(answer) and not mentions(question, other)]


def yes_no_flaw(made: str, question: str, suggestion: str) -> str:
    """Why a question cannot ask whether the suggested answer to another one is true."""
    if not _is_question(made, LONGEST_QUESTION) or not _YES_NO.match(made):
        return MALFORMED
    if not holds(made, suggestion) or not _keeps(made, question, KEPT_SHARE):
        return LOST
    return ADDED if _adds(made, (question, suggestion)) else ""


def joined_flaw(made: str, first: Question, second: str, name: str, answer: str) -> str:
    """Why a question does not join two: the name between them and all answers are gone, the rest of both is there."""
    if not _is_question(made, LONGEST_JOINED):
        return MALFORMED
    rest = second.replace(name, " ")
    hidden = [answer, *(step.answer for step in first.decomposition)]
    partial = [word for word in _NAME.findall(name) if len(word) > 3 and not mentions(f"{first.question} {rest}", word)]
    if any(gives_away(made, value) for value in hidden) or any(mentions(made, word) for word in partial):
        return LEAK
    asked = _QUESTION_WORD.search(second)
    if asked and not mentions(made, asked[0]):
        return LOST
    if not _keeps(made, first.question, KEPT_SHARE) or not _keeps(made, rest, KEPT_SHARE):
        return LOST
    return ADDED if _adds(made, (first.question, rest)) else ""


def read_description(reply: str, question: Question) -> str:
    """What a question asks for, as "the person who …"; empty if the reply is something else or loses or adds a part."""
    told = " ".join(reply.strip(" .?\"'").split())
    told = told[:1].lower() + told[1:]
    hidden = [step.answer for step in question.decomposition]
    good = told.startswith("the ") and "?" not in told and not _MARKUP.search(told)
    good = good and _keeps(told, question.question, KEPT_SHARE) and not _adds(told, (question.question,))
    return told if good and not any(gives_away(told, value) for value in hidden) else ""


def join(second: str, name: str, description: str) -> str:
    """A question with a description in the place of a name; empty where it would not read well."""
    if len(re.findall(rf"(?<!\w){re.escape(name)}(?!\w)", second)) != 1:
        return ""
    place = rf"(?:\b[Tt]he )?(?<!\w){re.escape(name)}"
    owned = re.search(rf"{place}['’]s? (\w+(?: \w+){{0,2}})\?$", second)
    if owned:
        made = f"{second[: owned.start()]}the {owned[1]} of {description}?"
    elif re.search(rf"{place}['’]", second):
        return ""
    else:
        made = re.sub(place, lambda _: description, second)
    return made[:1].upper() + made[1:]


def _keeps(made: str, question: str, share: float) -> bool:
    """Whether a question has all names of another and a share of its other words."""
    if any(not mentions(made, name) for name in names_in(question)):
        return False
    plain = set(_terms(question)) - _ANY
    return len(plain & set(_terms(made))) >= share * len(plain)


def _adds(made: str, sources: Sequence[str]) -> bool:
    known = _words(" ".join(sources))
    names = (name for start, end in sentences(made) for name in names_in(made[start:end]))
    return any(word not in known for name in names for word in _words(_I.sub("", name)))


def reworded_flaw(made: str, question: str, subject: str = "") -> str:
    """Why other words for a question cannot take its place; they may add the name of a `subject`. Whether they fit the
    passage is checked as for all."""
    if made.casefold() == question.casefold() or not _is_question(made, LONGEST_QUESTION):
        return MALFORMED
    if any(not mentions(made, name) for name in names_in(question)):
        return LOST
    return ADDED if _adds(made, (question, subject)) else ""


def says_the_same(made: str, question: str) -> bool:
    """Whether two questions have the same names and mostly the same words."""
    return _keeps(made, question, KEPT_SHARE) and _keeps(question, made, KEPT_SHARE)


def told_flaw(made: str, question: Question) -> str:
    """Why a situation with a question cannot take the place of a question alone: the last sentence asks and is not
    clear by itself, what comes before it does not ask, and together they tell what the question tells and no more."""
    *situation, (start, end) = sentences(made) or [(0, 0)]
    asked = made[start:end]
    if not situation or not _is_question(made, LONGEST_JOINED):
        return MALFORMED
    if any(gives_away(made, step.answer) for step in question.decomposition):
        return LEAK
    if not _keeps(made, question.question, KEPT_SHARE):
        return LOST
    if _keeps(asked, question.question, KEPT_SHARE):
        return ALONE
    return ADDED if _adds(made, (question.question,)) else ""


def pointing_back(second: str, name: str, first: str) -> str:
    """A question with "that person", "that firm" or the like in the place of a `name` that answers the one before."""
    if not name:
        return second
    asked = _KIND.search(first)
    kind = (asked[2] or {"who": "person", "where": "place"}[asked[1].casefold()]) if asked else "one"
    return re.sub(rf"(?:\b[Tt]he )?(?<!\w){re.escape(name)}(?!\w)", f"that {kind}", second)


def double_flaw(made: str, first: Question, second: Question, name: str) -> str:
    """Why a question does not ask for both of two things. With a `name`, the second question has the answer to the
    first one, which must be gone."""
    if not _is_question(made, LONGEST_JOINED):
        return MALFORMED
    answers = (first.answers[0], second.answers[0])
    if any(gives_away(made, answer) for answer in answers):
        return LEAK
    if normalize(answers[0]) == normalize(answers[1]):
        return ONE_THING
    rest = second.question.replace(name, " ") if name else second.question
    asked = [_QUESTION_WORD.search(question.question) for question in (first, second)]
    wanted = Counter(word[0].casefold() for word in asked if word)
    if wanted - Counter(word.casefold() for word in _QUESTION_WORD.findall(made)):
        return ONE_THING
    if not _keeps(made, first.question, KEPT_SHARE) or not _keeps(made, rest, KEPT_SHARE):
        return LOST
    return ADDED if _adds(made, (first.question, rest)) else ""


def shared_words(text: str, passage: Document) -> float:
    """The share of a text's content words that a passage has; 0 where there are none."""
    words = set(_terms(text))
    return len(words & set(_terms(f"{passage.title}\n{passage.text}"))) / len(words) if words else 0.0
