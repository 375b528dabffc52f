"""Questions that follow a chain of facts to its end, and those whose last fact nobody states."""

from __future__ import annotations

from ..record import Step
from .chains import Chain, program_of
from .question_drafts import Draft, Drafter, Plan
from .question_texts import KINSHIP, answer_texts, fill

UNKNOWABLE = {
    "person": (
        "birth_place", "death_place", "spouse", "father", "mother", "educated_at", "award", "employer", "advisor",
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
}  # fmt: skip
"""Relations an unanswerable question may ask for, where no article states them."""


def draft_chain(kind: str, d: Drafter, n: int) -> Draft | None:
    """A question that asks for the end of a chain; a `bridge` has a hop against the direction of a relation."""
    chain = d.walker.chain(d.start(), n)
    if chain is None:
        return None
    inverse = any(h.inverse for h in chain.hops)
    if kind != "single" and inverse != (kind == "bridge"):
        return None
    last = chain.hops[-1]
    text = d.phraser.question(chain)
    if n == 1:
        plan = Plan([Step(text, last.answers[0], d.title(last.support))], program_of(chain), [last.support])
    else:
        plan = d.plan(chain)
    return Draft(text, last.answers, kind, plan, ["last"])


def draft_inference(d: Drafter, n: int) -> Draft | None:
    """A question for a relative whose name for the relation takes two or three steps."""
    name, path = d.stream.pick(tuple(KINSHIP.items()))
    lead = n - len(path)
    if lead < 0:
        return None
    start = d.stream.pick(d.people) if lead == 0 else d.start()
    chain = d.walker.chain(start, lead, to_entity=True) if lead else Chain(start)
    if chain is None or chain.entity.kind != "person":
        return None
    person = d.phraser.phrase(chain)
    whole = Chain(start, list(chain.hops), chain.named)
    for relation in path:
        hop = d.walker.forward(whole.entity, relation)
        if hop is None:
            return None
        whole.hops.append(hop)
    if whole.entity is start:
        return None
    templates = (
        f"Who {{is}} {{x's}} {name}?",
        f"Who {{is}} the {name} of {{x}}?",
        f"What is the name of the {name} of {{x}}?",
    )
    text = fill(d.phraser.fitting(templates, person), person, whole.entity)
    return Draft(text, answer_texts(whole.entity, path[-1]), "inference", d.plan(whole), ["last"])


def draft_unanswerable(d: Drafter) -> Draft | None:
    """A chain question whose last fact no article states."""
    chain = d.walker.chain(d.start(), d.stream.between(0, 2), to_entity=True)
    if chain is None:
        return None
    e = chain.entity
    missing = []
    for relation in UNKNOWABLE.get(e.kind, ()):
        if e.region == d.region.number and not d.statements.articles.get((e.id, relation)):
            missing.append(relation)
    if not missing:
        return None
    relation = d.stream.pick(missing)
    noun = "town" if relation in ("birth_place", "death_place", "home_port", "set_in") else "place"
    named = d.phraser.phrase(chain)
    template = d.phraser.fitting(tuple(q for q in d.phraser.asking(relation, e).questions if "{n}" not in q), named)
    text = fill(template, named, e, noun)
    x = d.phraser.reference(e, len(chain.hops)) if chain.hops else d.phraser.start(chain)
    plan = d.plan(chain)
    plan.steps.append(Step(fill(template, x, e, noun)))
    plan.program.append(("get", f"#{len(chain.hops)}" if chain.hops else e.id, relation))
    return Draft(text, (), "unanswerable", plan, ["last"])
