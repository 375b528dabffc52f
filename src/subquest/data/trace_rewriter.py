"""Self-instruct for traces: a teacher model rewrites the turns of gold traces; only what passes a filter is kept.

Gold turns are written by rule, and a student that learns from them learns their wording too. Here a teacher writes
each turn in its own words *while the system runs*: a rewritten query goes to the real search, and everything later in
the trace follows from it. As with plans (`self_instruct`): generate, filter, validate.

    correctness        the same actions in the same order; tasks, plans, results and answers word for word; queries
                       keep their names
    triviality         another wording than the gold one; a query does not contain what it is meant to find
    flawed reasoning   notes and thoughts name nothing that the agent has not seen, and still state the conclusion
    validation         the teacher, shown the notes alone, reaches the conclusion of the trace

A refused turn stays as it was, and the reason is counted; a trace is kept or rejected like any gold trace.
"""

from __future__ import annotations

import re
from collections import Counter

from ..engine.interface import Engine, Sampling
from ..protocol import Parsed, parse
from .self_instruct import ANSWER, ask, mentions, names_in, same_answer

REWRITE_TURN = """You rewrite one turn of a search agent in other words. Keep every tag and the order of the tags. \
Keep what stands in <task>, <plan>, <result> and <answer> exactly as it is. Write thoughts, notes and \
queries anew, keep all names, dates and numbers, and add nothing that is neither in the turn nor in what the agent \
saw. Reply with the turn."""
FIXED = ("task", "plan", "result", "answer")
_SENTENCE = re.compile(r"(?<=[.!?;:])\s+")
NOTES = ("refine", "filter", "think")
SEEN_CHARACTERS = 4000
"""How much of what the agent saw the teacher is shown, counted from its end."""

ACTIONS = "incorrect: other actions"
CHANGED = "incorrect: a task, plan, result or answer was changed"
LOST = "incorrect: a query lost a name"
UNCHANGED = "trivial: unchanged"
LEAK = "trivial: a query holds what it looks for"
INVENTED = "flawed reasoning: something was not to be seen"
UNFOUNDED = "flawed reasoning: the notes do not state the result"
INVALID = "not validated: the notes lead to another result"


class TraceRewriter:
    """Rewrites turns. `kept` counts the rewritten turns that were kept, `refused` the others, by reason."""

    def __init__(self, teacher: Engine, sampling: Sampling | None = None) -> None:
        self.kept = 0
        self.refused: Counter[str] = Counter()
        self._teacher = teacher
        self._sampling = sampling or Sampling()

    async def __call__(self, gold: str, seen: str, task: str) -> str:
        """The turn in other words, or as it was. `seen` is everything the agent has seen, `task` what it was asked."""
        written = parse(gold)
        if not written.all("search", *NOTES):
            return gold
        user = f"What the agent saw:\n{seen[-SEEN_CHARACTERS:]}\nThe turn:\n{gold}"
        made = (await ask(self._teacher, REWRITE_TURN, user, self._sampling)).strip()
        reason = find_flaw(made, gold, seen) or await self._invalid(parse(made), task)
        if reason:
            self.refused[reason] += 1
            return gold
        self.kept += 1
        return made

    async def _invalid(self, made: Parsed, task: str) -> str:
        """Asks the teacher for the result from the notes alone, where a turn has both."""
        notes = " ".join(block.content for block in made.all("refine", "filter"))
        result = made.first("result", "answer")
        if not notes or result is None:
            return ""
        reply = await ask(self._teacher, ANSWER, f"Article: notes\n{notes}\nQuestion: {task}", self._sampling)
        return "" if same_answer(parse(reply).text("answer"), result.content) else INVALID


def find_flaw(made: str, gold: str, seen: str) -> str:
    """Why a rewritten turn is not as good as the gold one; empty where it is."""
    new, old = parse(made), parse(gold)
    if new.problems or [b.tag for b in new.blocks] != [b.tag for b in old.blocks] or (new.outside and not old.outside):
        return ACTIONS
    pairs = list(zip(new.blocks, old.blocks, strict=True))
    if any(n.content != o.content for n, o in pairs if o.tag in FIXED):
        return CHANGED
    if all(n.content == o.content for n, o in pairs):
        return UNCHANGED
    known = f"{seen}\n{gold}".casefold()
    for n, o in pairs:
        if o.tag in FIXED:
            continue
        if o.tag == "search" and any(name not in n.content.casefold() for name in _names(o.content)):
            return LOST
        if any(name not in known for name in _names(n.content)):
            return LEAK if o.tag == "search" else INVENTED
    result = old.first("result", "answer")
    notes = [(n.content, o.content) for n, o in pairs if o.tag in ("refine", "filter")]
    if result is not None and any(mentions(o, result.content) and not mentions(n, result.content) for n, o in notes):
        return UNFOUNDED
    return ""


def _names(text: str) -> list[str]:
    """Names and numbers of a text in lower case; the capital of a sentence's first word does not make it a name."""
    return [name.casefold() for part in _SENTENCE.split(text) for name in names_in(part)]
