"""Questions about lists: what two lists share, how long a list is, which item comes first."""

from __future__ import annotations

from collections.abc import Sequence

from ..record import Step
from .chains import Chain, Hop
from .entity import Entity, atom
from .grammar import SMALL_NUMBERS, join
from .programs import Atom, StepRow
from .question_drafts import Draft, Drafter, Plan
from .question_texts import LISTINGS, SUPERLATIVES, answer_texts, fill

SHARED = {
    ("directed", "starred_in"): ("directed by {x} and starring {y}", "was directed by {x} and stars {y}"),
    ("starred_in", "starred_in"): ("starring both {x} and {y}", "stars both {x} and {y}"),
    ("scored", "starred_in"): ("starring {y} with music by {x}", "stars {y} and has music composed by {x}"),
    ("directed", "scored"): ("directed by {x} with music by {y}", "was directed by {x} and has music composed by {y}"),
    ("ships_built", "fleet"): ("built by {x} and operated by {y}", "was built by {x} and is operated by {y}"),
}
"""Pairs of lists that may share one item, and how the item is named and asked for."""


def _owner_of(d: Drafter, inverses: Sequence[str], least: int, most: int) -> tuple[Entity, str, list[Entity]] | None:
    """Someone with a list of a suitable length, and that list."""
    inverse = d.stream.pick(tuple(inverses))
    owners = d.owners(inverse)
    if not owners:
        return None
    owner = d.stream.pick(owners)
    items = d.walker.listed(owner, inverse)
    return (owner, inverse, items) if least <= len(items) <= most else None


def _list_step(d: Drafter, owner: Entity, inverse: str, items: list[Entity], x: str) -> Step:
    question = fill(f"Which {LISTINGS[inverse].verb}?", x, owner)
    return Step(question, join([i.name for i in items]), d.title(owner.id))


def draft_intersection(d: Drafter, n: int) -> Draft | None:
    """What two lists share, or something about it."""
    s = d.stream
    one, two = s.pick(tuple(SHARED))
    first = _owner_of(d, (one,), 2, 7)
    if first is None:
        return None
    a, _, items = first
    target = s.pick(items)
    others = [e for e in d.owners(two) if target in e.many(two) and e is not a]
    if not others:
        return None
    b = s.pick(others)
    theirs = d.walker.listed(b, two)
    if len(theirs) > 7 or len([i for i in items if i in theirs]) != 1:
        return None
    x, y = d.phraser.mention(a), d.phraser.mention(b)
    noun = "ship" if one == "ships_built" else "film"
    short, clause = (w.replace("{x}", x).replace("{y}", y) for w in SHARED[one, two])
    steps = [_list_step(d, a, one, items, x), _list_step(d, b, two, theirs, y)]
    plan = Plan(steps, [("all", a.id, one), ("all", b.id, two)], [a.id, b.id])
    lists = {1: [i.name for i in items], 2: [i.name for i in theirs]}
    if n == 2:
        text = d.phraser.choose((f"Which {noun} {clause}?", f"What is the {noun} {short}?"))
        return Draft(text, answer_texts(target, ""), "intersection", plan, ["both", 1, 2], lists)
    hop = s.pick(d.walker.hops(target, True) or [None])
    if hop is None or hop.value in (a, b) or n != 3:
        return None
    last = d.phraser.asking(hop.relation, target)
    text = d.phraser.fill(d.phraser.choose(last.questions), f"the {noun} {short}", hop)
    ask = d.phraser.sub_question(hop, d.phraser.mention(target))
    plan.steps.append(Step(ask, hop.answers[0], d.title(hop.support)))
    plan.program.append(("of" if hop.inverse else "get", "#1&2", hop.relation))
    plan.supports.append(hop.support)
    return Draft(text, hop.answers, "intersection", plan, ["last"], lists)


def draft_counting(d: Drafter, n: int) -> Draft | None:
    """How long a list is."""
    found = _owner_of(d, tuple(LISTINGS), 2, 12)
    if found is None:
        return None
    owner, inverse, items = found
    chain = _chain_back_from(d, owner, n - 1)
    if chain is None:
        return None
    x = d.phraser.phrase(chain)
    template = f"How many {LISTINGS[inverse].verb}?"
    text = fill(template, x, owner)
    mine = d.phraser.reference(owner, n - 1) if chain.hops else x
    plan = d.plan(chain)
    plan.steps.append(Step(fill(template, mine, owner), str(len(items)), d.title(owner.id)))
    plan.program.append(("all", f"#{n - 1}" if chain.hops else owner.id, inverse))
    plan.supports.append(owner.id)
    answers = (str(len(items)), SMALL_NUMBERS[len(items)])
    return Draft(text, answers, "counting", plan, ["count", n], {n: [i.name for i in items]})


def _chain_back_from(d: Drafter, target: Entity, length: int, seen: frozenset[str] = frozenset()) -> Chain | None:
    """A chain of that many hops that ends at the target, found backwards."""
    if length == 0:
        return Chain(target)
    seen = seen | {target.id}
    for outward in d.stream.shuffled(d.walker.hops(target, False)):
        near = outward.value
        if not isinstance(near, Entity) or near.region != d.region.number or near.id in seen:
            continue
        inward = [hop for hop in d.walker.hops(near, False) if hop.value is target]
        before = _chain_back_from(d, near, length - 1, seen) if inward else None
        if before is not None:
            before.hops.append(d.stream.pick(inward))
            return before
    return None


def draft_superlative(d: Drafter, n: int) -> Draft | None:
    """Which item of a list comes first or last by some measure."""
    inverse, relation, smallest, largest = d.stream.pick(SUPERLATIVES)
    found = _owner_of(d, (inverse,), n - 1, n - 1)
    if found is None or n < 3:
        return None
    owner, _, items = found
    hops: list[Hop] = []
    for item in items:
        hop = d.walker.forward(item, relation)
        if hop is None:
            return None
        hops.append(hop)
    keys = sorted((atom(h.value), i) for i, h in enumerate(hops))
    least = d.stream.chance(0.5)
    best, next_ = (keys[0], keys[1]) if least else (keys[-1], keys[-2])
    if best[0] == next_[0]:
        return None
    x = d.phraser.mention(owner)
    whole = fill(LISTINGS[inverse].whole, x, owner)
    text = d.phraser.choose(tuple(f.format(whole=whole) for f in (smallest if least else largest)))
    steps = [_list_step(d, owner, inverse, items, x)]
    for item, hop in zip(items, hops, strict=True):
        steps.append(Step(d.phraser.sub_question(hop, d.phraser.mention(item)), hop.answers[0], d.title(hop.support)))
    program: list[StepRow] = [("all", owner.id, inverse)]
    program += [("get", f"#1.{i}", relation) for i in range(len(items))]
    operation: list[Atom] = ["best", "min" if least else "max", 1, 2]
    plan = Plan(steps, program, [owner.id, *(h.support for h in hops)])
    lists = {1: [i.name for i in items]}
    return Draft(text, answer_texts(items[best[1]], ""), "superlative", plan, operation, lists)
