"""Self-consistency: a question is answered several times, and the most frequent answer wins.

The first attempt decodes as it would alone; the others sample, so that they phrase sub-tasks and searches differently
and do not repeat its mistakes. The vote ends as soon as one answer can no longer be overtaken. All attempts belong to
one episode, with one budget and one event log; their contexts are numbered consecutively.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace

from ..errors import OutsideError
from .context import Context, LimitReached
from .part_run import PartRun
from .role_setup import RoleSetup
from .run import Answer, Run

TEMPERATURE = 0.8
"""Of the attempts after the first, for roles that would decode greedily."""
MOST_VOTES = 1000
"""Attempts at one question."""
_PUNCTUATION = re.compile(r"[^\w\s]")


class Attempt(PartRun):
    """A further attempt at the question of a run."""

    def __init__(self, first: Run) -> None:
        super().__init__(first)
        self._offset = max((int(c.id) for c in first.contexts if c.parent is None), default=0)

    def setup(self, role: str) -> RoleSetup:
        found = super().setup(role)
        warm = found.sampling.temperature or TEMPERATURE
        return replace(found, sampling=replace(found.sampling, temperature=warm))

    def context_id(self, parent: Context | None, number: int) -> str:
        return super().context_id(parent, number if parent else self._offset + number)


async def most_frequent_answer(
    answer: Callable[[Run], Awaitable[Answer]], run: Run, votes: int
) -> tuple[Answer, dict[str, int]]:
    """The most frequent answer of up to `votes` attempts (the earliest if several tie), and the votes of each answer.

    An attempt without an answer has no vote, and one that fails is recorded. If no attempt gives an answer, the episode
    ends as the first attempt did.
    """
    found: list[Answer] = []
    try:
        found.append(await answer(run))
    except OutsideError as error:
        first_error: OutsideError | None = error
        run.fail("attempt 1", error)
    else:
        first_error = None
    for number in range(2, votes + 1):
        if is_decided([a.text for a in found], votes + 1 - number) or run.budget.exhausted():
            break
        attempt = Attempt(run)
        try:
            found.append(await answer(attempt))
        except (OutsideError, LimitReached) as error:
            run.fail(f"attempt {number}", error)
        finally:
            attempt.join(run)
    if not found and first_error is not None:
        raise first_error
    counts = count_votes([a.text for a in found])
    if not counts:
        return found[0], {}
    best = max(counts, key=lambda key: counts[key])
    chosen = next(a for a in found if normalize_answer(a.text) == best)
    texts = {key: next(a.text for a in found if normalize_answer(a.text) == key) for key in counts}
    return replace(chosen, confidence=counts[best] / len(found)), {texts[key]: n for key, n in counts.items()}


def is_decided(answers: list[str], left: int) -> bool:
    """Whether the remaining attempts can no longer change which answer has the most votes."""
    (_, most), (_, next_most) = [*count_votes(answers).most_common(2), ("", 0), ("", 0)][:2]
    return most > next_most + left


def count_votes(answers: list[str]) -> Counter[str]:
    """Votes by normalized answer, in order of appearance."""
    return Counter(key for key in map(normalize_answer, answers) if key)


def normalize_answer(text: str) -> str:
    """The answer without case, punctuation and articles."""
    words = _PUNCTUATION.sub("", text.casefold()).split()
    return " ".join(w for w in words if w not in ("a", "an", "the")) or text.strip()
