"""Questions about lists: what two lists share, how long a list is, what stands first in it."""

from __future__ import annotations

from collections.abc import Sequence

from ..record import Step
from .chains import Chain, Hop, answer_texts, fill, rows
from .drafts import Draft, Drafter, atom
from .entity import Entity
from .programs import Atom, StepRow
from .prose.asking import listing
from .prose.words import SMALL_NUMBERS, join

SUPERLATIVES = (
    (
        "directed",
        "release_date",
        (
            ("Which of {whole} was released first?", "Which was the earliest of {whole}?"),
            ("Which of {whole} was released last?", "Which was the latest of {whole}?"),
        ),
    ),
    (
        "starred_in",
        "release_date",
        (
            ("Which of {whole} was released first?", "Which was the earliest of {whole}?"),
            ("Which of {whole} was released last?", "Which was the latest of {whole}?"),
        ),
    ),
    (
        "books",
        "published",
        (
            ("Which of {whole} was published first?", "Which was the earliest of {whole}?"),
            ("Which of {whole} was published last?", "Which was the latest of {whole}?"),
        ),
    ),
    (
        "books",
        "pages",
        (
            ("Which of {whole} has the fewest pages?", "Which is the shortest of {whole}?"),
            ("Which of {whole} has the most pages?", "Which is the longest of {whole}?"),
        ),
    ),
    (
        "children",
        "birth_date",
        (
            ("Who was the eldest of {whole}?", "Which of {whole} was born first?"),
            ("Who was the youngest of {whole}?", "Which of {whole} was born last?"),
        ),
    ),
    (
        "recordings",
        "release_date",
        (
            ("Which of {whole} came out first?", "Which was the earliest of {whole}?"),
            ("Which of {whole} came out last?", "Which was the latest of {whole}?"),
        ),
    ),
    (
        "directed",
        "running_time",
        (
            ("Which of {whole} is the shortest?", "Which of {whole} has the shortest running time?"),
            ("Which of {whole} is the longest?", "Which of {whole} has the longest running time?"),
        ),
    ),
    (
        "fleet",
        "launched",
        (
            ("Which of {whole} was launched first?", "Which is the oldest of {whole}?"),
            ("Which of {whole} was launched last?", "Which is the newest of {whole}?"),
        ),
    ),
    (
        "tributaries",
        "length",
        (
            ("Which of {whole} is the shortest?", "What is the shortest of {whole}?"),
            ("Which of {whole} is the longest?", "What is the longest of {whole}?"),
        ),
    ),
)


def owner_of(d: Drafter, inverses: Sequence[str], least: int, most: int) -> tuple[Entity, str, list[Entity]] | None:
    inverse = d.stream.pick(tuple(inverses))
    owners = d.owners(inverse)
    if not owners:
        return None
    owner = d.stream.pick(owners)
    items = d.walker.listed(owner, inverse)
    return (owner, inverse, items) if least <= len(items) <= most else None


def list_step(d: Drafter, owner: Entity, inverse: str, items: list[Entity], x: str) -> Step:
    verb = listing()[inverse][0]
    return Step(fill(f"Which {verb}?", x, owner), join([i.name for i in items]), d.title(owner.id))


def intersection(d: Drafter, n: int) -> Draft | None:
    s, pairs = d.stream, (("directed", "starred_in"), ("starred_in", "starred_in"), ("scored", "starred_in"),
                             ("directed", "scored"), ("ships_built", "fleet"))  # fmt: skip
    one, two = s.pick(pairs)
    first = owner_of(d, (one,), 2, 7)
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
    x, y = d.words.mention(a), d.words.mention(b)
    noun = "ship" if one == "ships_built" else "film"
    wording = {
        ("directed", "starred_in"): ("directed by {x} and starring {y}", "was directed by {x} and stars {y}"),
        ("starred_in", "starred_in"): ("starring both {x} and {y}", "stars both {x} and {y}"),
        ("scored", "starred_in"): ("starring {y} with music by {x}", "stars {y} and has music composed by {x}"),
        ("directed", "scored"): (
            "directed by {x} with music by {y}",
            "was directed by {x} and has music composed by {y}",
        ),
        ("ships_built", "fleet"): ("built by {x} and operated by {y}", "was built by {x} and is operated by {y}"),
    }[one, two]
    short, clause = (w.replace("{x}", x).replace("{y}", y) for w in wording)
    steps = [list_step(d, a, one, items, x), list_step(d, b, two, theirs, y)]
    program: list[StepRow] = [("all", a.id, one), ("all", b.id, two)]
    supports = [a.id, b.id]
    lists = {1: [i.name for i in items], 2: [i.name for i in theirs]}
    if n == 2:
        text = d.words.choose((f"Which {noun} {clause}?", f"What is the {noun} {short}?"))
        return Draft(text, answer_texts(target, ""), "intersection", steps, program, ["both", 1, 2], supports, lists)
    hop = s.pick(d.walker.hops(target, True) or [None])
    if hop is None or hop.value in (a, b) or n != 3:
        return None
    last = d.words.asking(hop.relation, target)
    text = d.words.fill(d.words.choose(last.questions), f"the {noun} {short}", hop, target)
    ask = d.words.sub_question(hop, d.words.mention(target))
    step = Step(ask, hop.answers[0], d.title(hop.support))
    return Draft(
        text, hop.answers, "intersection", [*steps, step],
        [*program, ("of" if hop.inverse else "get", "#1&2", hop.relation)], ["last"], [*supports, hop.support], lists,
    )  # fmt: skip


def counting(d: Drafter, n: int) -> Draft | None:
    found = owner_of(d, tuple(listing()), 2, 12)
    if found is None:
        return None
    owner, inverse, items = found
    chain = reach(d, owner, n - 1)
    if chain is None:
        return None
    verb = listing()[inverse][0]
    x = d.words.phrase(chain)
    form = f"How many {verb}?"
    text = fill(form, x, owner)
    mine = d.words.reference(owner, n - 1) if chain.hops else x
    step = Step(fill(form, mine, owner), str(len(items)), d.title(owner.id))
    subject = f"#{n - 1}" if chain.hops else owner.id
    answers = (str(len(items)), SMALL_NUMBERS[len(items)])
    return Draft(
        text, answers, "counting", [*d.steps(chain), step], [*rows(chain, 0), ("all", subject, inverse)],
        ["count", n], [*(h.support for h in chain.hops), owner.id], {n: [i.name for i in items]},
    )  # fmt: skip


def reach(d: Drafter, target: Entity, length: int, seen: frozenset[str] = frozenset()) -> Chain | None:
    """A chain of that many hops that ends at the target, found backwards."""
    if length == 0:
        return Chain(target)
    seen = seen | {target.id}
    for outward in d.stream.shuffled(d.walker.hops(target, False)):
        near = outward.value
        if not isinstance(near, Entity) or near.region != d.region.number or near.id in seen:
            continue
        inward = [hop for hop in d.walker.hops(near, False) if hop.value is target]
        before = reach(d, near, length - 1, seen) if inward else None
        if before is not None:
            before.hops.append(d.stream.pick(inward))
            return before
    return None


def superlative(d: Drafter, n: int) -> Draft | None:
    inverse, relation, forms = d.stream.pick(SUPERLATIVES)
    found = owner_of(d, (inverse,), n - 1, n - 1)
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
    x = d.words.mention(owner)
    whole = fill(listing()[inverse][1], x, owner)
    text = d.words.choose(tuple(f.format(whole=whole) for f in forms[0 if least else 1]))
    steps = [list_step(d, owner, inverse, items, x)]
    for item, hop in zip(items, hops, strict=True):
        steps.append(Step(d.words.sub_question(hop, d.words.mention(item)), hop.answers[0], d.title(hop.support)))
    program: list[StepRow] = [("all", owner.id, inverse)]
    program += [("get", f"#1.{i}", relation) for i in range(len(items))]
    operation: list[Atom] = ["best", "min" if least else "max", 1, 2]
    supports = [owner.id, *(h.support for h in hops)]
    lists = {1: [i.name for i in items]}
    return Draft(text, answer_texts(items[best[1]], ""), "superlative", steps, program, operation, supports, lists)
