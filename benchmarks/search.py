"""Lexical search against bm25s (numba), tantivy and LanceDB: build, disk, memory, latency, throughput, exactness.

    subquest bench search --passages 1000000 --peers-python PEERS/bin/python

Every engine gets the same Zipf text, the same analysis (words split at blanks, nothing dropped) and the same queries
(10 words drawn from a passage, repetitions and frequent words included). Each phase runs in a process of its own, so
that CPU seconds and resident memory belong to one engine. The exact reference is BM25 in double precision, with numpy.
tantivy is built a second time with the text kept, as our store keeps it, to compare the whole folder on the disk.
The peers live in an environment of their own: pip install bm25s numba tantivy lancedb pyarrow
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ENGINES = ("subquest", "bm25s", "tantivy", "lancedb")
PAIRS = ((0.9, 0.4), (1.2, 0.75))
FIXED = {"tantivy": PAIRS[1], "lancedb": PAIRS[1]}
"""Engines whose k1 and b cannot be set; they are held to the pair they use."""
K = 10


# ------------------------------------------------------------------------------------------------ text and queries


def make_corpus(folder: Path, passages: int, queries: int, seed: int) -> None:
    """Zipf-Mandelbrot text of about 100 words a passage, one a line."""
    import numpy as np

    generator = np.random.default_rng(seed)
    vocabulary = 300_000 + passages // 2
    ranks = np.arange(1, vocabulary + 1)
    cumulative = np.cumsum(1.0 / (ranks + 2.7) ** 1.07)
    cumulative /= cumulative[-1]
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    lengths = generator.integers(2, 10, vocabulary) + (np.log10(ranks)).astype(int)
    pool = "".join(letters[generator.integers(0, 26, int(lengths.sum()))])
    ends = np.cumsum(lengths)
    words = [pool[end - length : end] for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)]
    sizes = np.clip(generator.lognormal(4.55, 0.32, passages), 15, 400).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    numbers = np.empty(int(starts[-1]), np.int32)
    for begin in range(0, len(numbers), 10_000_000):
        chunk = numbers[begin : begin + 10_000_000]
        chunk[:] = np.searchsorted(cumulative, generator.random(len(chunk)))
    np.save(folder / "sizes.npy", sizes)
    with open(folder / "passages.txt", "w") as file:
        for i in range(passages):
            file.write(" ".join([words[n] for n in numbers[starts[i] : starts[i + 1]].tolist()]) + "\n")
    with open(folder / "queries.jsonl", "w") as file:
        for i in generator.integers(0, passages, queries).tolist():
            chosen = generator.choice(numbers[starts[i] : starts[i + 1]], 10).tolist()
            file.write(json.dumps({"words": [words[n] for n in chosen], "numbers": chosen}) + "\n")


def passages(folder: Path) -> Iterator[str]:
    with open(folder / "passages.txt") as file:
        for line in file:
            yield line.rstrip("\n")


def read_queries(folder: Path) -> list[list[str]]:
    with open(folder / "queries.jsonl") as file:
        return [json.loads(line)["words"] for line in file]


def exact(folder: Path, count: int) -> dict[str, list[list[int]]]:
    """The true best K of the first queries, for each parameter pair; words that are spelt alike are one word."""
    import numpy as np

    words = read_queries(folder)[:count]
    wanted = {word: i for i, word in enumerate(sorted({w for query in words for w in query}))}
    lengths = np.load(folder / "sizes.npy").astype(np.float64)
    postings: list[dict[int, int]] = [{} for _ in wanted]
    for document, text in enumerate(passages(folder)):
        for word in text.split():
            if (i := wanted.get(word)) is not None:
                postings[i][document] = postings[i].get(document, 0) + 1
    arrays = [(np.fromiter(p.keys(), np.int64), np.fromiter(p.values(), np.float64)) for p in postings]
    out: dict[str, list[list[int]]] = {}
    for k1, b in PAIRS:
        norms = k1 * (1 - b + b * lengths / lengths.mean())
        best = []
        for query in words:
            scores = np.zeros(len(lengths))
            for word in query:
                documents, frequencies = arrays[wanted[word]]
                n = len(documents)
                idf = np.log(1 + (len(lengths) - n + 0.5) / (n + 0.5))
                scores[documents] += idf * frequencies / (frequencies + norms[documents])
            best.append(np.lexsort((np.arange(len(scores)), -scores))[:K].tolist())
        out[f"{k1}/{b}"] = best
    return out


# ------------------------------------------------------------------------------------------------ engines

Search = Callable[[list[list[str]]], list[list[int]]]


def build_subquest(folder: Path, out: Path) -> None:
    from subquest.record import Document
    from subquest.retrieval import Index

    documents = (Document(str(i), "", text) for i, text in enumerate(passages(folder)))
    Index.build(out, documents, language="any").close()


def open_subquest(out: Path, k1: float, b: float) -> Search:
    from subquest.retrieval import BM25, Index

    index, bm25 = Index.open(out), BM25(k1, b)

    def search(queries: list[list[str]]) -> list[list[int]]:
        hits = index.search_many([" ".join(query) for query in queries], K, mode="bm25", bm25=bm25)
        return [[int(hit.document.id) for hit in found] for found in hits]

    return search


def build_bm25s(folder: Path, out: Path) -> None:
    import bm25s

    for k1, b in PAIRS[:1]:
        tokens = bm25s.tokenize(
            list(passages(folder)), stopwords=None, token_pattern=r"(?u)\b\w+\b", show_progress=False
        )
        retriever = bm25s.BM25(method="lucene", k1=k1, b=b, backend="numba")
        retriever.index(tokens, show_progress=False)
        retriever.save(str(out))


def open_bm25s(out: Path, k1: float, b: float) -> Search:
    import bm25s

    retriever = bm25s.BM25.load(str(out), mmap=False)
    retriever.backend = "numba"
    retriever.activate_numba_scorer()

    def search(queries: list[list[str]]) -> list[list[int]]:
        found = retriever.retrieve(queries, k=K, show_progress=False, return_as="documents", n_threads=2)
        return [[int(i) for i in row] for row in found]

    return search


def build_tantivy(folder: Path, out: Path, *, text: bool = False) -> None:
    import tantivy

    out.mkdir()
    builder = tantivy.SchemaBuilder()
    builder.add_integer_field("number", stored=True)
    builder.add_text_field("text", stored=text, tokenizer_name="whitespace", index_option="freq")
    index = tantivy.Index(builder.build(), path=str(out))
    writer = index.writer(heap_size=500_000_000, num_threads=2)
    for i, text in enumerate(passages(folder)):
        writer.add_document(tantivy.Document(number=i, text=text))
    writer.commit()
    writer.wait_merging_threads()


def open_tantivy(out: Path, k1: float, b: float) -> Search:
    import tantivy

    index = tantivy.Index.open(str(out))
    searcher = index.searcher()

    def one(query: list[str]) -> list[int]:
        parts = [(tantivy.Occur.Should, tantivy.Query.term_query(index.schema, "text", word, "freq")) for word in query]
        hits = searcher.search(tantivy.Query.boolean_query(parts), K).hits
        return [searcher.doc(address)["number"][0] for _, address in hits]

    return lambda queries: [one(query) for query in queries]


def build_lancedb(folder: Path, out: Path) -> None:
    import lancedb
    import pyarrow as pa

    def batches() -> Iterator[Any]:
        rows: list[str] = []
        start = 0
        for text in passages(folder):
            rows.append(text)
            if len(rows) == 20_000:
                yield pa.record_batch([pa.array(range(start, start + len(rows))), pa.array(rows)], ["number", "text"])
                start += len(rows)
                rows = []
        if rows:
            yield pa.record_batch([pa.array(range(start, start + len(rows))), pa.array(rows)], ["number", "text"])

    schema = pa.schema([("number", pa.int64()), ("text", pa.string())])
    table = lancedb.connect(str(out)).create_table("t", data=batches(), schema=schema)
    table.create_fts_index(
        "text",
        base_tokenizer="whitespace",
        lower_case=False,
        stem=False,
        remove_stop_words=False,
        ascii_folding=False,
        with_position=False,
    )


def open_lancedb(out: Path, k1: float, b: float) -> Search:
    import lancedb

    table = lancedb.connect(str(out)).open_table("t")

    def one(query: list[str]) -> list[int]:
        rows = table.search(" ".join(query), query_type="fts").select(["number"]).limit(K).to_arrow()
        return rows["number"].to_pylist()

    return lambda queries: [one(query) for query in queries]


# ------------------------------------------------------------------------------------------------ phases


def cpu_seconds() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def disk_megabytes(path: Path) -> float:
    return sum(f.stat().st_size for f in path.rglob("*") if f.is_file()) / 1e6


def resident_megabytes() -> float:
    """The most this process had in memory; getrusage would count what the parent had before."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1e3


def phase_build(engine: str, folder: Path) -> dict[str, Any]:
    out = folder / f"{engine}.index"
    shutil.rmtree(out, ignore_errors=True)
    begin, cpu = time.perf_counter(), cpu_seconds()
    globals()[f"build_{engine}"](folder, out)
    figures = {"build_seconds": time.perf_counter() - begin, "build_cpu": cpu_seconds() - cpu}
    figures["build_rss_mb"] = resident_megabytes()
    figures["disk_mb"] = disk_megabytes(out)
    if engine == "tantivy":
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            build_tantivy(folder, Path(scratch) / "text", text=True)
            figures["disk_text_mb"] = disk_megabytes(Path(scratch))
    if engine == "subquest":
        figures["disk_lexical_mb"] = sum(f.stat().st_size for f in out.glob("*.lex")) / 1e6
    return figures


def phase_search(engine: str, folder: Path) -> dict[str, Any]:
    out, queries = folder / f"{engine}.index", read_queries(folder)
    figures: dict[str, Any] = {"found": {}}
    pairs = PAIRS if engine == "subquest" else (FIXED.get(engine, PAIRS[0]),)
    for k1, b in pairs:
        begin = time.perf_counter()
        search: Search = globals()[f"open_{engine}"](out, k1, b)
        opened = time.perf_counter() - begin
        search(queries[:1])
        first = time.perf_counter() - begin
        figures["found"][f"{k1}/{b}"] = [search([query])[0] for query in queries[:100]]
        if (k1, b) != pairs[0]:
            continue
        figures.update(open_seconds=opened, first_result_seconds=first)
        times, cpus = [], []
        for query in queries[:300]:
            begin, cpu = time.perf_counter(), time.process_time()
            search([query])
            times.append(time.perf_counter() - begin)
            cpus.append(time.process_time() - cpu)
        figures.update(p50_ms=1e3 * statistics.median(times), p95_ms=1e3 * sorted(times)[int(0.95 * len(times))])
        figures["p50_cpu_ms"] = 1e3 * statistics.median(cpus)
        begin, cpu = time.perf_counter(), cpu_seconds()
        search(queries)
        figures["batch_qps"] = len(queries) / (time.perf_counter() - begin)
        figures["batch_cpu_ms"] = 1e3 * (cpu_seconds() - cpu) / len(queries)
        figures["rss_mb"] = resident_megabytes()
    return figures


def phase_add(engine: str, folder: Path) -> dict[str, Any]:
    """1,000 more passages into the finished index, and out again."""
    from subquest.record import Document
    from subquest.retrieval import Index

    texts = [text for _, text in zip(range(1000), passages(folder), strict=False)]
    with Index.open(folder / f"{engine}.index") as index:
        begin = time.perf_counter()
        index.add(Document(f"new-{i}", "", text) for i, text in enumerate(texts))
        added = time.perf_counter() - begin
        begin = time.perf_counter()
        index.remove(f"new-{i}" for i in range(1000))
        return {"add_1000_seconds": added, "remove_1000_seconds": time.perf_counter() - begin}


def run_phase(python: str, phase: str, engine: str, folder: Path) -> dict[str, Any]:
    done = subprocess.run(
        [python, __file__, "--phase", phase, "--engine", engine, "--folder", str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TOKENIZERS_PARALLELISM": "false"},
    )
    if done.returncode:
        raise SystemExit(f"{phase} of {engine} failed")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main(argv: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="subquest bench search", description=__doc__)
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--peers-python", default=sys.executable, help="interpreter that has the peers installed")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--folder", type=Path, help="keep corpus and indexes here (default: a temporary folder)")
    parser.add_argument("--phase", help=argparse.SUPPRESS)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.phase:
        return dict(globals()[f"phase_{args.phase}"](args.engine, args.folder))

    temporary = None if args.folder else tempfile.TemporaryDirectory(prefix="subquest-bench-")
    folder = args.folder or Path(temporary.name)  # type: ignore[union-attr]
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "queries.jsonl").exists():
        make_corpus(folder, args.passages, args.queries, args.seed)
    if not (folder / "exact.json").exists():
        (folder / "exact.json").write_text(json.dumps(exact(folder, 100)))
    reference = json.loads((folder / "exact.json").read_text())
    figures: dict[str, Any] = {"passages": args.passages}
    for engine in args.engines.split(","):
        python = sys.executable if engine == "subquest" else args.peers_python
        try:
            measured = {**run_phase(python, "build", engine, folder), **run_phase(python, "search", engine, folder)}
            if engine == "subquest":
                measured.update(run_phase(python, "add", engine, folder))
        except SystemExit as failure:
            print(f"{failure}; left out", file=sys.stderr)
            continue
        for pair, found in measured.pop("found").items():
            same = sum(len(set(a) & set(b)) for a, b in zip(found, reference[pair], strict=True))
            measured[f"overlap@10 {pair}"] = same / (K * len(found))
        figures[engine] = measured
        print(f"{engine:10}", {k: round(v, 3) for k, v in measured.items()}, file=sys.stderr)
    ratios = compare(figures)
    print(f"{'ratios':10}", {k: round(v, 3) for k, v in ratios.items()}, file=sys.stderr)
    if temporary:
        temporary.cleanup()
    return {"name": "search", "figures": figures, "ratios": ratios}


def compare(figures: dict[str, Any]) -> dict[str, float]:
    """Ours against the peers, as the targets are put: above 1 is better for throughput, below 1 for the rest."""
    ours, bm25s, tantivy = figures.get("subquest"), figures.get("bm25s"), figures.get("tantivy")
    peers = [figures[name] for name in ENGINES[1:] if name in figures]
    if not ours or not peers:
        return {}
    out = {"p50 / best peer": ours["p50_ms"] / min(peer["p50_ms"] for peer in peers)}
    if bm25s:
        out["batch throughput / bm25s"] = ours["batch_qps"] / bm25s["batch_qps"]
        out["resident memory / bm25s"] = ours["rss_mb"] / bm25s["rss_mb"]
        out["build CPU / bm25s"] = ours["build_cpu"] / bm25s["build_cpu"]
    if tantivy:
        out["lexical disk / tantivy (no text)"] = ours["disk_lexical_mb"] / tantivy["disk_mb"]
        out["whole disk / tantivy (with text)"] = ours["disk_mb"] / tantivy["disk_text_mb"]
    return out


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
