"""How search grows: build, disk, memory, latency and additions at several sizes, lexical and dense.

    subquest bench search_scale --passages 100000,1000000,3000000 --vectors 200000,1000000 --index EMBEDDED.sq

The passages are Zipf text of about 100 words, as in `subquest bench search`; each phase runs in a process of its own.
The vectors are made, not encoded: real ones (of the index that `--index` names, embedded with minilm) each moved by
noise of a third of its length, so that they lie as unevenly as real ones do. Encoding is measured on passages of that
index. With `--place URL` the first index is copied to that backend (an empty collection) and searched there too.
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
from itertools import islice
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parent))
import search as lexical

NOISE = 0.33
WIDTH = 384


def lexical_size(passages: int, folder: Path) -> dict[str, Any]:
    """One index of so many passages, from text to answers."""
    lexical.make_corpus(folder, passages, 1000, 0)
    figures: dict[str, Any] = {"passages": passages}
    for phase in ("build", "search", "add"):
        figures.update(lexical.run_phase(sys.executable, phase, "subquest", folder))
        figures.pop("found", None)
    return figures


def place_size(index: Path, place: str, folder: Path) -> dict[str, Any]:
    """A copy of an index in a backend: how fast it goes in, how fast it answers, whether the answers are the same."""
    from subquest.retrieval import Index
    from subquest.retrieval.places import create_place
    from subquest.retrieval.portable import copy

    queries = [" ".join(query) for query in lexical.read_queries(folder)[:50]]
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


def dense_size(rows: int, folder: Path, index: Path | None) -> dict[str, Any]:
    """One vector file of so many rows with its approximate companion."""
    import numpy as np

    from subquest.retrieval import ann
    from subquest.retrieval.dense import Dense, VectorFile, VectorPart, write_vectors

    generator = np.random.default_rng(0)
    centres = real_vectors(index) if index else unit(generator.normal(size=(20_000, WIDTH)).astype(np.float32))
    path = folder / "rows.vec"

    def made() -> Any:
        for start in range(0, rows, 50_000):
            count = min(50_000, rows - start)
            chosen = centres[generator.integers(0, len(centres), count)]
            noise = unit(generator.normal(size=chosen.shape).astype(np.float32))
            yield from (row.tobytes() for row in unit(chosen + NOISE * noise).astype(np.float16))

    write_vectors(path, range(1, rows + 1), made(), WIDTH)
    begin, cpu = time.perf_counter(), lexical.cpu_seconds()
    recall = ann.build(VectorFile(path), path.with_suffix(".ann"))
    figures = {
        "rows": rows,
        "build_seconds": time.perf_counter() - begin,
        "build_cpu": lexical.cpu_seconds() - cpu,
        "build_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        "vectors_mb": path.stat().st_size / 1e6,
        "companion_mb": path.with_suffix(".ann").stat().st_size / 1e6,
        "recall@10": recall,
    }
    file = VectorFile(path)
    dense = Dense([VectorPart(file, None)])
    picked = generator.integers(0, rows, 60)
    queries = unit(file.vectors[np.sort(picked)].astype(np.float32) + NOISE * unit(generator.normal(size=(60, WIDTH))))
    figures["approximate_p50_ms"] = p50(dense, queries.astype(np.float32))
    file.approximate = None
    figures["exact_p50_ms"] = p50(dense, queries[:15].astype(np.float32))
    return figures


def p50(dense: Any, queries: Any) -> float:
    taken = []
    for query in queries:
        begin = time.perf_counter()
        dense.top(query[None], 10)
        taken.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(taken[5:])


def unit(rows: Any) -> Any:
    import numpy as np

    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def real_vectors(index: Path) -> Any:
    import numpy as np

    from subquest.retrieval.dense import VectorFile

    return np.concatenate([VectorFile(path).vectors.astype(np.float32) for path in sorted(index.glob("*.vec"))])


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


def apart(what: str, *values: str) -> dict[str, Any]:
    """One measurement in a process of its own."""
    command = [sys.executable, __file__, "--only", what, *values]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{what} failed")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main(argv: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="subquest bench search_scale", description=__doc__)
    parser.add_argument("--passages", default="100000", help="sizes of lexical indexes, separated by commas")
    parser.add_argument("--vectors", default="", help="sizes of vector files, separated by commas")
    parser.add_argument("--index", type=Path, help="an index embedded with minilm: where vectors come from")
    parser.add_argument("--place", action="append", default=[], help="a backend's address; several times")
    parser.add_argument("--folder", type=Path, help="where to work (default: a temporary folder)")
    parser.add_argument("--only", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.only:
        _, count, index = args.only
        with tempfile.TemporaryDirectory(prefix="subquest-bench-") as scratch:
            return dense_size(int(count), Path(scratch), Path(index) if index else None)
    figures: dict[str, Any] = {}
    for count in filter(None, args.passages.split(",")):
        folder = Path(tempfile.mkdtemp(prefix="subquest-bench-", dir=args.folder))
        try:
            figures[f"lexical {count}"] = show(f"lexical {count}", lexical_size(int(count), folder))
            for place in args.place if len(figures) == 1 else ():
                name = f"{place.partition(':')[0]} {count}"
                figures[name] = show(name, place_size(folder / "subquest.index", place, folder))
        finally:
            shutil.rmtree(folder)
    if args.index:
        figures["encoding"] = show("encoding", encoding(args.index))
    for count in filter(None, args.vectors.split(",")):
        found = apart("dense", count, str(args.index or ""))
        figures[f"dense {count}"] = show(f"dense {count}", found)
    sizes = [value for name, value in figures.items() if name.startswith("lexical")]
    ratios = {}
    if len(sizes) > 1:
        grown = sizes[-1]["passages"] / sizes[0]["passages"]
        for name in ("build_cpu", "disk_lexical_mb", "rss_mb", "p50_ms", "add_1000_seconds"):
            ratios[f"{name}, {grown:.0f} times the passages"] = round(sizes[-1][name] / sizes[0][name], 2)
    return {"name": "search_scale", "figures": figures, "ratios": ratios}


def show(name: str, figures: dict[str, Any]) -> dict[str, Any]:
    print(f"{name:18}", {key: round(value, 3) for key, value in figures.items()}, file=sys.stderr, flush=True)
    return figures


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
