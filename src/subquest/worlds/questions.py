"""Questions of 1 to 8 hops over a region's stated facts, each with its program, plan and supporting articles."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..record import Question, Step
from .chains import Statements
from .comparing import comparison, temporal
from .drafts import Draft, Drafter
from .following import along_chain, inference
from .following import unanswerable as unanswerable_question
from .lists import counting, intersection, superlative
from .prose.words import capitalise
from .region import Region

TYPES = (
    "single", "compositional", "bridge", "comparison", "bridge-comparison", "inference", "intersection", "counting",
    "superlative", "temporal",
)  # fmt: skip
WEIGHTS = {"single": 2.0, "compositional": 3.0, "bridge": 3.0, "comparison": 1.5, "bridge-comparison": 1.2,
           "inference": 1.0, "intersection": 0.8, "counting": 0.8, "superlative": 0.7, "temporal": 1.0}  # fmt: skip
ATTEMPTS = 60


Maker = Callable[[Drafter, int], Draft | None]
MAKERS: dict[str, Maker] = {
    "single": functools.partial(along_chain, "single"),
    "compositional": functools.partial(along_chain, "compositional"),
    "bridge": functools.partial(along_chain, "bridge"),
    "comparison": functools.partial(comparison, "comparison"),
    "bridge-comparison": functools.partial(comparison, "bridge-comparison"),
    "inference": inference,
    "intersection": intersection,
    "counting": counting,
    "superlative": superlative,
    "temporal": temporal,
}


class Asker(Drafter):
    """Makes the questions of one region."""

    def make(self, count: int, hops: Sequence[int], types: Sequence[str]) -> list[Draft]:
        """That many different questions, or fewer where the region cannot give more."""
        s, seen = self.stream, set()
        out: list[Draft] = []
        options = [(t, n) for t in types for n in hops if n in POSSIBLE[t]]
        weights = []
        for t, n in options:
            same = sum(1 for u, _ in options if u == t)
            weights.append(((t, n), WEIGHTS[t] / same))
        failures = 0
        while len(out) < count and options and failures < 40 + count:
            kind, n = s.weighted(weights)
            draft = None
            for _ in range(ATTEMPTS):
                draft = MAKERS[kind](self, n)
                if draft is not None and draft.text not in seen and self._fair(draft, n):
                    break
                draft = None
            if draft is None:
                failures += 1
                continue
            seen.add(draft.text)
            out.append(draft)
        return out

    def _fair(self, draft: Draft, hops: int) -> bool:
        """The right number of hops, and no answer or later sub-answer given away by the question."""
        if len(draft.steps) != hops:
            return False
        if draft.operation[0] in ("pick", "best"):
            return True
        low = draft.text.lower()
        if draft.operation[0] == "last" and any(a.lower() in low for a in draft.answers):
            return False
        return not any(len(s.answer) > 3 and s.answer.lower() in low for s in draft.steps if not s.answer[0].isdigit())


POSSIBLE: dict[str, tuple[int, ...]] = {
    "single": (1,), "compositional": tuple(range(2, 9)), "bridge": tuple(range(2, 9)), "comparison": (2,),
    "bridge-comparison": (3, 4, 5, 6, 7, 8), "inference": (2, 3, 4, 5), "intersection": (2, 3), "counting": (1, 2, 3),
    "superlative": (3, 4, 5, 6, 7, 8), "temporal": (2, 3, 4, 5, 6),
}  # fmt: skip
"""The numbers of hops each type can have."""


def make_questions(
    region: Region,
    statements: Statements,
    count: int,
    *,
    world: str,
    split: str,
    hops: Sequence[int] = (1, 2, 3, 4),
    types: Sequence[str] = TYPES,
    phrasings: str = "all",
    unanswerable: float = 0.0,
) -> list[Question]:
    """The region's questions as records; `unanswerable` is the share that no article answers."""
    asker = Asker(region, statements, phrasings)
    without = round(count * unanswerable)
    drafts = asker.make(count - without, hops, types)
    texts = {d.text for d in drafts}
    for _ in range(without * ATTEMPTS):
        if without == 0:
            break
        draft = unanswerable_question(asker)
        if draft is not None and draft.text not in texts:
            texts.add(draft.text)
            drafts.append(draft)
            without -= 1
    return [_record(d, f"{world}-r{region.number}-q{i}", world, split, asker) for i, d in enumerate(drafts)]


def _record(draft: Draft, id: str, world: str, split: str, asker: Asker) -> Question:
    supports = list(dict.fromkeys(draft.supports))
    steps = tuple(Step(capitalise(s.question), s.answer, s.support) for s in draft.steps)
    meta: dict[str, Any] = {"program": [list(r) for r in draft.program], "operation": list(draft.operation)}
    if draft.items:
        meta["items"] = {str(step): names for step, names in draft.items.items()}
    return Question(
        id=id,
        question=capitalise(draft.text),
        answers=draft.answers,
        dataset=world,
        split=split,
        hops=len(draft.steps),
        type=draft.type,
        supporting_titles=tuple(asker.title(a) for a in supports),
        supporting_ids=tuple(supports),
        decomposition=steps,
        meta=meta,
    )
