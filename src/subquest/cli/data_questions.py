"""`subquest data questions`: a model writes questions about the passages of a collection."""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError

if TYPE_CHECKING:
    from ..engine.interface import Engine
    from ..question_writing.writing import Written
    from ..retrieval.index import Index

COLLECTION = "docs.sq"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source", nargs="*", metavar="SRC", help="files, folders, patterns or corpora, as in index build"
    )
    parser.add_argument("--index", metavar="INDEX", help="an index instead of SRC")
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="where train/ and dev/ go; a stopped run continues here",
    )
    parser.add_argument("--model", help="who writes, as in ask --model; without it, only what is written is rendered")
    parser.add_argument("--count", type=int, default=200, help="number of questions (default 200)")
    parser.add_argument("--seed", type=int, default=0, help="which passages are asked about first (default 0)")
    parser.add_argument(
        "--dev", type=float, default=0.1, metavar="SHARE", help="share of the passages for dev/ (default 0.1)"
    )
    parser.add_argument(
        "--agree",
        type=int,
        default=1,
        choices=(0, 1, 2),
        help="how often of two times the model must answer a question rightly from what a search finds (default 1)",
    )
    parser.add_argument(
        "--keep-unfound",
        action="store_true",
        help="keep questions whose passage is not among the first ten of a search",
    )
    parser.add_argument("--minutes", type=float, help="stop writing after this time; default: when all are written")
    parser.add_argument("--concurrency", type=int, default=64, help="calls to the model at once (default 64)")
    parser.add_argument("--json", action="store_true", help="print the report as one JSON document")


def run(args: argparse.Namespace) -> int:
    from ..data.journal import read_journal
    from ..question_writing.dataset import write_dataset
    from ..question_writing.writing import JOURNAL, Written, totals

    for name in ("count", "concurrency"):
        if getattr(args, name) < 1:
            raise UsageError(f"--{name} must be at least 1")
    if not 0 <= args.dev <= 0.5:
        raise UsageError("--dev is a share from 0 to 0.5")
    if args.minutes is not None and not args.minutes > 0:
        raise UsageError("--minutes must be above 0")
    if args.out.exists() and not args.out.is_dir():
        raise UsageError(f"{args.out} is not a folder; choose another name")
    if (args.index or args.source) and not args.model and not (args.out / JOURNAL).exists():
        raise UsageError(f"{args.out} has no questions yet; name a --model that writes some")
    engine = _open_engine(args) if args.model else None  # a model that is not there is refused before files are read
    with _nothing_left_of_a_refusal(args.out), _collection(args) as index:
        if engine is not None:
            written = asyncio.run(_write(args, engine, index))
        else:
            written = list(read_journal(args.out / JOURNAL, Written))
        if not any(one.questions for one in written):
            reasons = ", ".join(f"{reason} ({n})" for reason, n in totals(written)[1].most_common(3))
            raise UsageError(
                f"{args.out / JOURNAL} has no question; "
                + (f"refused: {reasons}; " if reasons else "")
                + ("try a larger model, or more --minutes" if args.model else "name a --model that writes some")
            )
        made = write_dataset(written, index, args.out, args.count, args.dev)
    kept, refused = totals(written)
    report: dict[str, Any] = {
        "passages": len(written),
        "kept": dict(kept),
        "refused": dict(refused),
        "left_out": dict(made.left_out),
    }
    for split, count in made.passages.items():
        report[split] = {"questions": len(made.questions[split]), "passages": count}
        print(f"{args.out / split}: {len(made.questions[split])} questions, {count} passages", file=sys.stderr)
    if args.json:
        print(json.dumps(report))
        return 0
    for what in ("kept", "refused", "left_out"):
        for name, count in sorted(report[what].items()):
            print(f"{what.replace('_', ' '):<9}{count:>7}  {name}")
    return 0


@contextmanager
def _collection(args: argparse.Namespace) -> Iterator[Index]:
    """The index that was named, or one of the sources, kept in the folder."""
    from ..retrieval.index import Index
    from ..retrieval.ingest import ingest

    own = args.out / COLLECTION
    if args.index and args.source:
        raise UsageError("give SRC or --index, not both")
    if args.index:
        with Index.open(args.index) as index:
            yield index
    elif args.source:
        args.out.mkdir(parents=True, exist_ok=True)
        with Index.build(own, []) as index:
            for problem in ingest(index, args.source, prune=len(index) > 0).problems:
                print(f"skipped: {problem}", file=sys.stderr)
            yield index
    elif own.exists():
        with Index.open(own) as index:
            yield index
    else:
        raise UsageError("name the documents to ask about: files or folders, or --index INDEX")


@contextmanager
def _nothing_left_of_a_refusal(out: Path) -> Iterator[None]:
    """Removes the folders that were made for a run that was refused before anything was written down."""
    from ..question_writing.writing import JOURNAL

    made = next((folder for folder in (*reversed(out.parents), out) if not folder.exists()), None)
    try:
        yield
    except UsageError:
        if made is not None and not (out / JOURNAL).exists():
            shutil.rmtree(made, ignore_errors=True)
        raise


def _open_engine(args: argparse.Namespace) -> Engine:
    from ..assemble import open_engine
    from ..assemble.engines import EngineOptions

    return open_engine(args.model, EngineOptions(concurrency=args.concurrency), part="writer")


async def _write(args: argparse.Namespace, engine: Engine, index: Index) -> list[Written]:
    from ..question_writing.writing import Writer, write_questions

    writer = Writer(
        engine, index, seed=args.seed, concurrency=args.concurrency, agree=args.agree, unfound=args.keep_unfound
    )
    try:
        return await write_questions(
            writer,
            index,
            args.out,
            args.count,
            seed=args.seed,
            workers=args.concurrency,
            seconds=None if args.minutes is None else args.minutes * 60,
            progress=lambda n: print(f"\r{n} questions", end="", file=sys.stderr, flush=True),
        )
    finally:
        print(file=sys.stderr)
        await engine.close()
