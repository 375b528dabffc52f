"""Questions that follow a chain of facts to its end, and those whose last fact nobody states."""

from __future__ import annotations

from ..record import Step
from .chains import Chain, answer_texts, fill, rows
from .drafts import Draft, Drafter
from .programs import StepRow
from .prose.asking import KINSHIP

UNKNOWABLE = {
    "person": (
        "birth_place",
        "death_place",
        "spouse",
        "father",
        "mother",
        "educated_at",
        "award",
        "employer",
        "advisor",
        "party",
    ),
    "film": ("composer", "based_on", "set_in", "studio", "running_time"),
    "book": ("publisher", "set_in", "sequel", "pages"),
    "company": ("parent", "chief_executive", "employees"),
    "city": ("mayor", "twin_town", "river", "elevation"),
    "ship": ("named_after", "home_port", "length"),
    "team": ("coach", "league"),
    "painting": ("museum", "depicts"),
    "album": ("label", "tracks"),
}
"""Relations an unanswerable question may ask for, where no article states them."""


def along_chain(kind: str, d: Drafter, n: int) -> Draft | None:
    chain = d.walker.chain(d.start(), n)
    if chain is None:
        return None
    inverse = any(h.inverse for h in chain.hops)
    if kind != "single" and inverse != (kind == "bridge"):
        return None
    last = chain.hops[-1]
    answers = last.answers
    text = d.words.question(chain)
    steps = [Step(text, answers[0], d.title(last.support))] if n == 1 else d.steps(chain)
    return Draft(text, answers, kind, steps, rows(chain, 0), ["last"], [h.support for h in chain.hops])


def inference(d: Drafter, n: int) -> Draft | None:
    name, path = d.stream.pick(tuple(KINSHIP.items()))
    lead = n - len(path)
    if lead < 0:
        return None
    start = d.stream.pick(d.people) if lead == 0 else d.start()
    chain = d.walker.chain(start, lead, to_entity=True) if lead else Chain(start)
    if chain is None or chain.entity.kind != "person":
        return None
    person = d.words.phrase(chain)
    whole = Chain(start, list(chain.hops), chain.named)
    for relation in path:
        hop = d.walker.forward(whole.entity, relation)
        if hop is None:
            return None
        whole.hops.append(hop)
    if whole.entity is start:
        return None
    forms = (
        f"Who {{is}} {{x's}} {name}?",
        f"Who {{is}} the {name} of {{x}}?",
        f"What is the name of the {name} of {{x}}?",
    )
    text = fill(d.words.fitting(forms, person), person, whole.entity)
    return Draft(
        text, answer_texts(whole.entity, path[-1]), "inference", d.steps(whole), rows(whole, 0), ["last"],
        [h.support for h in whole.hops],
    )  # fmt: skip


def unanswerable(d: Drafter) -> Draft | None:
    """A chain question whose last fact no article states."""
    chain = d.walker.chain(d.start(), d.stream.between(0, 2), to_entity=True)
    if chain is None:
        return None
    e = chain.entity
    missing = []
    for relation in UNKNOWABLE.get(e.kind, ()):
        known = d.statements.articles.get((e.id, relation))
        if e.region == d.region.number and not known and not (relation == "death_date" and "death_date" not in e.facts):
            missing.append(relation)
    if not missing:
        return None
    relation = d.stream.pick(missing)
    noun = "town" if relation in ("birth_place", "death_place", "home_port", "set_in") else "place"
    named = d.words.phrase(chain)
    template = d.words.fitting(tuple(q for q in d.words.asking(relation, e).questions if "{n}" not in q), named)
    text = fill(template, named, e, noun)
    x = d.words.reference(e, len(chain.hops)) if chain.hops else d.words.start(chain)
    last = fill(template, x, e, noun)
    steps = [*d.steps(chain), Step(last)]
    subject = f"#{len(chain.hops)}" if chain.hops else e.id
    program: list[StepRow] = [*rows(chain, 0), ("get", subject, relation)]
    return Draft(text, (), "unanswerable", steps, program, ["last"], [h.support for h in chain.hops])
