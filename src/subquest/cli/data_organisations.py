"""`subquest data organisations`: a model writes the papers of invented organisations, with questions about them."""

from __future__ import annotations

import argparse
import json
import sys
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
    from ..paperwork.writing import Written


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "out", metavar="FOLDER", type=Path, help="where train/ and dev/ go; a stopped run continues here"
    )
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same facts (default 0)")
    parser.add_argument("--journal-only", action="store_true", help="write, and leave rendering to a later call")
    add_set_options(parser, count=100, of="organisations", dev=0.05)


def run(args: argparse.Namespace) -> int:
    from ..data.journal import read_journal
    from ..paperwork.dataset import write_split
    from ..paperwork.writing import JOURNAL, Written, totals

    check_set_options(args)
    if args.model:
        written = _write(args)
    else:
        written = [one for one in read_journal(args.out / JOURNAL, Written) if one.organisation.number < args.count]
    if not written:
        raise UsageError(
            f"{args.out / JOURNAL} has no finished organisation; "
            + ("give it more --minutes" if args.model else "name a --model that writes some")
        )
    every = round(1 / args.dev) if args.dev else 0
    splits: dict[str, list[Written]] = {"train": [], "dev": []}
    for one in written:
        splits["dev" if every and one.organisation.number % every == every - 1 else "train"].append(one)
    if args.journal_only:
        splits = {}
    kept, refused = totals(written)
    report: dict[str, Any] = {"organisations": len(written), "kept": dict(kept), "refused": dict(refused)}
    for split, some in splits.items():
        if some:
            made = write_split(some, args.out / split, split)
            found = {
                "questions": len(made.questions),
                "passages": len(made.passages),
                "added": dict(made.added),
                "left_out": dict(made.left_out),
            }
            report[split] = found
            counts = f"{counted(len(made.questions), 'question')}, {counted(len(made.passages), 'passage')}"
            print(f"{args.out / split}: {counts}", file=sys.stderr)
    if args.json:
        print(json.dumps(report))
    else:
        print_counts(report, "kept", "refused")
    return 0


def _write(args: argparse.Namespace) -> list[Written]:
    from ..paperwork.writing import write_organisations

    engine = open_writer(args)
    with show_count("organisations") as progress:
        work = write_organisations(
            engine,
            args.out,
            args.count,
            seed=args.seed,
            concurrency=args.concurrency,
            seconds=seconds_of(args),
            progress=progress,
        )
        return finish(work, engine)
