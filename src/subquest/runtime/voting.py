"""Self-consistency: a question is answered several times, and the answer that most attempts agree on counts.

The first attempt decodes as it would alone; the others draw their tokens, so that they word sub-tasks and searches in
other ways and do not repeat its mistakes. An answer that can no longer be overtaken ends the vote. All attempts are
parts of one episode, with its events, its budget and its costs; their contexts are numbered on.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace

from ..errors import OutsideError
from ..limits import Limits
from .context import Context, LimitReached, RoleSetup
from .run import Answer, Run

TEMPERATURE = 0.8
"""Of the attempts after the first, where a role would decode greedily."""
_PUNCTUATION = re.compile(r"[^\w\s]")


class Attempt(Run):
    """A further attempt at the question of a run, with contexts and documents of its own."""

    def __init__(self, first: Run) -> None:
        super().__init__(
            first.question, first.setup, first._search, first.events, Limits(), first._seed, additions=first._additions
        )
        self.budget = first.budget
        self.errors = first.errors
        self._before = max((int(c.id) for c in first.contexts if c.parent is None), default=0)

    def setup(self, role: str) -> RoleSetup:
        found = super().setup(role)
        warm = found.sampling.temperature or TEMPERATURE
        return replace(found, sampling=replace(found.sampling, temperature=warm))

    def place(self, parent: Context | None, number: int) -> str:
        return super().place(parent, number if parent else self._before + number)

    def join(self, first: Run) -> None:
        """Hand over what was done here to the run of the whole episode."""
        first.contexts += self.contexts
        first.documents |= self.documents
        first._brought |= self._brought
        first.usage += self.usage


async def most_frequent_answer(
    answer: Callable[[Run], Awaitable[Answer]], run: Run, votes: int
) -> tuple[Answer, dict[str, int]]:
    """The answer of most of up to `votes` attempts, the earliest of several; and how many spoke for which.

    An attempt without an answer has no vote. One that fails is noted; where none brings an answer, the first one's end
    is the episode's.
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
        if decided([a.text for a in found], votes + 1 - number) or run.budget.exhausted():
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
    counts = counted([a.text for a in found])
    if not counts:
        return found[0], {}
    best = max(counts, key=lambda key: counts[key])
    chosen = next(a for a in found if normal(a.text) == best)
    texts = {key: next(a.text for a in found if normal(a.text) == key) for key in counts}
    return replace(chosen, confidence=counts[best] / len(found)), {texts[key]: n for key, n in counts.items()}


def decided(answers: list[str], left: int) -> bool:
    """Whether the attempts that are left can no longer change which answer has the most votes."""
    (_, most), (_, next_most) = [*counted(answers).most_common(2), ("", 0), ("", 0)][:2]
    return most > next_most + left


def counted(answers: list[str]) -> Counter[str]:
    """Votes by the normal form of the answer, in the order in which they came up."""
    return Counter(key for key in map(normal, answers) if key)


def normal(text: str) -> str:
    """An answer without case, punctuation and articles."""
    words = _PUNCTUATION.sub("", text.casefold()).split()
    return " ".join(w for w in words if w not in ("a", "an", "the")) or text.strip()
