"""Dense search: exact search against the memory's read speed, the approximate index's recall, embedding speed.

    subquest bench dense --rows 200000
    subquest bench dense --index A.sq --index B.sq --questions QUESTIONS.jsonl.gz --model FOLDER
    subquest bench dense --recall ../shared/data/train

Exact search reads every row once, so the fastest it can be is the time to read the rows: `read` sums the same bytes
with as many threads. The approximate index is measured on the vectors of real passages (of indexes embedded before) and
of real questions. Embedding is compared with sentence-transformers on the same passages (`--model` names its folder).
`--recall` compares the support recall of the 8-bit encoder with that of the same weights in 32 bits, on dev questions
over their own passages and 1,500 others a set.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

THREADS = len(os.sched_getaffinity(0))


def milliseconds(work: Callable[[], Any], times: int = 15) -> float:
    """The median of several runs; the first, which warms up, does not count."""
    work()
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(taken)


def exact(rows: int, folder: Path) -> dict[str, float]:
    """One query over random unit rows, beside reading them, numpy and faiss."""
    import numpy as np

    from subquest.retrieval.dense import Dense, VectorPart
    from subquest.retrieval.vectors import VectorFile, write_vectors

    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(rows, 384)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    half = vectors.astype(np.float16)
    write_vectors(folder / "rows.vec", range(1, rows + 1), (row.tobytes() for row in half), 384)
    file = VectorFile(folder / "rows.vec")
    dense, query = Dense([VectorPart(file, None)]), vectors[:1]
    words = np.frombuffer(np.ascontiguousarray(half).data, np.uint64)
    parts = np.array_split(words, THREADS)
    with ThreadPoolExecutor(THREADS) as pool:
        read = milliseconds(lambda: list(pool.map(np.bitwise_or.reduce, parts)))
    figures = {
        "read_ms": read,
        "read_gb_per_s": words.nbytes / read / 1e6,
        "subquest_ms": milliseconds(lambda: dense.top(query, 10)),
        "numpy_fp32_ms": milliseconds(lambda: np.argpartition(-(vectors @ query[0]), 10)[:10]),
    }
    figures["gb_per_s"] = words.nbytes / figures["subquest_ms"] / 1e6
    try:
        import faiss
    except ImportError:
        return figures
    flat = faiss.IndexFlatIP(384)
    flat.add(vectors)
    figures["faiss_flat_ms"] = milliseconds(lambda: flat.search(query, 10))
    return figures


def approximate(indexes: list[Path], questions: list[str], folder: Path) -> dict[str, float]:
    """The graph on real vectors: recall@10 of questions, time a query."""
    import numpy as np

    from subquest.retrieval import ann
    from subquest.retrieval.dense import Dense, VectorPart
    from subquest.retrieval.encoder import EncoderSpec, open_encoder
    from subquest.retrieval.vectors import VectorFile, write_vectors

    rows = np.concatenate([VectorFile(path).vectors for index in indexes for path in sorted(index.glob("*.vec"))])
    queries = open_encoder(EncoderSpec()).encode(questions, query=True)
    path = folder / "real.vec"
    write_vectors(path, range(1, len(rows) + 1), (row.tobytes() for row in rows), rows.shape[1])
    begin = time.process_time()
    tuned = ann.build(VectorFile(path), path.with_suffix(".ann"))
    figures = {"rows": len(rows), "build_cpu_s": time.process_time() - begin, "recall_when_built": tuned}
    file = VectorFile(path)
    dense = Dense([VectorPart(file, None)])
    found = dense.top(queries, 10)
    figures["approximate_ms"] = milliseconds(lambda: dense.top(queries[:1], 10))
    path.with_suffix(".ann").unlink()
    dense = Dense([VectorPart(file, None)])
    true = dense.top(queries, 10)
    same = sum(len({h.number for h in a} & {h.number for h in b}) for a, b in zip(found, true, strict=True))
    figures["recall@10"] = same / sum(map(len, true))
    figures["exact_ms"] = milliseconds(lambda: dense.top(queries[:1], 10))
    return figures


def embedding(passages: list[str], model: str) -> dict[str, float]:
    """Passages a second, ours and sentence-transformers', and how near the vectors are."""
    import numpy as np

    from subquest.retrieval.encoder import EncoderSpec, open_encoder

    ours = open_encoder(EncoderSpec())
    ours.encode(passages[:8], query=False)
    begin, cpu = time.perf_counter(), time.process_time()
    vectors = ours.encode(passages, query=False)
    figures = {
        "passages": len(passages),
        "per_s": len(passages) / (time.perf_counter() - begin),
        "per_cpu_s": len(passages) / (time.process_time() - cpu),
    }
    try:
        import sentence_transformers
    except ImportError:
        return figures
    peer = sentence_transformers.SentenceTransformer(model)
    peer.encode(passages[:8])
    begin, cpu = time.perf_counter(), time.process_time()
    theirs = peer.encode(passages, normalize_embeddings=True)
    figures["sentence_transformers_per_s"] = len(passages) / (time.perf_counter() - begin)
    figures["sentence_transformers_per_cpu_s"] = len(passages) / (time.process_time() - cpu)
    cosines = (vectors * theirs).sum(1)
    figures["cosine_mean"], figures["cosine_lowest"] = float(np.mean(cosines)), float(np.min(cosines))
    return figures


def precision(data: Path) -> dict[str, float]:
    """Support recall with 8-bit and with 32-bit vectors over the dev questions, and how near the vectors are."""
    import random

    import numpy as np
    import onnxruntime

    from subquest.retrieval import minilm
    from subquest.retrieval.encoder import EncoderSpec, MiniLM

    encoders = {"int8": MiniLM(EncoderSpec()), "float32": MiniLM(EncoderSpec())}
    with tempfile.TemporaryDirectory(prefix="subquest-bench-") as scratch:
        plain = Path(scratch) / "plain.onnx"
        minilm.convert(minilm.weights(), plain, quantise=False)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        encoders["float32"]._session = onnxruntime.InferenceSession(str(plain), options)
    shares: dict[str, list[float]] = {}
    cosines: list[float] = []
    chance = random.Random(0)
    for name in ("hotpotqa", "musique", "2wikimultihopqa"):
        questions = read(data / f"{name}_dev.jsonl.gz")
        corpus = {row["id"]: row for row in read(data / f"{name}_train_corpus.jsonl.gz")}
        own = dict.fromkeys(
            i for q in questions for i in [*q["supporting_ids"], *(q.get("context_ids") or [])] if i in corpus
        )
        others = [i for i in corpus if i not in own]
        kept = [*own, *chance.sample(others, min(1500, len(others)))]
        texts = [f"{corpus[i]['title']}\n{corpus[i]['text']}" for i in kept]
        vectors = {}
        for label, encoder in encoders.items():
            vectors[label] = encoder.encode(texts, query=False)
            asked = encoder.encode([q["question"] for q in questions], query=True)
            best = np.argsort(-(asked @ vectors[label].astype(np.float16).astype(np.float32).T), axis=1)[:, :5]
            for q, row in zip(questions, best, strict=True):
                gold, found = set(q["supporting_ids"]), [kept[place] for place in row]
                for k in (2, 5):
                    share = 100 * len(gold & set(found[:k])) / len(gold)
                    shares.setdefault(f"{label} R@{k}", []).append(share)
        cosines += (vectors["int8"] * vectors["float32"]).sum(1).tolist()
    figures = {label: sum(found) / len(found) for label, found in shares.items()}
    return {
        **figures,
        "questions": len(shares["int8 R@2"]),
        "cosine_mean": float(np.mean(cosines)),
        "cosine_lowest": min(cosines),
    }


def main(argv: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="subquest bench dense", description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--index", type=Path, action="append", default=[], help="embedded with minilm; several times")
    parser.add_argument("--questions", type=Path, action="append", default=[], help="jsonl.gz; several times")
    parser.add_argument("--recall", type=Path, metavar="DATA", help="compare 8 bits with 32 on these dev questions")
    parser.add_argument("--model", default="all-MiniLM-L6-v2", help="what sentence-transformers loads")
    args = parser.parse_args(argv)
    from subquest.retrieval import Index

    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="subquest-bench-") as scratch:
        figures["exact"] = exact(args.rows, Path(scratch))
        if args.index:
            with Index.open(args.index[0]) as index:
                passages = [f"{d.title}\n{d.text}" for d in islice(index.documents(), 400)]
            questions = [q["question"] for path in args.questions for q in read(path)] or passages[:200]
            figures["embedding"] = embedding(passages, args.model)
            figures["approximate"] = approximate(args.index, questions[:500], Path(scratch))
    if args.recall:
        figures["precision"] = precision(args.recall)
    ratios = {"exact search, share of the read speed": figures["exact"]["read_ms"] / figures["exact"]["subquest_ms"]}
    found = figures.get("embedding", {})
    if "sentence_transformers_per_s" in found:
        ratios["embedding / sentence-transformers"] = found["per_s"] / found["sentence_transformers_per_s"]
    for name, values in {**figures, "ratios": ratios}.items():
        print(f"{name:12}", {key: round(value, 3) for key, value in values.items()}, file=sys.stderr)
    return {"name": "dense", "figures": figures, "ratios": ratios}


def read(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
