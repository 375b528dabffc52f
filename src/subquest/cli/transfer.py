"""`subquest index export | import | copy`: an index to a file, from a file, and from one place to another."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import gzip
import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from ..english import counted
from ..errors import UsageError
from ..output_file import check_output, complete_file
from .progress import Counter

if TYPE_CHECKING:
    from ..retrieval.transfer import Source

PLACE = "an index: a folder, or postgres://..., opensearch+https://..., qdrant+https://..., lance:..."

Action = Callable[[str, str], argparse.ArgumentParser]


def configure(action: Action) -> None:
    export = action("export", "write an index as JSON lines: a corpus, or with --vectors all of it")
    export.add_argument("index", metavar="INDEX", help=PLACE)
    export.add_argument(
        "--out", default="-", metavar="FILE", help=".jsonl or .jsonl.gz, compressed (default: standard output)"
    )
    export.add_argument("--vectors", action="store_true", help="with settings and vectors")
    restore = action("import", "make an index from exported JSON lines; a killed import resumes")
    restore.add_argument("file", metavar="FILE")
    restore.add_argument("--out", required=True, metavar="INDEX", help=PLACE)
    restore.add_argument("--encoder", metavar="NAME", help="embed passages: minilm, st:MODEL or MODEL@URL")
    copying = action("copy", "copy an index from one place to another, with its vectors; a killed copy resumes")
    copying.add_argument("index", metavar="FROM", help=PLACE)
    copying.add_argument("out", metavar="TO", help=PLACE)


def export(args: argparse.Namespace) -> int:
    from ..retrieval.locations import open_place
    from ..retrieval.transfer import check_name, write

    if args.out != "-":
        check_output(Path(args.out), "json")
        check_name(Path(args.out))
    with open_place(args.index) as index, Counter("exporting", len(index)) as counter:
        if args.out == "-":
            with _standard_output() as out:
                write(index, out, plain=not args.vectors)
            return 0
        with _whole(Path(args.out)) as file:
            count = write(index, file, plain=not args.vectors, progress=counter.advance)
    words = f"{args.out}: {counted(count, 'document')}"
    print(json.dumps({"file": args.out, "documents": count}) if args.json else words)
    return 0


@contextlib.contextmanager
def _standard_output() -> Iterator[IO[str]]:
    """Standard output in UTF-8, whatever the terminal uses: it is a file to be read back."""
    before = sys.stdout.encoding
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    try:
        yield sys.stdout
    finally:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding=before)


@contextlib.contextmanager
def _whole(path: Path) -> Iterator[IO[str]]:
    """A file that gets its name when it is complete."""
    with (
        complete_file(path) as scratch,
        open(scratch, "wb") as raw,
        gzip.open(raw, "wb") if path.suffix.lower() == ".gz" else raw as inner,
        io.TextIOWrapper(cast("IO[bytes]", inner), encoding="utf-8") as file,
    ):
        yield file


def restore(args: argparse.Namespace) -> int:
    from ..retrieval.encoder import parse
    from ..retrieval.locations import is_backend
    from ..retrieval.transfer import PortableFile

    file = PortableFile(args.file)
    if args.encoder and (is_backend(args.out) or file.settings.encoder):
        raise UsageError("--encoder is for an index in a folder whose passages come without vectors")
    if args.encoder:
        file.settings = dataclasses.replace(file.settings, encoder=parse(args.encoder))
    return _copy(args, file, None)


def copy(args: argparse.Namespace) -> int:
    from ..retrieval.locations import open_place

    if args.index == args.out:
        raise UsageError("an index cannot be copied to itself")
    with open_place(args.index) as source:
        return _copy(args, source, len(source))


def _copy(args: argparse.Namespace, source: Source, total: int | None) -> int:
    from ..retrieval.locations import create_place, shown
    from ..retrieval.transfer import copy as copy_all

    with create_place(args.out, source.settings) as target, Counter("copying", total) as counter:
        changes = copy_all(source, target, progress=counter.advance)
        place, count = shown(args.out, target), len(target)
    found = {"added": changes.added, "updated": changes.updated, "unchanged": changes.unchanged}
    words = f"{place}: {counted(count, 'document')} ({changes.added:,} added, {changes.unchanged:,} unchanged)"
    print(json.dumps({"index": place, "documents": count, **found}) if args.json else words)
    return 0
