"""What commands share in which a model writes a set: their options, and how its engine is used."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import UsageError

if TYPE_CHECKING:
    from ..engine.interface import Engine

T = TypeVar("T")


def add_writer_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--minutes", type=float, help="stop writing after this time; default: when all is written")
    parser.add_argument("--concurrency", type=int, default=64, help="calls to the model at once (default 64)")


def add_set_options(parser: argparse.ArgumentParser, *, count: int, of: str, dev: float) -> None:
    """Those of a set with train/ and dev/, besides --out and --seed."""
    parser.add_argument("--model", help="who writes, as in ask --model; without it, only what is written is rendered")
    parser.add_argument("--count", type=int, default=count, help=f"number of {of} (default {count})")
    parser.add_argument(
        "--dev", type=float, default=dev, metavar="SHARE", help=f"share that goes to dev/ (default {dev:g})"
    )
    add_writer_options(parser)
    parser.add_argument("--json", action="store_true", help="print the report as one JSON document")


def check_writer_options(args: argparse.Namespace) -> None:
    if args.concurrency < 1:
        raise UsageError("--concurrency must be at least 1")
    if args.minutes is not None and not args.minutes > 0:
        raise UsageError("--minutes must be above 0")


def check_set_options(args: argparse.Namespace) -> None:
    check_writer_options(args)
    if args.count < 1:
        raise UsageError("--count must be at least 1")
    if not 0 <= args.dev <= 0.5:
        raise UsageError("--dev is a share from 0 to 0.5")
    if args.out.exists() and not args.out.is_dir():
        raise UsageError(f"{args.out} is not a folder; choose another name")


def open_writer(args: argparse.Namespace) -> Engine:
    from ..assemble import open_engine
    from ..assemble.engines import EngineOptions

    return open_engine(args.model, EngineOptions(concurrency=args.concurrency), part="writer")


def seconds_of(args: argparse.Namespace) -> float | None:
    return None if args.minutes is None else args.minutes * 60


def finish(work: Coroutine[Any, Any, T], engine: Engine) -> T:
    """The result of work with an engine, which is closed afterwards."""

    async def closing() -> T:
        try:
            return await work
        finally:
            await engine.close()

    return asyncio.run(closing())


@contextmanager
def show_count(of: str) -> Iterator[Callable[[int], None]]:
    """A function that shows how many are written, in a line that is rewritten."""
    try:
        yield lambda count: print(f"\r{count} {of}", end="", file=sys.stderr, flush=True)
    finally:
        print(file=sys.stderr)


def print_counts(report: dict[str, Any], *names: str) -> None:
    """The tables of a report: how many of what were kept, refused or left out."""
    for name in names:
        for what, count in sorted(report[name].items()):
            print(f"{name.replace('_', ' '):<9}{count:>7}  {what}")
