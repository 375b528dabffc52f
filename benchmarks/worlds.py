"""Worlds beside phantom-wiki and real passages: speed, variety of language, and the million-article run.

    python benchmarks/worlds.py [--articles N] [--questions M] [--workers W] [--tokens T]
                                [--phantom PYTHON] [--real CORPUS.jsonl.gz]

`--phantom` names the Python of an environment that has phantom-wiki (and swipl on the path); `--real` a corpus of real
passages (`id, title, text`). Either is left out with its reason where it is not at hand. Figures of language are taken
over the same number of words of each text:

    distinct    different 4-grams / all 4-grams (higher: more varied)
    skeleton    the same with names and numbers masked, so that only the wording counts
    repeated    share of a passage's masked 4-grams that another passage of the sample has too (lower: less template)
    real        share of a text's different masked 4-grams that real passages use (another half for real itself)
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from subquest.worlds import Recipe, write_world
from subquest.worlds.world_folder import read_articles

GRAM = 4


def masked(text: str) -> list[str]:
    """Words in lower case; names (capitals inside a sentence) and numbers become one sign, runs of them one."""
    out: list[str] = []
    for sentence in re.split(r"(?<=[.!?:])\s+|\n", text):
        for i, word in enumerate(re.findall(r"[\w'’]+", sentence)):
            name = word[0].isdigit() or (word[0].isupper() and (i > 0 or not word.isalpha()))
            if not name:
                out.append(word.lower())
            elif not out or out[-1] != "_":
                out.append("_")
    return out


def grams(words: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(words[i : i + GRAM]) for i in range(len(words) - GRAM + 1)]


def sample(texts: Iterable[str], tokens: int) -> list[str]:
    out, seen = [], 0
    for text in texts:
        out.append(text)
        seen += len(text.split())
        if seen >= tokens:
            break
    return out


def language(texts: list[str], real: set[tuple[str, ...]] | None) -> dict[str, float]:
    plain = [g for t in texts for g in grams(re.findall(r"[\w'’]+", t.lower()))]
    per_text = [grams(masked(t)) for t in texts]
    everything = [g for gs in per_text for g in gs]
    holders = Counter(g for gs in per_text for g in set(gs))
    repeated = sum(holders[g] > 1 for gs in per_text for g in gs)
    figures = {
        "distinct": len(set(plain)) / len(plain),
        "skeleton": len(set(everything)) / len(everything),
        "repeated": repeated / len(everything),
    }
    if real is not None:
        different = set(everything)
        figures["real"] = len(different & real) / len(different)
    return figures


def ours(articles: int, questions: int, workers: int, tokens: int) -> tuple[dict[str, float], list[str]]:
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        write_world(Path(folder), Recipe(seed=1, articles=articles, questions=questions), workers)
        seconds = time.perf_counter() - began
        size = sum(p.stat().st_size for p in Path(folder).iterdir()) / 1e6
        # Every hundredth article and so on, so that the sample spans the world.
        step = max(1, articles * 90 // tokens)
        texts = (row.text for i, row in enumerate(read_articles(Path(folder))) if i % step == 0)
        kept = sample(texts, tokens)
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    figures = {
        "articles": articles,
        "questions": questions,
        "seconds": seconds,
        "articles_per_s": articles / seconds,
        "disk_mb": size,
        "peak_mb": own + (children * workers if workers > 1 else 0),
    }
    return figures, kept


def phantom(python: str, trees: int, tokens: int) -> tuple[dict[str, float], list[str]]:
    with tempfile.TemporaryDirectory() as folder:
        command = [python, "-m", "phantom_wiki", "--num-family-trees", str(trees), "--max-family-tree-size", "25"]
        command += ["--seed", "1", "--num-questions-per-type", "10", "--question-depth", "6", "--skip-solution-traces"]
        command += ["--quiet", "--output-dir", folder, "--article-format", "json", "--question-format", "json"]
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        seconds = time.perf_counter() - began
        pages = json.loads((Path(folder) / "articles.json").read_text())
        questions = json.loads((Path(folder) / "questions.json").read_text())
    count = len(pages)
    figures = {"articles": count, "questions": len(questions), "seconds": seconds, "articles_per_s": count / seconds}
    return figures, sample((p["article"] for p in pages), tokens)


def main(argv: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(
        prog="subquest bench worlds", description="Worlds beside phantom-wiki and real passages."
    )
    parser.add_argument("--articles", type=int, default=20_000)
    parser.add_argument("--questions", type=int, default=2_000)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--tokens", type=int, default=60_000, help="words of each text that are compared")
    parser.add_argument("--trees", type=int, default=200, help="family trees of phantom-wiki (25 people each)")
    parser.add_argument("--phantom", default=os.environ.get("PHANTOM_PYTHON", ""))
    parser.add_argument("--real", type=Path, default=Path("../shared/data/train/hotpotqa_train_corpus.jsonl.gz"))
    args = parser.parse_args(argv)

    real: set[tuple[str, ...]] | None = None
    texts: dict[str, list[str]] = {}
    figures: dict[str, Any] = {}
    if args.real.is_file():
        with gzip.open(args.real, "rt", encoding="utf-8") as lines:
            passages = [json.loads(line)["text"] for line in lines]
        half = len(passages) // 2
        real = {g for t in passages[half:] for g in grams(masked(t))}
        texts["real passages"] = sample((t for t in passages[:half] if len(t.split()) > 40), args.tokens)
    else:
        print(f"no real passages: {args.real} is not here", file=sys.stderr)
    figures["subquest"], texts["subquest"] = ours(args.articles, args.questions, args.workers, args.tokens)
    if args.phantom:
        figures["phantom-wiki"], texts["phantom-wiki"] = phantom(args.phantom, args.trees, args.tokens)
    else:
        print("phantom-wiki left out: give --phantom the Python that has it", file=sys.stderr)
    for name, kept in texts.items():
        figures.setdefault(name, {}).update(language(kept, real))
    ratios = {}
    if "phantom-wiki" in figures:
        for key in ("articles_per_s", "distinct", "skeleton", "repeated"):
            ratios[f"{key} subquest / phantom-wiki"] = figures["subquest"][key] / figures["phantom-wiki"][key]
    if "real passages" in figures:
        ratios["distinct subquest / real"] = figures["subquest"]["distinct"] / figures["real passages"]["distinct"]
    for name, row in figures.items():
        cells = "  ".join(f"{k} {v:,.3f}" if v < 10 else f"{k} {v:,.0f}" for k, v in row.items())
        print(f"{name:15} {cells}", file=sys.stderr)
    return {"name": "worlds", "figures": figures, "ratios": ratios}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
