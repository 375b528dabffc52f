"""`subquest data questions`: a model writes questions about the passages of a collection."""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..english import counted
from ..errors import UsageError
from .writer_options import (
    add_set_options,
    check_set_options,
    finish,
    open_writer,
    print_counts,
    seconds_of,
    show_count,
)

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
    parser.add_argument("--seed", type=int, default=0, help="which passages are asked about first (default 0)")
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
    parser.add_argument(
        "--reword",
        action="store_true",
        help="put questions otherwise as well: with few words of their passages, after a situation, and two together "
        "(besides --count)",
    )
    add_set_options(parser, count=200, of="questions", dev=0.1)


def run(args: argparse.Namespace) -> int:
    from ..data.journal import read_journal
    from ..question_writing.dataset import write_dataset
    from ..question_writing.rewording import with_reworded
    from ..question_writing.writing import JOURNAL, Written, totals

    check_set_options(args)
    if args.reword and not args.model:
        raise UsageError("--reword needs a --model that puts the questions otherwise")
    if (args.index or args.source) and not args.model and not (args.out / JOURNAL).exists():
        raise UsageError(f"{args.out} has no questions yet; name a --model that writes some")
    engine = open_writer(args) if args.model else None  # a model that is not there is refused before files are read
    with _nothing_left_of_a_refusal(args.out), _collection(args) as index:
        if engine is not None:
            written = _write(args, engine, index)
        else:
            written = list(read_journal(args.out / JOURNAL, Written))
        if not any(one.questions for one in written):
            reasons = ", ".join(f"{reason} ({n})" for reason, n in totals(written)[1].most_common(3))
            raise UsageError(
                f"{args.out / JOURNAL} has no question; "
                + (f"refused: {reasons}; " if reasons else "")
                + ("try a larger model, or more --minutes" if args.model else "name a --model that writes some")
            )
        written = with_reworded(written, args.out)
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
        print(
            f"{args.out / split}: {counted(len(made.questions[split]), 'question')}, {counted(count, 'passage')}",
            file=sys.stderr,
        )
    if args.json:
        print(json.dumps(report))
    else:
        print_counts(report, "kept", "refused", "left_out")
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


def _write(args: argparse.Namespace, engine: Engine, index: Index) -> list[Written]:
    from ..question_writing.rewording import Rewriter, reword_questions
    from ..question_writing.writing import Writer, write_questions

    kind = Rewriter if args.reword else Writer
    writer = kind(
        engine, index, seed=args.seed, concurrency=args.concurrency, agree=args.agree, unfound=args.keep_unfound
    )
    until = time.monotonic() + (seconds_of(args) or math.inf)

    async def work(progress: Callable[[int], None]) -> list[Written]:
        written = await write_questions(
            writer,
            index,
            args.out,
            args.count,
            seed=args.seed,
            workers=args.concurrency,
            seconds=seconds_of(args),
            progress=progress,
        )
        if isinstance(writer, Rewriter):
            left = None if until == math.inf else max(0.0, until - time.monotonic())
            await reword_questions(writer, written, args.out, workers=args.concurrency, seconds=left, progress=progress)
        return written

    with show_count("questions") as progress:
        return finish(work(progress), engine)
