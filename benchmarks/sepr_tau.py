"""Which threshold should the plan reward use with MiniLM? Similarity of sub-questions that ask the same or do not.

    python benchmarks/sepr_tau.py [--questions 2000] [--seed 11]

Pairs come from a generated world, whose sub-questions carry the fact they ask for:

    same         one fact, worded in two ways
    relation     the same subject, another relation ("When was #1 born?", "Where was #1 born?")
    subject      the same relation of another named subject ("Who directed X?", "Who directed Y?")

A good threshold lets `same` through and holds the other two back. The papers' 0.8 belongs to their encoder.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from subquest.metrics.embeddings import Embedder, default_embedder
from subquest.worlds import World, make_world

Pair = tuple[str, str]
THRESHOLDS = (0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)


def pairs_of(world: World, seed: int, limit: int) -> dict[str, list[Pair]]:
    """At most `limit` pairs of each kind; half of `same` and `relation` have the subject's name replaced by `#1`."""
    wordings: dict[tuple[str, str], set[str]] = defaultdict(set)
    for question in world.questions:
        for step, (operation, subject, relation) in zip(question.decomposition, question.meta["program"], strict=True):
            if operation == "get" and not subject.startswith("#"):
                wordings[subject, relation].add(step.question)
    titles = {document.id: document.title for document in world.documents}
    r = random.Random(seed)

    def some(*fact: str) -> str:
        return r.choice(sorted(wordings[fact[0], fact[1]]))

    by_subject, by_relation = defaultdict(list), defaultdict(list)
    for subject, relation in sorted(wordings):
        by_subject[subject].append(relation)
        by_relation[relation].append(subject)
    found: dict[str, list[Pair]] = {"same": [], "relation": [], "subject": []}
    for (subject, relation), texts in sorted(wordings.items()):
        pairs = list(itertools.combinations(sorted(texts), 2))
        found["same"] += pairs + _with_reference(pairs, titles.get(subject, ""))
        others = [(some(subject, relation), some(subject, other)) for other in by_subject[subject] if other > relation]
        found["relation"] += others + _with_reference(others, titles.get(subject, ""))
    for relation, subjects in by_relation.items():
        for one, two in itertools.combinations(r.sample(subjects, min(len(subjects), 30)), 2):
            found["subject"].append((some(one, relation), some(two, relation)))
    return {kind: r.sample(pairs, min(len(pairs), limit)) for kind, pairs in found.items()}


def _with_reference(pairs: Sequence[Pair], title: str) -> list[Pair]:
    return [(a.replace(title, "#1"), b.replace(title, "#1")) for a, b in pairs if title and title in a and title in b]


def similarities(pairs: Sequence[Pair], embedder: Embedder) -> np.ndarray[Any, Any]:
    texts = sorted({text for pair in pairs for text in pair})
    vectors = np.asarray(embedder(texts), dtype=np.float64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    place = {text: at for at, text in enumerate(texts)}
    return np.array([vectors[place[a]] @ vectors[place[b]] for a, b in pairs])


def main(argv: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="subquest bench sepr-tau", description="Choose SEPR's threshold for MiniLM.")
    parser.add_argument("--questions", type=int, default=2000)
    parser.add_argument("--pairs", type=int, default=2000, help="of each kind, at most")
    parser.add_argument("--seed", type=int, default=11)
    args = parser.parse_args(argv)
    world = make_world(seed=args.seed, articles=400, questions=args.questions)  # small: facts are asked for often
    embedder = default_embedder()
    scores = {k: similarities(p, embedder) for k, p in pairs_of(world, args.seed, args.pairs).items()}
    figures: dict[str, Any] = {}
    print(f"{'kind':<10} {'pairs':>6} {'p10':>6} {'median':>7} {'p90':>6}", file=sys.stderr)
    for kind, values in scores.items():
        low, mid, high = (float(q) for q in np.quantile(values, [0.1, 0.5, 0.9]))
        figures[kind] = {"pairs": len(values), "p10": low, "median": mid, "p90": high}
        print(f"{kind:<10} {len(values):>6} {low:>6.3f} {mid:>7.3f} {high:>6.3f}", file=sys.stderr)
    print(f"{'tau':<10} {'same':>6} {'relation':>9} {'subject':>8} {'balanced accuracy':>18}", file=sys.stderr)
    table = {}
    for tau in THRESHOLDS:
        above = {kind: float((values > tau).mean()) for kind, values in scores.items()}
        wrong = (above["relation"] + above["subject"]) / 2
        table[str(tau)] = {**above, "balanced": (above["same"] + 1 - wrong) / 2}
        print(
            f"{tau:<10} {above['same']:>6.3f} {above['relation']:>9.3f} {above['subject']:>8.3f} "
            f"{table[str(tau)]['balanced']:>18.3f}",
            file=sys.stderr,
        )
    best = max(table, key=lambda tau: table[tau]["balanced"])
    figures["thresholds"] = table
    return {"name": "sepr_tau", "figures": figures, "ratios": {}, "best": float(best)}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
