"""Questions that compare: two entities, two chains, two dates."""

from __future__ import annotations

from .chains import Chain
from .entity import Date, Entity, atom
from .programs import Atom, year_of
from .question_drafts import Draft, Drafter
from .question_texts import COMPARISONS, EVENTS, SAME, answer_texts, fill


def draft_comparison(kind: str, d: Drafter, n: int) -> Draft | None:
    """Which of two values is smaller or larger, or whether they are the same."""
    s = d.stream
    if s.chance(0.35):
        return _draft_same(d, kind, n)
    relation = s.pick(
        tuple(COMPARISONS) if n == 2 else ("birth_date", "death_date", "population", "founded", "birth_date")
    )
    pair = _two_chains(d, n, relation)
    if pair is None:
        return None
    a, b = pair
    i, j = len(a.hops), n
    va, vb = a.end, b.end
    if atom(va) == atom(vb):
        return None
    less = atom(va) < atom(vb)
    x, y = (d.phraser.phrase(c, len(c.hops) - 1) for c in (a, b))
    plan = d.plan(a, b)
    wording = COMPARISONS[relation]
    ea, eb = a.hops[-1].source, b.hops[-1].source
    if s.chance(0.3):
        text = wording.yes_no.format(a=x, b=y)
        return Draft(text, ("yes" if less else "no",), kind, plan, ["order", i, j])
    least = s.chance(0.5)
    winner = ea if less == least else eb
    verb = wording.less if least else wording.more
    templates = (
        f"{wording.who} {verb}, {{a}} or {{b}}?",
        f"{wording.who} {verb}: {{a}} or {{b}}?",
        f"Of {{a}} and {{b}}, {_which(ea, eb)} {verb}?",
    )
    text = d.phraser.choose(templates).format(a=x, b=y)
    names: list[Atom] = [ea.id if i == 1 else f"#{i - 1}", eb.id if j - i == 1 else f"#{j - 1}"]
    operation: list[Atom] = ["pick", i, j, "min" if least else "max", *names]
    return Draft(text, answer_texts(winner, ""), kind, plan, operation)


def _which(a: Entity, b: Entity) -> str:
    if a.kind in ("person", "city"):
        return "which person" if a.kind == "person" else "which place"
    return f"which {a.noun}" if a.noun == b.noun else "which"


def _two_chains(d: Drafter, n: int, relation: str) -> tuple[Chain, Chain] | None:
    """Two chains with n hops together whose last hop is the relation."""
    first = n // 2 if d.stream.chance(0.5) else n - n // 2
    found: list[Chain] = []
    for length in (first, n - first):
        chain = d.chain_to(relation, length)
        if chain is None or (found and chain.hops[-1].source is found[0].hops[-1].source):
            return None
        found.append(chain)
    a, b = found
    return (a, b) if a.hops[-1].source.kind == b.hops[-1].source.kind else None


def _draft_same(d: Drafter, kind: str, n: int) -> Draft | None:
    """Whether two things share a value; half of the plain ones do."""
    relation = d.stream.pick(tuple(SAME) if n == 2 else ("birth_place", "death_place", "educated_at", "birth_place"))
    pair = _alike(d, relation) if n == 2 and d.stream.chance(0.5) else _two_chains(d, n, relation)
    if pair is None:
        return None
    a, b = pair
    if n > 2 and a.end is not b.end and d.stream.chance(0.75):
        return None
    x, y = (d.phraser.phrase(c, len(c.hops) - 1) for c in (a, b))
    text = d.phraser.choose(SAME[relation]).format(a=x, b=y)
    return Draft(text, ("yes" if a.end is b.end else "no",), kind, d.plan(a, b), ["same", len(a.hops), n])


def _alike(d: Drafter, relation: str) -> tuple[Chain, Chain] | None:
    """Two entities of one kind that have the same value."""
    a = d.chain_to(relation, 1)
    if a is None:
        return None
    kind = d.region.kinds[a.start.kind]
    others = [e for e in kind if e is not a.start and e.facts.get(relation) == a.end]
    if not others:
        return None
    start = d.stream.pick(others)
    hop = d.walker.forward(start, relation)
    return None if hop is None else (a, Chain(start, [hop]))


def draft_temporal(d: Drafter, n: int) -> Draft | None:
    """Which of two events came first, how many years lie between them, or how old someone was."""
    s = d.stream
    if s.chance(0.3):
        return _draft_age(d, n)
    one, two = s.pick(tuple(EVENTS)), s.pick(tuple(EVENTS))
    length = 1 if n == 2 else s.between(1, n - 1)
    a, b = d.chain_to(one, length), d.chain_to(two, n - length)
    if a is None or b is None or a.hops[-1].source is b.hops[-1].source or one == two:
        return None
    gap = year_of(atom(a.end)) - year_of(atom(b.end))
    if gap == 0 or abs(gap) > 160:
        return None
    x, y = (fill(EVENTS[r], d.phraser.phrase(c, len(c.hops) - 1), c.start) for r, c in ((one, a), (two, b)))
    plan = d.plan(a, b)
    if s.chance(0.5):
        templates: tuple[str, ...] = (
            f"Did {x} come before {y}?",
            f"Did {x} take place earlier than {y}?",
            f"Was {x} earlier than {y}?",
        )
        answers: tuple[str, ...] = ("yes" if gap < 0 else "no",)
        operation: list[Atom] = ["order", length, n]
    else:
        templates = (f"How many years lie between {x} and {y}?", f"How many years passed between {x} and {y}?")
        answers, operation = (str(abs(gap)), f"{abs(gap)} years"), ["years", length, n]
    return Draft(d.phraser.choose(templates), answers, "temporal", plan, operation)


def _draft_age(d: Drafter, n: int) -> Draft | None:
    if n == 2 and d.stream.chance(0.4):
        person = d.stream.pick(d.people)
        born, died = d.walker.forward(person, "birth_date"), d.walker.forward(person, "death_date")
        if born is None or died is None:
            return None
        a, b = Chain(person, [born]), Chain(person, [died])
        b.named = name = d.phraser.start(a)
        text = d.phraser.choose((f"How old was {name} at the time of death?", f"At what age did {name} die?"))
    else:
        relation, verb = d.stream.pick(
            (("release_date", "was released"), ("signed_on", "was signed"), ("battle_date", "was fought"))
        )
        first, second = d.chain_to("birth_date", n - 1), d.chain_to(relation, 1)
        if first is None or second is None:
            return None
        a, b = first, second
        event = d.phraser.start(b)
        text = f"How old was {d.phraser.phrase(a, len(a.hops) - 1)} when {event} {verb}?"
    born_on, then = a.end, b.end
    person = a.hops[-1].source
    if not isinstance(born_on, Date) or not isinstance(then, Date) or born_on > then:
        return None
    died_on = person.facts.get("death_date")
    if (isinstance(died_on, Date) and died_on < then) or then.year - born_on.year < 8:
        return None
    age = then.year - born_on.year - (then[1:] < born_on[1:])
    i = len(a.hops)
    return Draft(text, (str(age), f"{age} years"), "temporal", d.plan(a, b), ["age", i, i + 1])
