"""`subquest index`: build and maintain a search index."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..english import counted
from ..errors import UsageError
from . import transfer
from .progress import Counter, IngestProgress
from .terminal import json_text, printable

if TYPE_CHECKING:
    from ..retrieval.embedding import Encode
    from ..retrieval.index import Index
    from ..retrieval.ingest import Report
    from ..retrieval.splitter import Size
    from ..retrieval.writer import Progress

_SOURCE = "files, folders or patterns: PDF, DOCX, PPTX, XLSX, HTML, Markdown, text, CSV, JSONL, TSV, ZIP, each also .gz"
_SHOWN = 100
"""Problems that are printed one by one."""
_ENCODER = "also embed passages: minilm, st:MODEL (sentence-transformers) or MODEL@URL (/v1/embeddings)"


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    def action(name: str, about: str) -> argparse.ArgumentParser:
        made = actions.add_parser(name, help=about, description=about[0].upper() + about[1:] + ".")
        made.add_argument("--json", action="store_true", help="print one JSON document")
        return made

    build = action("build", "make an index, or bring one up to date; a killed build resumes")
    build.add_argument("source", nargs="+", metavar="SRC", help=_SOURCE)
    build.add_argument("--out", required=True, metavar="INDEX", help="folder of the index, such as docs.sq")
    build.add_argument("--language", default="english", choices=["english", "any"], help="how text becomes terms")
    build.add_argument("--encoder", metavar="NAME", help=_ENCODER)
    _configure_ingestion(build)
    build.add_argument("--k1", type=float, help="BM25: how soon repetitions stop counting (default 1.2)")
    build.add_argument("--b", type=float, help="BM25: how much long documents are penalised (default 0.75)")
    add = action("add", "add documents, or new versions of documents")
    add.add_argument("index", metavar="INDEX")
    add.add_argument("source", nargs="*", metavar="SRC", help=_SOURCE)
    add.add_argument("--out", metavar="INDEX", help="the index, named as for build; all other arguments are SRC then")
    _configure_ingestion(add)
    remove = action("remove", "remove documents by id")
    remove.add_argument("index", metavar="INDEX")
    remove.add_argument("id", nargs="+", metavar="ID")
    embed = action("embed", "embed the passages that have no vector; a killed run resumes")
    embed.add_argument("index", metavar="INDEX")
    embed.add_argument("--encoder", default="minilm", metavar="NAME", help=_ENCODER)
    embed.add_argument("--ray", metavar="ADDRESS", help="encode on a Ray cluster; `local` starts one here")
    embed.add_argument("--workers", type=int, metavar="N", help="with --ray: number of workers (default: one per node)")
    for name, about in (
        ("info", "counts, sizes, encoder and settings"),
        ("verify", "check every file against the store; status 1 when something is wrong"),
        ("compact", "merge segments, repair them, and free the space of what was removed"),
    ):
        action(name, about).add_argument("index", metavar="INDEX")
    transfer.configure(action)


def _configure_ingestion(parser: argparse.ArgumentParser) -> None:
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--words", type=int, metavar="N", help="split files into passages of about N words (default 100)")
    size.add_argument("--tokens", type=int, metavar="N", help="... of about N tokens of a language model (estimated)")
    parser.add_argument("--prune", action="store_true", help="remove what came from files that no longer exist")
    parser.add_argument("--ocr", action="store_true", help="read scanned pages and images too (slow; extra media)")
    parser.add_argument(
        "--on-error",
        choices=["skip", "stop"],
        default="skip",
        help="a broken file, line or archive member: report it and continue, or stop (default skip)",
    )
    parser.add_argument("--strict", action="store_true", help="status 1 if anything was skipped")
    parser.add_argument("--jobs", type=int, metavar="N", help="processes that read files (default: up to 4)")


def run(args: argparse.Namespace) -> int:
    actions: dict[str, Callable[[argparse.Namespace], int]] = {
        "build": _build,
        "add": _add,
        "remove": _remove,
        "embed": _embed,
        "info": _info,
        "verify": _verify,
        "compact": _compact,
        "export": transfer.export,
        "import": transfer.restore,
        "copy": transfer.copy,
    }
    return actions[args.action](args)


@contextmanager
def _progress(what: str, total: int | None = None) -> Iterator[Progress]:
    """A progress line with the rate and, where the total is known, the time left; nothing without a terminal."""
    with Counter(what, total) as counter:
        yield counter.advance


def _print_result(args: argparse.Namespace, result: dict[str, Any], words: str) -> None:
    print(json_text(result) if args.json else words)


def _ingest(args: argparse.Namespace, index: Index) -> Report:
    from ..retrieval.ingest import Problem, ingest

    progress = IngestProgress()
    problems = 0

    def show(found: Problem) -> None:
        nonlocal problems
        problems += 1
        if problems <= _SHOWN:
            progress.clear()
            print(f"skipped: {printable(str(found))}", file=sys.stderr)

    try:
        return ingest(
            index,
            args.source,
            size=_size(args),
            ocr=args.ocr,
            prune=args.prune,
            on_error=args.on_error,
            jobs=args.jobs,
            progress=progress,
            on_problem=show,
        )
    finally:
        progress.clear()
        if problems > _SHOWN:
            print(f"skipped: {problems - _SHOWN:,} more", file=sys.stderr)


def _size(args: argparse.Namespace) -> Size | None:
    from ..retrieval.splitter import Size

    if args.jobs is not None and args.jobs < 1:
        raise UsageError(f"--jobs {args.jobs}: use at least 1 process")
    if args.tokens is not None:
        return Size(args.tokens, "tokens")
    return None if args.words is None else Size(args.words)


def _ingested(args: argparse.Namespace, index: Index, report: Report) -> int:
    """Print what was done; returns the exit status."""
    from ..retrieval.ingest.sources import OLD_OFFICE, PICTURES

    for note in report.notes:
        print(f"note: {printable(str(note))}", file=sys.stderr)
    if report.doubles:
        some = ", ".join(map(repr, report.doubles[:3]))
        print(f"note: ids that several documents have, of which the last counts: {some}", file=sys.stderr)
    if gone := report.files_gone:
        some = ", ".join(map(repr, gone[:3])) + (", …" if len(gone) > 3 else "")
        kept = "a file that no longer exists is" if len(gone) == 1 else f"{len(gone):,} files that no longer exist are"
        print(f"note: {kept} still found ({printable(some)}); --prune removes what is gone", file=sys.stderr)
    if report.passed_over:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in report.passed_over.most_common(8))
        unread = {kind[1:] for kind in report.passed_over}
        pictures = "; --ocr reads the text in images" if unread & PICTURES else ""
        old = "; save old Office files as DOCX, XLSX, PPTX or PDF" if unread & OLD_OFFICE else ""
        print(f"not read: {kinds}{pictures}{old}", file=sys.stderr)
    counts = {name: getattr(report, name) for name in ("added", "updated", "unchanged", "removed")}
    result = {
        "index": str(index.path),
        "documents": len(index),
        **counts,
        "files": report.files,
        "files_unchanged": report.files_unchanged,
        "files_removed": report.files_removed,
        "files_gone": report.files_gone,
        "broken_files": report.broken,
        "skipped": report.skipped,
        "problems": [found._asdict() for found in report.problems],
        "notes": [found._asdict() for found in report.notes],
        "doubles": report.doubles,
        "passed_over": dict(report.passed_over),
        "bytes": report.bytes,
        "seconds": round(report.seconds, 3),
    }
    changed = ", ".join(f"{n:,} {what}" for what, n in counts.items() if n)
    words = f"{index.path}: {counted(len(index), 'document')} ({changed})"
    words = words.replace(" ()", "") + f"\n{counted(report.files, 'file')} read, {report.files_unchanged:,} unchanged"
    if report.files_removed:
        words += f", {len(report.files_removed):,} removed"
    if report.broken:
        words += f", {report.broken:,} broken"
    size, seconds = report.bytes / 1e6, max(report.seconds, 1e-9)
    words += f"; {size:,.1f} MB at {size / seconds:,.1f} MB/s" if size >= 1 else ""
    words += f"; {seconds:,.1f} s"
    _print_result(args, result, words)
    nothing = not len(index) or not (report.files or report.files_unchanged)
    return 1 if report.skipped and (args.strict or nothing) else 0


def _build(args: argparse.Namespace) -> int:
    from ..retrieval import BM25, Index
    from ..retrieval.encoder import parse
    from ..retrieval.ingest.sources import check_sources

    default = BM25()
    bm25 = BM25(default.k1 if args.k1 is None else args.k1, default.b if args.b is None else args.b)
    if args.encoder:
        parse(args.encoder)
    _size(args)
    check_sources(args.source)
    with Index.build(args.out, [], language=args.language, bm25=bm25) as index:
        report = _ingest(args, index)
        if args.encoder:
            _embed_all(index, args.encoder)
        return _ingested(args, index, report)


def _add(args: argparse.Namespace) -> int:
    from ..retrieval import Index
    from ..retrieval.ingest.sources import check_sources

    if args.out is not None:
        args.index, args.source = args.out, [args.index, *args.source]
    if not args.source:
        raise UsageError(f"name what to add to {args.index}: subquest index add INDEX SRC...")
    _size(args)
    check_sources(args.source)
    with Index.open(args.index) as index:
        return _ingested(args, index, _ingest(args, index))


def _remove(args: argparse.Namespace) -> int:
    from ..retrieval.locations import open_place, shown

    with open_place(args.index) as index:
        removed = index.remove(args.id)
        place = shown(args.index, index)
        words = f"{place}: {removed} of {len(args.id)} removed, {counted(len(index), 'document')} left"
        _print_result(args, {"index": place, "removed": removed, "documents": len(index)}, words)
    return 0 if removed else 1


def _embed_all(index: Index, encoder: str, through: Encode | None = None) -> int:
    info = index.info()
    with _progress("embedding", info.documents - info.vectors) as progress:
        return index.embed(encoder, progress=progress, through=through)


def _embed(args: argparse.Namespace) -> int:
    from ..retrieval import Index

    if args.workers is not None and (not args.ray or args.workers < 1):
        raise UsageError("--workers N needs --ray ADDRESS, and N of at least 1")
    with Index.open(args.index) as index, ExitStack() as stack:
        through = None
        if args.ray:
            from ..retrieval.ray_encoders import RayEncoders

            through = stack.enter_context(RayEncoders(args.ray, args.encoder, workers=args.workers))
        done = _embed_all(index, args.encoder, through)
        _print_result(
            args, {"index": str(index.path), "embedded": done}, f"{index.path}: {counted(done, 'passage')} embedded"
        )
    return 0


def _info(args: argparse.Namespace) -> int:
    import dataclasses

    from ..retrieval.inspection import info
    from ..retrieval.locations import is_backend, open_place

    if is_backend(args.index):
        with open_place(args.index) as opened:
            found = {"path": opened.name, "documents": len(opened), **opened.settings.to_record()}
    else:
        found = dataclasses.asdict(info(Path(args.index)))
    lines = "\n".join(f"{name.replace('_', ' '):14} {_shown(value)}" for name, value in found.items())
    _print_result(args, found, lines)
    return 0


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {inner}" for key, inner in value.items() if inner != "")
    return f"{value:,}" if isinstance(value, int) else "none" if value is None else str(value)


def _verify(args: argparse.Namespace) -> int:
    from ..retrieval.store import STORE
    from ..retrieval.verification import unverified, verify

    _refuse_backend(args)
    problems = verify(Path(args.index))
    older = 0 if problems else unverified(Path(args.index))
    words = "\n".join(problems) if problems else f"{args.index} is sound"
    compact = f"subquest index compact {shlex.quote(args.index)}"
    if any(problem.startswith(STORE) for problem in problems):
        words += "\nThe store itself is damaged: rebuild the index from its source, or restore a copy"
    elif problems:
        words += f"\nThe documents are safe in the store; rebuild the rest with: {compact}"
    elif older:
        words += (
            f"\nAn older version stored {counted(older, 'document')}, without checksums: whether text and vectors are "
            f"what was written cannot be verified. Add checksums with: {compact}"
        )
    found = {"index": args.index, "sound": not problems, "problems": problems, "unverified": older}
    _print_result(args, found, words)
    return 1 if problems else 0


def _compact(args: argparse.Namespace) -> int:
    from ..retrieval.inspection import info
    from ..retrieval.verification import verify
    from ..retrieval.writer import Writer

    _refuse_backend(args)
    folder = Path(args.index)
    with _progress("compacting", info(folder).documents) as progress, Writer.open(folder) as writer:
        if verify(folder):
            writer.rebuild(progress)
        writer.compact(progress)
    found = info(folder)
    segments = counted(found.segments, "segment")
    words = f"{folder}: {counted(found.documents, 'document')} in {segments}, {found.bytes / 1e6:.1f} MB"
    counts = {"documents": found.documents, "segments": found.segments, "bytes": found.bytes}
    _print_result(args, {"index": args.index, **counts}, words)
    return 0


def _refuse_backend(args: argparse.Namespace) -> None:
    from ..retrieval.locations import is_backend

    if is_backend(args.index):
        raise UsageError(f"index {args.action} is for an index in a folder; a backend manages its own files")
