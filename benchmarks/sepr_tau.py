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

from subquest.metrics.embed import Embedder, default_embedder
from subquest.record import Question
from subquest.worlds import make_world

Pair = tuple[str, str]
THRESHOLDS = (0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)


def pairs_of(questions: Sequence[Question], seed: int, limit: int) -> dict[str, list[Pair]]:
    """At most `limit` pairs of each kind."""
    wordings: dict[tuple[str, str], set[str]] = defaultdict(set)
    for question in questions:
        for step, row in zip(question.decomposition, question.meta["program"], strict=False):
            wordings[str(row[1]), str(row[2])].add(step.question)
    r = random.Random(seed)
    facts = sorted(wordings)
    same = [p for fact in facts for p in itertools.combinations(sorted(wordings[fact]), 2)]
    by_subject, by_relation = defaultdict(list), defaultdict(list)
    for subject, relation in facts:
        by_subject[subject].append(relation)
        by_relation[relation].append(subject)
    found: dict[str, list[Pair]] = {"same": same, "relation": [], "subject": []}
    for subject, relations in by_subject.items():
        for one, two in itertools.combinations(relations, 2):
            found["relation"].append(
                (r.choice(sorted(wordings[subject, one])), r.choice(sorted(wordings[subject, two])))
            )
    for relation, subjects in by_relation.items():
        named = [s for s in subjects if not s.startswith("#")]
        for one, two in itertools.combinations(r.sample(named, min(len(named), 30)), 2):
            found["subject"].append(
                (r.choice(sorted(wordings[one, relation])), r.choice(sorted(wordings[two, relation])))
            )
    return {kind: r.sample(pairs, min(len(pairs), limit)) for kind, pairs in found.items()}


def similarities(pairs: Sequence[Pair], embedder: Embedder) -> np.ndarray[Any, Any]:
    texts = sorted({text for pair in pairs for text in pair})
    vectors = np.asarray(embedder(texts), dtype=np.float64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    place = {text: at for at, text in enumerate(texts)}
    return np.array([vectors[place[a]] @ vectors[place[b]] for a, b in pairs])


def main(argv: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description="Choose SEPR's threshold for MiniLM.")
    parser.add_argument("--questions", type=int, default=2000)
    parser.add_argument("--pairs", type=int, default=2000, help="of each kind, at most")
    parser.add_argument("--seed", type=int, default=11)
    args = parser.parse_args(argv)
    questions = make_world(seed=args.seed, articles=max(400, args.questions), questions=args.questions).questions
    embedder = default_embedder()
    scores = {k: similarities(p, embedder) for k, p in pairs_of(questions, args.seed, args.pairs).items()}
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
