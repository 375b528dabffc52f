"""Questions of 1 to 8 hops over a region's stated facts, each with its program, plan and supporting articles."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..record import Question, Step
from .chain_questions import draft_chain, draft_inference, draft_unanswerable
from .chains import Statements
from .comparison_questions import draft_comparison, draft_temporal
from .grammar import capitalise
from .list_questions import draft_counting, draft_intersection, draft_superlative
from .question_drafts import Draft, Drafter
from .region import Region

ATTEMPTS = 60


class QuestionType(NamedTuple):
    """How questions of a type are drafted, how many hops they can have and how common they are."""

    draft: Callable[[Drafter, int], Draft | None]
    hops: Sequence[int]
    weight: float


_TYPES = {
    "single": QuestionType(functools.partial(draft_chain, "single"), (1,), 2.0),
    "compositional": QuestionType(functools.partial(draft_chain, "compositional"), range(2, 9), 3.0),
    "bridge": QuestionType(functools.partial(draft_chain, "bridge"), range(2, 9), 3.0),
    "comparison": QuestionType(functools.partial(draft_comparison, "comparison"), (2,), 1.5),
    "bridge-comparison": QuestionType(functools.partial(draft_comparison, "bridge-comparison"), range(3, 9), 1.2),
    "inference": QuestionType(draft_inference, range(2, 6), 1.0),
    "intersection": QuestionType(draft_intersection, (2, 3), 0.8),
    "counting": QuestionType(draft_counting, (1, 2, 3), 0.8),
    "superlative": QuestionType(draft_superlative, range(3, 9), 0.7),
    "temporal": QuestionType(draft_temporal, range(2, 7), 1.0),
}
TYPES = tuple(_TYPES)
POSSIBLE_HOPS = {name: tuple(type_.hops) for name, type_ in _TYPES.items()}


def draft_questions(drafter: Drafter, count: int, hops: Sequence[int], types: Sequence[str]) -> list[Draft]:
    """That many different questions, or fewer where the region cannot give more."""
    seen: set[str] = set()
    out: list[Draft] = []
    options = [(t, n) for t in types for n in hops if n in POSSIBLE_HOPS[t]]
    same = Counter(t for t, _ in options)
    weights = [((t, n), _TYPES[t].weight / same[t]) for t, n in options]
    failures = 0
    while len(out) < count and weights and failures < 40 + count:
        kind, n = drafter.stream.weighted(weights)
        for _ in range(ATTEMPTS):
            draft = _TYPES[kind].draft(drafter, n)
            if draft is not None and draft.text not in seen and _is_fair(draft, n):
                seen.add(draft.text)
                out.append(draft)
                break
        else:
            failures += 1
    return out


def _is_fair(draft: Draft, hops: int) -> bool:
    """The right number of hops, and no answer or later sub-answer given away by the question."""
    steps, operation = draft.plan.steps, draft.operation[0]
    if len(steps) != hops:
        return False
    if operation in ("pick", "best"):
        return True
    low = draft.text.lower()
    if operation == "last" and any(a.lower() in low for a in draft.answers):
        return False
    return not any(len(s.answer) > 3 and s.answer.lower() in low for s in steps if not s.answer[0].isdigit())


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
    unanswerable: int = 0,
) -> list[Question]:
    """The region's questions as records; no article answers `unanswerable` of them."""
    drafter = Drafter(region, statements, phrasings)
    drafts = draft_questions(drafter, count - unanswerable, hops, types)
    texts = {d.text for d in drafts}
    for _ in range(unanswerable * ATTEMPTS):
        if unanswerable == 0:
            break
        draft = draft_unanswerable(drafter)
        if draft is not None and draft.text not in texts:
            texts.add(draft.text)
            drafts.append(draft)
            unanswerable -= 1
    return [_record(d, f"{world}-r{region.number}-q{i}", world, split, drafter) for i, d in enumerate(drafts)]


def _record(draft: Draft, id: str, world: str, split: str, drafter: Drafter) -> Question:
    supports = list(dict.fromkeys(draft.plan.supports))
    steps = tuple(Step(capitalise(s.question), s.answer, s.support) for s in draft.plan.steps)
    meta: dict[str, Any] = {"program": [list(r) for r in draft.plan.program], "operation": list(draft.operation)}
    if draft.items:
        meta["items"] = {str(step): names for step, names in draft.items.items()}
    return Question(
        id=id,
        question=capitalise(draft.text),
        answers=draft.answers,
        dataset=world,
        split=split,
        hops=len(steps),
        type=draft.type,
        supporting_titles=tuple(drafter.title(a) for a in supports),
        supporting_ids=tuple(supports),
        decomposition=steps,
        meta=meta,
    )
