"""A writer that follows rules: it states each fact in a sentence, finds it again and asks questions politely."""

from __future__ import annotations

import re
from collections.abc import Callable

from subquest.engine.scripted import Context, ScriptedEngine
from subquest.paperwork.relations import RELATIONS
from subquest.paperwork.writing import REWORD, WORDS

VOCABULARY = """teams: Deck Crew, Ticketing, Quay Services, Timetables, Payroll
jobs: deck hand, ticket clerk, planner, welder, cook
equipment: winch, radar set, life raft, forklift, ticket printer
services: hull painting, catering
topics: travel, overtime, safety drills"""
FILLER = (
    "This paper was put together for colleagues who need the details at hand.",
    "Please read it with care and tell the office if something seems to be wrong.",
    "Thank you for your attention and for keeping our records in order.",
)
_PLACES = {"s": r"(?P<s>.+?)", "v": r"(?P<v>.+?)"}


def _pattern(form: str) -> re.Pattern[str]:
    escaped = re.escape(form).replace(r"\{s\}", "{s}").replace(r"\{v\}", "{v}")
    return re.compile("^" + escaped.format(**_PLACES) + "$", re.IGNORECASE)


_READ = [(_pattern(r.question), _pattern(r.statement)) for r in RELATIONS.values()]


def statement_sentences(user: str) -> list[str]:
    return re.findall(r"^- (.+)$", user, re.MULTILINE)


def answer(user: str) -> str:
    """The value of the one statement that the question is about; None where no statement is."""
    article, _, question = user.rpartition("\nQuestion: ")
    question = question.removeprefix("Could you tell me: ")
    for asked, stated in _READ:
        if (found := asked.match(question)) is None:
            continue
        for line in re.split(r"\n+|<[^>]+>", article):
            told = stated.match(line.strip())
            if told and told["s"].casefold() == found["s"].casefold():
                return f"<answer>{told['v']}</answer>"
    return "<answer>None</answer>"


def write(context: Context) -> str:
    system, user = context.messages[0].content, context.messages[-1].content
    if system == WORDS:
        return VOCABULARY
    if system == REWORD:
        return f"Could you tell me: {user}"
    if "Question: " in user:
        return answer(user)
    if "to stand above its table" in user:
        return "This table helps colleagues. Tell the office of any mistakes."
    return write_paper(user)


def write_paper(user: str) -> str:
    """Each fact in a paragraph of its own, and some words around them."""
    html = "Write HTML" in user
    lines = [f"<p>{s}</p>" if html else s for s in (*statement_sentences(user), *FILLER)]
    return "\n\n".join(lines)


def rule_writer(change: Callable[[Context, str], str] | None = None) -> ScriptedEngine:
    """An engine that writes by the rules; `change` may spoil a reply."""
    return ScriptedEngine(lambda context: change(context, write(context)) if change else write(context))
