"""A chain of linked articles, and one oracle that answers questions about it in any system's protocol.

The oracle is a single function of the visible context. It reads which actions the instructions offer, which question is
asked and which facts stand in the text, and takes the next step. Every system is driven by this same function, so that
contexts differ by what the systems show their roles and by nothing else.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from subquest.engine.scripted import Context
from subquest.record import Document

RELATIONS = ("keeper", "rival", "mentor", "herald", "warden", "patron", "scribe", "envoy")
_FACT = re.compile(r"\b[Tt]he (\w+) of (\w+) is (\w+)")
_KNOWN = re.compile(r"What is the (\w+) of (\w+)\? (\w+)")
_QUESTION = re.compile(r"What is (the (?:\w+ of the )*\w+) of (\w+)\?")
_ASKED = re.compile(r"(\w+) of (\w+)")
_OFFER = re.compile(
    r"<(task|search|plan|filter|answer|result|refine)>\s*"
    r"(?:1\. )?(?:sub-question|query|paragraph|answer|result|facts)\b"
)


def world(seed: int, chains: int, words: int) -> list[Document]:
    """`chains` chains of 9 entities; each article has `words` words, one of which leads to the next entity."""
    chance = random.Random(seed)
    names = _names(chance)
    documents = []
    for _ in range(chains):
        chain = [next(names) for _ in range(len(RELATIONS) + 1)]
        for level, relation in enumerate(RELATIONS):
            fact = f"The {relation} of {chain[level]} is {chain[level + 1]}."
            before = (words - len(fact.split())) // 2
            after = words - len(fact.split()) - before
            text = f"{_filler(chance, before)} {fact} {_filler(chance, after)}"
            documents.append(Document(chain[level], chain[level], text.strip(), {"next": chain[level + 1]}))
    return documents


def question(documents: list[Document], chain: int, hops: int) -> tuple[str, str]:
    """A question over the first `hops` links of a chain, and its answer."""
    first = chain * len(RELATIONS)
    path = " of the ".join(reversed(RELATIONS[:hops]))
    return f"What is the {path} of {documents[first].id}?", documents[first + hops - 1].meta["next"]


def _names(chance: random.Random) -> Iterator[str]:
    seen: set[str] = set()
    while True:
        name = "".join(chance.choice("bdfgklmnprtvz") + chance.choice("aou") for _ in range(4)).capitalize() + "x"
        if name not in seen:
            seen.add(name)
            yield name


def _filler(chance: random.Random, words: int) -> str:
    vocabulary = [f"{a}{b}" for a in ("stone", "river", "winter", "market", "copper") for b in ("lore", "work", "side")]
    return " ".join(chance.choice(vocabulary) for _ in range(words))


def oracle(context: Context) -> str:
    """The next step of whoever sees this context."""
    newest = context.messages[-1].content if context.messages[-1].role == "user" else ""
    opening = [m.content for m in context.messages[:2]]
    offers = set(_OFFER.findall(newest)) or set(_OFFER.findall(opening[0]))
    asked = next(reversed(list(_QUESTION.finditer("\n".join(opening)))), None)
    facts = {(m[1], m[2]): m[3] for m in (*_FACT.finditer(context.text), *_KNOWN.finditer(context.text))}
    if "filter" in offers:
        wanted = _ASKED.search(opening[-1].split("Query: ")[-1])
        fact = wanted and facts.get((wanted[1], wanted[2]))
        return f"<filter>{_fact(wanted[1], wanted[2], fact)}</filter>" if wanted and fact else "<filter>None</filter>"
    if asked is None:
        return "<answer>unknown</answer>"
    relations = [r for r in asked[1].split() if r not in ("the", "of")][::-1]
    if "plan" in offers:
        steps = [f"{n}. What is the {r} of {f'#{n - 1}' if n > 1 else asked[2]}?" for n, r in enumerate(relations, 1)]
        return "<plan>\n" + "\n".join(steps) + "\n</plan>"
    entity, missing = asked[2], ""
    for relation in relations:
        if (relation, entity) not in facts:
            missing = relation
            break
        entity, last = facts[relation, entity], entity
    if "one word: answer or retrieve" in newest:
        return "retrieve" if missing else "answer"
    if "one word: yes or no" in newest:
        return "yes" if missing else "no"
    if missing:
        if "task" in offers:
            return f"<task>What is the {missing} of {entity}?</task>"
        return f"<search>{missing} of {entity}</search>" if "search" in offers else "<answer>unknown</answer>"
    if "result" in offers:
        fact = _fact(relations[-1], last, entity)
        return f"<refine>{fact}</refine><result>{fact}</result>"
    return f"<answer>{entity}</answer>" if "answer" in offers else "<search>None</search>"


def _fact(relation: str, of: str, value: str) -> str:
    return f"The {relation} of {of} is {value}."
