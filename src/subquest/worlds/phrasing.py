"""Phrasing: chains of facts put into words, as questions, sub-questions and nested noun phrases."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .chains import Chain, Hop
from .entity import Entity
from .grammar import definite, described
from .question_texts import Asking, asking, fill
from .random_stream import RandomStream

PHRASINGS = ("all", "train", "held-out")
_COMPOUND = re.compile(r" (of|that|who|whom|whose|where|which|to|by|in|on|at|for|with) ")
"""A noun phrase whose genitive would be ambiguous: "the mother of X's birthplace"."""


class Phraser:
    """Puts chains into words, with all phrasings, without the held-out ones (train) or with those alone (held-out)."""

    def __init__(self, stream: RandomStream, phrasings: str) -> None:
        self.stream, self.phrasings = stream, phrasings

    def choose(self, alternatives: tuple[str, ...]) -> str:
        if self.phrasings == "held-out" or len(alternatives) == 1:
            return alternatives[-1]
        return self._weighted(alternatives, alternatives)

    def _weighted(self, fit: Sequence[str], alternatives: tuple[str, ...]) -> str:
        """One of those that fit; the held-out one, which tends to be stiffer, seldom or in training never."""
        share = 0.0 if self.phrasings == "train" else 0.3
        options = [(a, share if a == alternatives[-1] else 1.0) for a in fit]
        return self.stream.weighted(options) if any(w for _, w in options) else alternatives[0]

    def asking(self, relation: str, source: Entity) -> Asking:
        found = asking(relation, source.kind)
        if found is None:
            raise KeyError(relation)
        return found

    def mention(self, e: Entity) -> str:
        """A start entity as a question names it."""
        name = definite(e)
        if e.kind == "song":
            name = f'"{e.name}"'
        if e.name != e.title:
            return described(e, name)
        if e.kind in ("film", "book", "album", "song", "painting", "band") and self.stream.chance(0.75):
            return f"the {e.noun} {name}"
        if e.kind in ("company", "newspaper") and not name.startswith("the ") and self.stream.chance(0.25):
            return f"the {e.noun} {name}"
        if e.aliases and e.kind in ("person", "city") and self.stream.chance(0.3):
            return e.aliases[0]
        return name

    def reference(self, e: Entity, n: int) -> str:
        """The answer of step n inside a later sub-question."""
        if e.name != e.title:
            return described(e, f"#{n}")
        return f"the #{n}" if definite(e) != e.name else f"#{n}"

    def fill(self, template: str, x: str, hop: Hop) -> str:
        return fill(template, x, hop.source, hop.value.noun if isinstance(hop.value, Entity) else "")

    def phrase(self, chain: Chain, upto: int | None = None) -> str:
        """The noun phrase of the chain's end, or of where its first `upto` hops lead."""
        return self._nested(self.start(chain), chain.hops[:upto])

    def _nested(self, text: str, hops: Sequence[Hop]) -> str:
        for hop in hops:
            text = self.fill(self.fitting(self.asking(hop.relation, hop.source).phrases, text), text, hop)
        return text

    def _ask(self, hop: Hop, x: str) -> str:
        return self.fill(self.fitting(self.asking(hop.relation, hop.source).questions, x), x, hop)

    def start(self, chain: Chain) -> str:
        chain.named = chain.named or self.mention(chain.start)
        return chain.named

    def fitting(self, alternatives: tuple[str, ...], x: str) -> str:
        """An alternative that stays readable: a long subject comes last and never in the genitive."""
        if self.phrasings == "held-out" or len(alternatives) == 1:
            return alternatives[-1]
        fit: Sequence[str] = alternatives
        if len(x.split()) > 5:
            fit = [a for a in alternatives if a.rstrip("?").endswith("{x}")] or alternatives
        if _COMPOUND.search(x) or "'" in x or (x.startswith("the ") and len(x.split()) > 3):
            fit = [a for a in fit if "{x's}" not in a] or alternatives
        return self._weighted(fit, alternatives)

    def question(self, chain: Chain) -> str:
        """The question whose answer is the chain's end."""
        if len(chain.hops) >= 4 and self.stream.chance(0.6):
            return self._in_two_sentences(chain)
        return self._ask(chain.hops[-1], self.phrase(chain, len(chain.hops) - 1))

    def _in_two_sentences(self, chain: Chain) -> str:
        """A long chain as two sentences: one that leads half the way, one that asks the rest."""
        middle = len(chain.hops) // 2
        first = self.phrase(chain, middle)
        bridge = chain.hops[middle - 1].value
        if not isinstance(bridge, Entity):
            raise TypeError("a chain cannot continue from a literal")
        text = "this person" if bridge.kind == "person" else f"this {bridge.noun}"
        ask = self._ask(chain.hops[-1], self._nested(text, chain.hops[middle:-1]))
        return f"{self.stream.pick(('Take', 'Consider', 'Think of'))} {first}. {ask}"

    def sub_question(self, hop: Hop, x: str) -> str:
        return self.fill(self.choose(self.asking(hop.relation, hop.source).questions), x, hop)
