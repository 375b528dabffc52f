"""Support recall on the multi-hop sets: how much of what a question needs is among the first 2 or 5 passages.

    subquest bench search-quality --data ../shared/data/eval --split test500
    subquest bench search-quality --data ../shared/data/train --split dev --tune

For every set: the mean over questions of the share of supporting passages (by id) among the best 2 and 5, in modes
bm25, dense, hybrid, auto (hybrid, and first what the question names) and linked (hybrid, put in order by which passages
name which). `--judge MODEL` adds hybrid and linked search with the first `--depth` put in order by a language model,
pointwise:

    subquest bench search-quality --judge torch:smollm2 --adapter runs/rerank/last --verdicts verdicts.jsonl

`--worlds SPEC` asks for the facts behind a world's questions one by one, as an executor does, and counts the articles
that are among the first three:

    subquest bench search-quality --worlds world:seed=931,articles=800,questions=300,hops=2+3

`--tune` compares fusions, BM25 parameters and link weights, with `--judge` how much of a score should be the judge's
(and shows the means over the sets); use it on dev questions only. What the judge has said is kept in the file of
`--verdicts` and not asked again, so that it can be read on a GPU once and compared elsewhere as often as one likes.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

SETS = ("musique", "2wikimultihopqa", "hotpotqa")
PUBLISHED = {
    "BM25": {"musique": (32.3, 41.2), "2wikimultihopqa": (51.8, 61.9), "hotpotqa": (55.4, 72.2)},
    "Contriever": {"musique": (34.8, 46.6), "2wikimultihopqa": (46.6, 57.5), "hotpotqa": (57.2, 75.5)},
}


def recall(found: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]], k: int) -> float:
    """Mean share of the wanted ids among the first k, in percent."""
    shares = [len(set(ids[:k]) & set(gold)) / len(set(gold)) for ids, gold in zip(found, wanted, strict=True)]
    return 100 * sum(shares) / len(shares)


def read_questions(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def open_index(data: Path, name: str, corpus: str, cache: Path, encoder: str) -> Any:
    from subquest.retrieval import Index
    from subquest.retrieval.corpus import read

    path = cache / f"{name}-{corpus}.sq"
    index = Index.build(path, read([data / f"{name}_{corpus}.jsonl.gz"]))
    if encoder != "none":
        done = 0

        def progress(more: int) -> None:
            nonlocal done
            done += more
            print(f"\r{name}: {done} of {len(index)} passages embedded", end="", file=sys.stderr)

        if index.embed(encoder, progress=progress):
            print(file=sys.stderr)
    return index


def main(argv: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="subquest bench search-quality", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/eval"))
    parser.add_argument("--split", default="test500", help="test500 with eval, dev with train")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--encoder", default="minilm", help="minilm, st:MODEL, MODEL@URL or none")
    parser.add_argument("--cache", type=Path, help="keep the indexes here (default: a temporary folder)")
    parser.add_argument("--judge", metavar="MODEL", help="rerank by this model too, such as embedded")
    parser.add_argument("--adapter", help="the judge's LoRA adapter; none for none")
    parser.add_argument(
        "--judged", type=int, default=0, help="questions of a set that the model reranks (default: all)"
    )
    parser.add_argument("--depth", type=int, default=20, help="passages of a question that the model reads")
    parser.add_argument("--reranked", metavar="MODES", help="what the model reranks (default: hybrid,linked)")
    parser.add_argument("--verdicts", type=Path, metavar="FILE", help="what the judge has said, read and added to")
    parser.add_argument("--worlds", nargs="+", metavar="SPEC", help="facts of these worlds instead of the sets")
    parser.add_argument("--tune", action="store_true", help="compare settings; on dev questions only")
    args = parser.parse_args(argv)
    if args.worlds:
        return {"name": "search_quality", "figures": {spec: facts_found(spec) for spec in args.worlds}, "ratios": {}}
    if args.cache:
        return measured(args, args.cache)
    with tempfile.TemporaryDirectory(prefix="subquest-bench-") as cache:
        return measured(args, Path(cache))


def measured(args: argparse.Namespace, cache: Path) -> dict[str, Any]:
    """What is found in indexes that are kept in `cache`."""
    corpus = "corpus" if (args.data / f"{SETS[0]}_corpus.jsonl.gz").exists() else "train_corpus"
    figures: dict[str, Any] = {}
    for name in args.sets.split(","):
        questions = read_questions(args.data / f"{name}_{args.split}.jsonl.gz")
        gold = [question["supporting_ids"] for question in questions]
        texts = [question["question"] for question in questions]
        with open_index(args.data, name, corpus, cache, args.encoder) as index:
            if args.judge and args.judged:
                texts, gold = texts[: args.judged], gold[: args.judged]
            if args.tune and not args.judge:
                figures[name] = tune(index, texts, gold)
                continue
            with_vectors = () if args.encoder == "none" else ("dense", "hybrid")
            for mode in ("bm25", *with_vectors, "auto", "linked"):
                hits = index.search_many(texts, 5, mode=mode)
                found = [[hit.document.id for hit in row] for row in hits]
                values = {f"R@{k}": round(recall(found, gold, k), 1) for k in (2, 5)}
                figures.setdefault(name, {})[mode] = values
                print(f"{name:16} {mode:7} R@2 {values['R@2']:5}  R@5 {values['R@5']:5}", file=sys.stderr, flush=True)
            if args.judge:
                figures[name].update(judged(index, args, texts, gold))
    if args.tune and args.judge:
        figures["mean"] = means(figures)
    ratios = {}
    if not args.tune:
        for name, modes in figures.items():
            for mode, values in modes.items():
                if "," in mode:
                    continue
                for peer, rows in PUBLISHED.items():
                    ratios[f"{name} {mode} / published {peer} R@5"] = round(values["R@5"] / rows[name][1], 3)
    return {"name": "search_quality", "figures": figures, "ratios": ratios}


def facts_found(spec: str, k: int = 3) -> dict[str, float]:
    """Percent of the facts behind a world's questions whose article is among the first k, without vectors."""
    from subquest.retrieval import Index
    from subquest.train.data import load_material
    from subquest.train.facts import facts_of, query
    from subquest.train.recipe import DataPart

    material = load_material([DataPart(spec)])
    facts = list({(fact.task, fact.support): fact for q in material.questions for fact in facts_of(q)}.values())
    out = {}
    with (
        tempfile.TemporaryDirectory(prefix="subquest-bench-") as folder,
        Index.build(Path(folder) / "world.sq", material.documents) as index,
    ):
        for mode in ("bm25", "auto"):
            rows = index.search_many([query(fact, 0) for fact in facts], k, mode=mode)
            found = [fact.support in {hit.document.title for hit in row} for fact, row in zip(facts, rows, strict=True)]
            out[mode] = round(100 * sum(found) / len(found), 1)
    print(f"{spec}: {len(facts)} facts, {out}", file=sys.stderr, flush=True)
    return out


def means(figures: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Of each way that all sets have, the mean over the sets."""
    sets = list(figures.values())
    out: dict[str, dict[str, float]] = {}
    for label in sets[0]:
        if all(label in rows for rows in sets):
            out[label] = {key: round(sum(rows[label][key] for rows in sets) / len(sets), 2) for key in sets[0][label]}
            print(f"{'mean':32} {label:28} {out[label]}", file=sys.stderr, flush=True)
    return out


class Verdicts:
    """How likely a judge found it that a passage helps with a question: a file of lines, or memory alone."""

    def __init__(self, path: Path | None, judge: dict[str, str]) -> None:
        from subquest.errors import UsageError

        self.known: dict[tuple[str, str, str], float] = {}
        lines = path.read_text().splitlines() if path is not None and path.exists() else []
        if lines and json.loads(lines[0]) != judge:
            raise UsageError(f"{path} has the verdicts of another judge, {lines[0]}: give another file to --verdicts")
        for line in lines[1:]:
            corpus, question, document, score = json.loads(line)
            self.known[corpus, question, document] = score
        self._path = path
        if not lines:
            self._write([judge])

    def add(self, corpus: str, question: str, scores: dict[str, float]) -> None:
        self.known.update({(corpus, question, document): score for document, score in scores.items()})
        self._write([[corpus, question, document, round(score, 6)] for document, score in scores.items()])

    def _write(self, lines: Sequence[Any]) -> None:
        if self._path is not None:
            with self._path.open("a") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)


def judged(
    index: Any, args: argparse.Namespace, texts: Sequence[str], gold: Sequence[Sequence[str]]
) -> dict[str, dict[str, float]]:
    """Hybrid and linked search put in order by a language model; every passage is judged once for both."""
    from subquest.retrieval.rerank import TRUST, in_order, mixed

    modes = args.reranked.split(",") if args.reranked else ["bm25" if args.encoder == "none" else "hybrid", "linked"]
    first = {mode: index.search_many(texts, args.depth, mode=mode) for mode in modes}
    verdicts = Verdicts(args.verdicts, {"judge": args.judge, "adapter": adapter_digest(args.adapter)})
    corpus, todo = index.path.name, []
    for n, text in enumerate(texts):
        hits = {hit.document.id: hit for rows in first.values() for hit in rows[n]}
        left = [hit for i, hit in hits.items() if (corpus, text, i) not in verdicts.known]
        todo += [(text, left)] if left else []
    if todo:
        asyncio.run(ask(args, corpus, todo, verdicts))
    out: dict[str, dict[str, float]] = {}
    for mode, rows in first.items():
        for trust in [n / 10 for n in range(11)] if args.tune else [TRUST]:
            found = []
            for text, hits in zip(texts, rows, strict=True):
                said = [verdicts.known[corpus, text, hit.document.id] for hit in hits]
                scores = mixed([hit.score for hit in hits], said, trust)
                found.append([hit.document.id for hit in in_order(hits, scores)])
            label = f"{mode}, judged, trust {trust}"
            out[label] = {f"R@{k}": round(recall(found, gold, k), 1) for k in (2, 5)}
            print(f"{corpus:32} {label:28} {out[label]}", file=sys.stderr, flush=True)
    return out


def adapter_digest(name: str | None) -> str:
    """The judge's adapter by its content, the shipped one where none is named: new weights may judge otherwise."""
    from subquest.models import default_adapter
    from subquest.study.stamps import file_digest

    place = Path(name) if name else default_adapter()
    return file_digest(str(place)) if place is not None and place.exists() else name or ""


async def ask(args: argparse.Namespace, corpus: str, todo: Sequence[tuple[str, Any]], verdicts: Verdicts) -> None:
    """Have the judge read the passages of questions, as many questions at once as fill its batches."""
    from subquest.assemble import EngineOptions, open_engine
    from subquest.retrieval.rerank import Pointwise

    engine: Any = open_engine(args.judge, EngineOptions(adapter=args.adapter))
    judge = Pointwise(engine, seconds=3600, at_once=64)
    gate = asyncio.Semaphore(32 if args.judge.startswith("torch:") else 4)
    started, began, done = time.process_time(), time.monotonic(), 0

    async def one(text: str, hits: Any) -> None:
        nonlocal done
        async with gate:
            scores = await judge.judge(text, hits)
        verdicts.add(corpus, text, {hit.document.id: score for hit, score in zip(hits, scores, strict=True)})
        done += 1
        print(f"\r{corpus}: {done} of {len(todo)} questions judged", end="", file=sys.stderr)

    try:
        await asyncio.gather(*(one(*each) for each in todo))
    finally:
        seconds, wall = time.process_time() - started, time.monotonic() - began
        pairs = sum(len(hits) for _, hits in todo)
        print(
            f"\n{corpus:32} {pairs} passages, {seconds / len(todo):.3f} CPU seconds a question, {wall:.1f} s in all",
            file=sys.stderr,
            flush=True,
        )
        await engine.close()


def tune(index: Any, texts: Sequence[str], gold: Sequence[Sequence[str]]) -> dict[str, list[float]]:
    """R@2 and R@5 of many settings; both rankings are made once and fused again and again."""
    from subquest.retrieval import BM25
    from subquest.retrieval.bm25 import Scored
    from subquest.retrieval.fusion import Fusion

    out: dict[str, list[float]] = {}

    def note(label: str, found: Sequence[Sequence[str]]) -> None:
        out[label] = [round(recall(found, gold, k), 1) for k in (2, 5)]
        print(f"{index.path.name:32} {label:28} {out[label]}", file=sys.stderr)

    def ranked(**options: Any) -> list[list[tuple[str, float]]]:
        hits = index.search_many(texts, 300, **options)
        return [[(hit.document.id, hit.score) for hit in row] for row in hits]

    for k1, b in ((0.9, 0.4), (1.2, 0.75), (1.5, 0.75), (0.6, 0.4), (0.9, 0.6), (1.2, 0.4), (0.6, 0.75), (0.4, 0.4)):
        note(f"bm25 {k1} {b}", [[i for i, _ in row] for row in ranked(mode="bm25", bm25=BM25(k1, b))])
    if not index.info().vectors:
        return out
    lexical, dense = ranked(mode="bm25"), ranked(mode="dense")
    note("dense", [[i for i, _ in row] for row in dense])
    for kind in ("rrf", "weighted"):
        for weight in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7):
            for depth in (30, 100, 300):
                fusion, found = Fusion(kind, weight, depth), []
                for a, b in zip(lexical, dense, strict=True):
                    names = {i: n for n, i in enumerate(dict.fromkeys(i for i, _ in [*a, *b]))}
                    back = list(names)
                    rows = [[Scored(names[i], score) for i, score in part[:depth]] for part in (a, b)]
                    found.append([back[scored.number] for scored in fusion.fuse(*rows, 5)])
                note(f"{kind} {weight} {depth}", found)
    tune_links(index, texts, note)
    return out


def tune_links(index: Any, texts: Sequence[str], note: Callable[[str, Sequence[Sequence[str]]], None]) -> None:
    """The weights of links, over one hybrid ranking."""
    from subquest.retrieval import titles

    hits = index.search_many(texts, titles.LINKED_DEPTH)
    chosen = (titles.IN_QUESTION, titles.VOUCHED)
    for asked in (0.0, 0.3, 0.5, 0.7, 1.0):
        for vouched in (0.0, 0.4, 0.6, 0.8, 1.0):
            titles.IN_QUESTION, titles.VOUCHED = asked, vouched
            rows = [titles.linked_first(text, row, index.analysis) for text, row in zip(texts, hits, strict=True)]
            note(f"linked {asked} {vouched}", [[hit.document.id for hit in row] for row in rows])
    titles.IN_QUESTION, titles.VOUCHED = chosen


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
