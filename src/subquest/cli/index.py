"""`subquest index`: build and maintain a search index."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .terminal import Counter

if TYPE_CHECKING:
    from ..retrieval.index import Index
    from ..retrieval.writer import Changes, Progress

_SOURCE = "files, folders or patterns: .jsonl, .tsv, .txt, .md, each also as .gz"
_ENCODER = "give passages vectors too: minilm, st:MODEL (sentence-transformers) or MODEL@URL (/v1/embeddings)"


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
    build.add_argument("--k1", type=float, help="BM25: how soon repetitions stop counting (default 1.2)")
    build.add_argument("--b", type=float, help="BM25: how much long documents pay (default 0.75)")
    add = action("add", "add documents, or new versions of documents")
    add.add_argument("index", metavar="INDEX")
    add.add_argument("source", nargs="+", metavar="SRC", help=_SOURCE)
    remove = action("remove", "remove documents by id")
    remove.add_argument("index", metavar="INDEX")
    remove.add_argument("id", nargs="+", metavar="ID")
    embed = action("embed", "give passages that have none a vector; a killed run resumes")
    embed.add_argument("index", metavar="INDEX")
    embed.add_argument("--encoder", default="minilm", metavar="NAME", help=_ENCODER)
    for name, about in (
        ("info", "counts, sizes, encoder and settings"),
        ("verify", "check every file against the store; status 1 when something is wrong"),
        ("compact", "merge segments, repair them, and give back the space of what was removed"),
    ):
        action(name, about).add_argument("index", metavar="INDEX")
    export = action("export", "write the documents as a JSONL corpus")
    export.add_argument("index", metavar="INDEX")
    export.add_argument(
        "--out", default="-", metavar="FILE", help="where to; .gz compresses (default: standard output)"
    )
    restore = action("import", "make an index from an exported JSONL corpus")
    restore.add_argument("file", metavar="FILE")
    restore.add_argument("--out", required=True, metavar="INDEX")
    restore.add_argument("--encoder", metavar="NAME", help=_ENCODER)


def run(args: argparse.Namespace) -> int:
    actions: dict[str, Callable[[argparse.Namespace], int]] = {
        "build": _build,
        "add": _add,
        "remove": _remove,
        "embed": _embed,
        "info": _info,
        "verify": _verify,
        "compact": _compact,
        "export": _export,
        "import": _import,
    }
    return actions[args.action](args)


@contextmanager
def _progress(what: str, total: int | None = None) -> Iterator[Progress]:
    """A line with rate and, where the total is known, time left; nothing where stderr is not a terminal."""
    with Counter(what, total) as counter:
        yield counter.advance


def _say(args: argparse.Namespace, result: dict[str, Any], words: str) -> None:
    print(json.dumps(result, ensure_ascii=False) if args.json else words)


def _complain(line: str) -> None:
    print(f"skipped: {line}", file=sys.stderr)


class _Broken:
    """Counts and reports the files that could not be read."""

    def __init__(self) -> None:
        self.files = 0

    def __call__(self, line: str) -> None:
        self.files += 1
        _complain(line)


def _changed(args: argparse.Namespace, index: Index, changes: Changes, broken: int) -> int:
    result = {
        "index": str(index.path),
        "documents": len(index),
        "added": changes.added,
        "updated": changes.updated,
        "unchanged": changes.unchanged,
        "broken_files": broken,
    }
    words = f"{index.path}: {len(index):,} documents ({changes.added:,} added, {changes.updated:,} updated, "
    _say(args, result, words + f"{changes.unchanged:,} unchanged)" + (f", {broken} files skipped" if broken else ""))
    return 1 if broken and not len(index) else 0


def _build(args: argparse.Namespace) -> int:
    from ..retrieval import BM25, Index
    from ..retrieval.corpus import read
    from ..retrieval.encoder import parse

    default = BM25()
    bm25 = BM25(default.k1 if args.k1 is None else args.k1, default.b if args.b is None else args.b)
    if args.encoder:
        parse(args.encoder)
    broken = _Broken()
    with Index.build(args.out, [], language=args.language, bm25=bm25) as index:
        with _progress("indexing") as progress:
            changes = index.add(read(args.source, complain=broken), progress=progress)
        if args.encoder:
            _embed_all(index, args.encoder)
        return _changed(args, index, changes, broken.files)


def _add(args: argparse.Namespace) -> int:
    from ..retrieval import Index
    from ..retrieval.corpus import read

    broken = _Broken()
    with Index.open(args.index) as index, _progress("adding") as progress:
        changes = index.add(read(args.source, complain=broken), progress=progress)
        return _changed(args, index, changes, broken.files)


def _remove(args: argparse.Namespace) -> int:
    from ..retrieval import Index

    with Index.open(args.index) as index:
        removed = index.remove(args.id)
        words = f"{index.path}: {removed} of {len(args.id)} removed, {len(index):,} documents left"
        _say(args, {"index": str(index.path), "removed": removed, "documents": len(index)}, words)
    return 0 if removed else 1


def _embed_all(index: Index, encoder: str) -> int:
    info = index.info()
    with _progress("embedding", info.documents - info.vectors) as progress:
        return index.embed(encoder, progress=progress)


def _embed(args: argparse.Namespace) -> int:
    from ..retrieval import Index

    with Index.open(args.index) as index:
        done = _embed_all(index, args.encoder)
        _say(args, {"index": str(index.path), "embedded": done}, f"{index.path}: {done:,} passages embedded")
    return 0


def _info(args: argparse.Namespace) -> int:
    import dataclasses

    from ..retrieval.verify import info

    found = dataclasses.asdict(info(Path(args.index)))
    lines = "\n".join(f"{name.replace('_', ' '):14} {_shown(value)}" for name, value in found.items())
    _say(args, found, lines)
    return 0


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {inner}" for key, inner in value.items() if inner != "")
    return f"{value:,}" if isinstance(value, int) else "none" if value is None else str(value)


def _verify(args: argparse.Namespace) -> int:
    from ..retrieval.verify import verify

    problems = verify(Path(args.index))
    words = "\n".join(problems) if problems else f"{args.index} is sound"
    if problems:
        words += (
            f"\nThe documents are safe in the store; write the rest again with: subquest index compact {args.index}"
        )
    _say(args, {"index": args.index, "sound": not problems, "problems": problems}, words)
    return 1 if problems else 0


def _compact(args: argparse.Namespace) -> int:
    from ..retrieval.verify import info, verify
    from ..retrieval.writer import Writer

    folder = Path(args.index)
    with _progress("compacting", info(folder).documents) as progress, Writer.open(folder) as writer:
        if verify(folder):
            writer.rebuild(progress)
        writer.compact(progress)
    found = info(folder)
    size = found.bytes_store + found.bytes_lexical + found.bytes_dense
    words = f"{folder}: {found.documents:,} documents in {found.segments} segments, {size / 1e6:.1f} MB"
    _say(args, {"index": args.index, "documents": found.documents, "segments": found.segments, "bytes": size}, words)
    return 0


def _export(args: argparse.Namespace) -> int:
    import gzip

    from ..retrieval import Index

    count = 0
    with Index.open(args.index) as index:
        if args.out == "-":
            out: Any = sys.stdout
        else:
            out = gzip.open(args.out, "wt") if args.out.endswith(".gz") else open(args.out, "w")  # noqa: SIM115
        try:
            for document in index.documents():
                record = {"id": document.id, "title": document.title, "text": document.text}
                if document.meta:
                    record["meta"] = dict(document.meta)  # type: ignore[assignment]
                out.write(json.dumps(record, ensure_ascii=False) + "\n")
                count += 1
        finally:
            if out is not sys.stdout:
                out.close()
    if args.out != "-":
        _say(args, {"file": args.out, "documents": count}, f"{args.out}: {count:,} documents")
    return 0


def _import(args: argparse.Namespace) -> int:
    from ..retrieval import Index
    from ..retrieval.corpus import read_file

    with Index.build(args.out, []) as index:
        with _progress("importing") as progress:
            changes = index.add(read_file(Path(args.file)), progress=progress)
        if args.encoder:
            _embed_all(index, args.encoder)
        return _changed(args, index, changes, 0)
