"""How search grows: build, disk, memory, latency and changes at several sizes, lexical and dense.

    subquest bench search-scale --passages 100000,1000000,3000000 --plot docs/search-scale.svg
    subquest bench search-scale --passages "" --vectors 1000000 --index A.sq --index B.sq --questions Q.jsonl.gz

The passages are articles of a world (`subquest world make`), the queries its questions; an index of fewer passages has
the first ones of the same world, and the questions that these answer. `--world FOLDER` takes one that is there. Each
phase runs in a process of its own, with the default settings.

The vectors are made, not encoded: real ones (of the indexes that `--index` names, embedded with minilm) each moved by
noise of a third of its length, so that they lie as unevenly as real ones do. Queries are made the same way, or with
`--questions` encoded from real questions. Encoding is measured on passages of the first of these indexes. With
`--place URL` the first index is copied to that backend (an empty collection) and searched there too.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parent))
import search as lexical

NOISE = 0.33
WIDTH = 384


def lexical_size(passages: int, world: Path, folder: Path) -> dict[str, Any]:
    """One index of so many passages, from text to answers; then changed and compacted."""
    figures: dict[str, Any] = {"passages": passages}
    for phase in ("build", "search", "change"):
        figures.update(in_own_process(phase, str(passages), str(world), str(folder)))
    return figures


def articles(world: Path, passages: int) -> Iterator[Any]:
    """The first articles of a world as documents."""
    from subquest.retrieval.corpus import read

    return islice(read([world / "corpus.jsonl"]), passages)


def questions(world: Path, passages: int) -> list[str]:
    """Up to a thousand questions that the first articles of a world answer."""
    here = {document.id for document in articles(world, passages)}
    with open(world / "questions.jsonl", encoding="utf-8") as file:
        rows = (json.loads(line) for line in file)
        return [row["question"] for row in islice((r for r in rows if here.issuperset(r["supporting_ids"])), 1000)]


def phase_build(passages: int, world: Path, folder: Path) -> dict[str, Any]:
    from subquest.retrieval import Index

    words = [len(document.text.split()) for document in articles(world, 10_000)]
    begin, cpu = time.perf_counter(), lexical.cpu_seconds()
    Index.build(folder / "index.sq", articles(world, passages)).close()
    taken = {"build_seconds": time.perf_counter() - begin, "build_cpu": lexical.cpu_seconds() - cpu}
    segments = sum(path.stat().st_size for path in (folder / "index.sq").glob("*.lex")) / 1e6
    (folder / "questions.json").write_text(json.dumps(questions(world, passages)))
    return {
        **taken,
        "build_rss_mb": lexical.resident_megabytes(),
        "words": statistics.mean(words),
        "lexical_mb": segments,
        "documents_mb": lexical.disk_megabytes(folder / "index.sq") - segments,
    }


def phase_search(passages: int, world: Path, folder: Path) -> dict[str, Any]:
    from subquest.retrieval import Index

    asked = json.loads((folder / "questions.json").read_text())
    begin = time.perf_counter()
    index = Index.open(folder / "index.sq")
    opened = time.perf_counter() - begin
    index.search(asked[0], 10, mode="bm25")
    figures: dict[str, Any] = {"open_seconds": opened, "first_seconds": time.perf_counter() - begin}
    index.search_many(asked[:100], 10, mode="bm25")
    times, cpus = [], []
    for question in asked[:300]:
        begin, cpu = time.perf_counter(), time.process_time()
        index.search(question, 10, mode="bm25")
        times.append(1e3 * (time.perf_counter() - begin))
        cpus.append(1e3 * (time.process_time() - cpu))
    for name, taken in (("", times), ("_cpu", cpus)):
        figures[f"p50{name}_ms"], figures[f"p95{name}_ms"] = (
            statistics.median(taken),
            sorted(taken)[len(taken) * 95 // 100],
        )
    begin, cpu = time.perf_counter(), lexical.cpu_seconds()
    index.search_many(asked, 10, mode="bm25")
    figures["batch_qps"] = len(asked) / (time.perf_counter() - begin)
    figures["batch_cpu_ms"] = 1e3 * (lexical.cpu_seconds() - cpu) / len(asked)
    figures["rss_mb"] = lexical.resident_megabytes()
    index.close()
    return figures


def phase_change(passages: int, world: Path, folder: Path) -> dict[str, Any]:
    """A thousand more passages in, the same out again, and everything rewritten."""
    from dataclasses import replace

    from subquest.retrieval import Index

    new = [replace(document, id=f"new-{document.id}") for document in articles(world, 1000)]
    figures = {}
    with Index.open(folder / "index.sq") as index:
        for name, work in (
            ("add_1000", lambda: index.add(new)),
            ("remove_1000", lambda: index.remove(document.id for document in new)),
            ("compact", index.compact),
        ):
            begin, cpu = time.perf_counter(), lexical.cpu_seconds()
            work()
            figures[f"{name}_seconds"] = time.perf_counter() - begin
            figures[f"{name}_cpu"] = lexical.cpu_seconds() - cpu
    return figures


def place_size(index: Path, place: str, folder: Path) -> dict[str, Any]:
    """A copy of an index in a backend: how fast it goes in, how fast it answers, whether the answers are the same."""
    from subquest.retrieval import Index
    from subquest.retrieval.locations import create_place
    from subquest.retrieval.transfer import copy

    queries = json.loads((folder / "questions.json").read_text())[:50]
    with Index.open(index) as source, create_place(place, source.settings) as target:
        begin, cpu = time.perf_counter(), lexical.cpu_seconds() + postgres_seconds()
        copy(source, target)
        copied = lexical.cpu_seconds() + postgres_seconds() - cpu
        figures: dict[str, Any] = {"copied_per_s": len(source) / (time.perf_counter() - begin)}
        figures["copy_cpu_ms"] = 1e3 * copied / len(source)
        target.search(queries[0], 10, mode="bm25")
        taken, found = [], []
        cpu = lexical.cpu_seconds() + postgres_seconds()
        for query in queries:
            begin = time.perf_counter()
            found.append({hit.document.id for hit in target.search(query, 10, mode="bm25")})
            taken.append(time.perf_counter() - begin)
        figures["query_cpu_ms"] = 1e3 * (lexical.cpu_seconds() + postgres_seconds() - cpu) / len(queries)
        figures["p50_ms"] = 1e3 * statistics.median(taken)
        true = [{hit.document.id for hit in row} for row in source.search_many(queries, 10, mode="bm25")]
        figures["overlap@10 with our own index"] = sum(len(a & b) for a, b in zip(found, true, strict=True)) / sum(
            map(len, true)
        )
    return figures


def postgres_seconds() -> float:
    """CPU time of the PostgreSQL servers on this machine."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().partition(") ")
        except OSError:
            continue
        if name.endswith("(postgres"):
            ticks += sum(map(int, rest.split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def phase_dense(rows: int, asked: Path | None, folder: Path, indexes: Sequence[Path]) -> dict[str, Any]:
    """One vector file of so many rows with its approximate companion."""
    import numpy as np

    from subquest.retrieval import ann
    from subquest.retrieval.dense import Dense, VectorPart
    from subquest.retrieval.vectors import VectorFile, write_vectors

    generator = np.random.default_rng(0)
    centres = real_vectors(indexes) if indexes else unit(generator.normal(size=(20_000, WIDTH)).astype(np.float32))
    path = folder / "rows.vec"

    def made() -> Iterator[bytes]:
        for start in range(0, rows, 50_000):
            count = min(50_000, rows - start)
            chosen = centres[generator.integers(0, len(centres), count)]
            yield from (row.tobytes() for row in moved(chosen, generator).astype(np.float16))

    write_vectors(path, range(1, rows + 1), made(), WIDTH)
    figures: dict[str, Any] = {"rows": rows, "real_rows": len(centres) if indexes else 0}
    begin, cpu = time.perf_counter(), lexical.cpu_seconds()
    figures["recall_when_built"] = ann.build(VectorFile(path), path.with_suffix(".ann"))
    figures |= {
        "build_seconds": time.perf_counter() - begin,
        "build_cpu": lexical.cpu_seconds() - cpu,
        "build_rss_mb": lexical.resident_megabytes(),
        "vectors_mb": path.stat().st_size / 1e6,
        "companion_mb": path.with_suffix(".ann").stat().st_size / 1e6,
    }
    begin = time.perf_counter()
    file = VectorFile(path)
    figures["open_seconds"] = time.perf_counter() - begin
    dense = Dense([VectorPart(file, None)])
    if asked:
        queries = encoded(asked)
    else:
        queries = moved(file.vectors[np.sort(generator.integers(0, rows, 300))].astype(np.float32), generator)
    found = dense.top(queries, 10)
    figures["approximate_p50_ms"], figures["approximate_cpu_ms"] = p50(dense, queries[:100])
    path.with_suffix(".ann").unlink()
    dense = Dense([VectorPart(file, None)])
    true = dense.top(queries, 10)
    same = sum(len({h.number for h in a} & {h.number for h in b}) for a, b in zip(found, true, strict=True))
    figures["queries"], figures["recall@10"] = len(queries), same / sum(map(len, true))
    figures["exact_p50_ms"], figures["exact_cpu_ms"] = p50(dense, queries[:20])
    return figures


def moved(rows: Any, generator: Any) -> Any:
    """Unit rows, each moved by noise of NOISE of its length."""
    import numpy as np

    return unit(rows + NOISE * unit(generator.normal(size=rows.shape).astype(np.float32)))


def encoded(path: Path) -> Any:
    """The vectors of up to 500 real questions."""
    from subquest.retrieval.encoder import EncoderSpec, open_encoder

    with gzip.open(path, "rt", encoding="utf-8") as file:
        texts = [json.loads(line)["question"] for line in islice(file, 500)]
    return open_encoder(EncoderSpec()).encode(texts, query=True)


def p50(dense: Any, queries: Any) -> tuple[float, float]:
    """Median milliseconds of a query alone, on the clock and of CPU time."""
    times, cpus = [], []
    for query in queries:
        begin, cpu = time.perf_counter(), time.process_time()
        dense.top(query[None], 10)
        times.append(time.perf_counter() - begin)
        cpus.append(time.process_time() - cpu)
    return 1e3 * statistics.median(times[5:]), 1e3 * statistics.median(cpus[5:])


def unit(rows: Any) -> Any:
    import numpy as np

    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def real_vectors(indexes: Sequence[Path]) -> Any:
    import numpy as np

    from subquest.retrieval.vectors import VectorFile

    paths = [path for index in indexes for path in sorted(index.glob("*.vec"))]
    return np.concatenate([VectorFile(path).vectors.astype(np.float32) for path in paths])


def encoding(index: Path) -> dict[str, float]:
    """Passages a second, of wall-clock and of CPU time."""
    from subquest.retrieval import Index
    from subquest.retrieval.encoder import EncoderSpec, open_encoder

    with Index.open(index) as opened:
        texts = [f"{d.title}\n{d.text}" for d in islice(opened.documents(), 400)]
    encoder = open_encoder(EncoderSpec())
    encoder.encode(texts[:8], query=False)
    begin, cpu = time.perf_counter(), time.process_time()
    encoder.encode(texts, query=False)
    return {
        "per_s": len(texts) / (time.perf_counter() - begin),
        "per_cpu_s": len(texts) / (time.process_time() - cpu),
        "words": sum(len(text.split()) for text in texts) / len(texts),
    }


def in_own_process(phase: str, *values: str) -> dict[str, Any]:
    """One measurement in a process of its own."""
    done = subprocess.run([sys.executable, __file__, "--phase", phase, *values], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{phase} failed")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def phase(name: str, count: str, source: str, folder: str, *indexes: str) -> dict[str, Any]:
    if name == "dense":
        return phase_dense(int(count), Path(source) if source else None, Path(folder), [Path(i) for i in indexes])
    work = {"build": phase_build, "search": phase_search, "change": phase_change}[name]
    return work(int(count), Path(source), Path(folder))


def plot(sizes: Sequence[dict[str, Any]], path: Path) -> None:
    """The lexical curves as an SVG."""
    from subquest.plots import Point, Series, picture

    def line(name: str, key: str) -> Series:
        return Series(name, [Point(size["passages"], size[key]) for size in sizes])

    panels = {
        "CPU seconds, by passages": [line("build", "build_cpu"), line("add 1,000", "add_1000_cpu")],
        "megabytes, by passages": [line("lexical files", "lexical_mb"), line("resident, searching", "rss_mb")],
        "CPU milliseconds a query, by passages": [line("median", "p50_cpu_ms"), line("95 of 100 below", "p95_cpu_ms")],
    }
    path.write_text(picture("Our own index as it grows", panels, x_log=True), encoding="utf-8")


def main(argv: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="subquest bench search-scale", description=__doc__)
    parser.add_argument("--passages", default="100000", help="sizes of lexical indexes, separated by commas")
    parser.add_argument("--world", type=Path, help="a world with at least as many articles (default: one is made)")
    parser.add_argument("--vectors", default="", help="sizes of vector files, separated by commas")
    parser.add_argument("--index", type=Path, action="append", default=[], help="embedded with minilm; several times")
    parser.add_argument("--questions", type=Path, help="jsonl.gz: real questions to ask the vectors with")
    parser.add_argument("--place", action="append", default=[], help="a backend's address; several times")
    parser.add_argument("--folder", type=Path, help="where to work (default: a temporary folder)")
    parser.add_argument("--plot", type=Path, help="write the lexical curves as an SVG")
    parser.add_argument("--phase", nargs="+", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.phase:
        return phase(*args.phase)
    counts = [int(count) for count in args.passages.split(",") if count]
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="subquest-bench-", dir=args.folder) as scratch:
        world = args.world or make_world(Path(scratch) / "world", max(counts, default=0))
        for count in counts:
            folder = Path(tempfile.mkdtemp(dir=scratch))
            figures[f"lexical {count}"] = show(f"lexical {count}", lexical_size(count, world, folder))
            for place in args.place if count == counts[0] else ():
                name = f"{place.partition(':')[0]} {count}"
                figures[name] = show(name, place_size(folder / "index.sq", place, folder))
            shutil.rmtree(folder)
        if args.index:
            figures["encoding"] = show("encoding", encoding(args.index[0]))
        for count in filter(None, args.vectors.split(",")):
            found = in_own_process("dense", count, str(args.questions or ""), scratch, *map(str, args.index))
            figures[f"dense {count}"] = show(f"dense {count}", found)
    sizes = [value for name, value in figures.items() if name.startswith("lexical")]
    ratios = {}
    if len(sizes) > 1:
        grown = sizes[-1]["passages"] / sizes[0]["passages"]
        for name in ("build_cpu", "lexical_mb", "rss_mb", "p50_cpu_ms", "add_1000_cpu"):
            ratios[f"{name}, {grown:.0f} times the passages"] = round(sizes[-1][name] / sizes[0][name], 2)
        if args.plot:
            plot(sizes, args.plot)
    return {"name": "search_scale", "figures": figures, "ratios": ratios}


def make_world(folder: Path, count: int) -> Path:
    """A world of so many articles, a question for a hundred."""
    from subquest.worlds import Recipe, write_world

    if count:
        write_world(folder, Recipe(seed=1, articles=count, questions=max(1000, count // 100)), os.cpu_count() or 1)
    return folder


def show(name: str, figures: dict[str, Any]) -> dict[str, Any]:
    print(f"{name:18}", {key: round(value, 3) for key, value in figures.items()}, file=sys.stderr, flush=True)
    return figures


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
