"""The sentences that lead from a question to the one that states its answer.

`Where was the designer of the Orvane Bridge born?` is answered by `She was born in Kestel` only because another
sentence says who the designer was. Roles that take a question apart quote that sentence for a sub-result; for an answer
that was given in one go it is found here:

    it has a name of the question and a further word of it (a question without names: enough of its words), and
    it mentions the document of the sentence it leads to, or stands before it in the same document, or both have a name
    that one of them is about, and it says something of the question that the other does not

A sentence is about the names in the title of its document and the one it begins with, a row of a table about all names
in it. Two sentences that both mention a country or a company have nothing to do with each other by that.

A chain of several sentences goes from document to document by their titles.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ..record import Document
from .passages import Passage, passage_of
from .relevance import CALENDAR_TERMS, ENOUGH, HOPS, Asked, asked_of, stems
from .statements import Sentence, analysed
from .word_forms import Terms


class Link(NamedTuple):
    document: Document
    sentence: Sentence


class _Node(NamedTuple):
    """A sentence that the question leads to."""

    document: int
    at: int
    path: tuple[Link, ...]
    """How it was reached, itself included."""


def chain(
    question: str, documents: Sequence[Document], end: Document, start: int, quoted: Collection[tuple[str, int]] = ()
) -> tuple[Link, ...]:
    """The sentences that lead to the one of `end` that begins at `start`, in order.

    None if it is about the question by itself, if a tool returned it, or if no way is found. Of several ways the
    shortest counts, then one that ends with a sentence that is `quoted` anyway (the id of its document, and where it
    begins).
    """
    asked, last = asked_of(question), passage_of(end.title, end.text)
    place = last.places.get(start)
    if place is None or "tool" in end.meta:
        return ()
    here = last.sentences[place].terms | last.title
    if _begins(asked, here):
        return ()
    passages = [passage_of(document.title, document.text) for document in documents]
    common = asked.words | CALENDAR_TERMS
    ending = analysed(end.text).sentences[place]
    opening = end.text[ending.start : ending.end].split()

    def is_topic(name: Terms, title: Terms) -> bool:
        """Whether the sentence with the answer, or one of a document with that title, is about a name."""
        if ending.is_row or any(t and (name <= t or t <= name) for t in (last.title, title)):
            return True
        return name <= stems(" ".join(opening[: len(name) + 1]))

    def leads(node: _Node) -> bool:
        passage, sentence = passages[node.document], passages[node.document].sentences[node.at]
        if documents[node.document] is end:
            return node.at < place
        if last.title and last.title <= sentence.terms:
            return True
        if not asked.words & (sentence.terms | passage.title) - here:
            return False
        names = (name for name in passage.names[node.at] if name <= here and name.isdisjoint(common))
        return any(is_topic(name, passage.title) for name in names)

    def value(node: _Node) -> tuple[bool, int]:
        passage, link = passages[node.document], node.path[-1]
        said = asked.words & (passage.sentences[node.at].terms | passage.title)
        return (link.document.id, link.sentence.start) in quoted, len(said)

    reached: list[_Node] = []
    seen = set[int]()
    for _ in range(HOPS):
        nodes: list[_Node] = []
        for number, (document, passage) in enumerate(zip(documents, passages, strict=True)):
            before = _mentioning(passage, passages, reached) if reached else ()
            if number in seen or before is None:
                continue
            for at, (unit, sentence) in enumerate(
                zip(passage.sentences, analysed(document.text).sentences, strict=True)
            ):
                if unit.terms.isdisjoint(asked.words - asked.named):
                    continue
                if reached or _begins(asked, unit.terms | passage.title):
                    nodes.append(_Node(number, at, (*before, Link(document, sentence))))
        if found := [node for node in nodes if leads(node)]:
            return max(found, key=value).path
        seen |= {node.document for node in nodes}
        reached = sorted(nodes, key=value, reverse=True)
    return ()


def _begins(asked: Asked, terms: Terms) -> bool:
    """Whether words are about a question: they have one of its names, or enough of its words if it has none.

    A number by itself is no name: `14` of a vessel of 14 m also stands in Dunlin 14.
    """
    if names := [name for name in asked.names if not all(term.isdigit() for term in name)]:
        return any(name <= terms for name in names)
    return len(asked.words & terms) >= ENOUGH * len(asked.words)


def _mentioning(passage: Passage, passages: Sequence[Passage], reached: Sequence[_Node]) -> tuple[Link, ...] | None:
    """How the first of the sentences was reached that mention a document; None if none does."""
    if not passage.title:
        return None
    return next((n.path for n in reached if passage.title <= passages[n.document].sentences[n.at].terms), None)
