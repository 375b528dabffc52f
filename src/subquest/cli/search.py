"""`subquest search`: find passages, for one query or for a file of them."""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .terminal import Paint, json_text, printable, wrapped

if TYPE_CHECKING:
    from ..config import Config
    from ..record import Hit
    from ..retrieval.backends import Backend
    from ..retrieval.highlight import Span
    from ..retrieval.index import Index
    from ..retrieval.search import Search

_BATCH = 256


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("query", nargs="?", metavar="QUERY")
    parser.add_argument(
        "--index", metavar="PATH", help="an index, or a search server's URL (default: as in subquest.toml)"
    )
    parser.add_argument("-k", type=int, help="how many passages (default: search.k in subquest.toml, else 10)")
    parser.add_argument(
        "--mode", choices=["auto", "bm25", "dense", "hybrid", "linked"], help="how to search (default: auto)"
    )
    parser.add_argument(
        "--where", action="append", default=[], metavar="FIELD=VALUE", help="only passages with this metadata"
    )
    parser.add_argument("--distinct", action="store_true", help="leave out near-identical passages")
    parser.add_argument("--queries", metavar="FILE", help='many queries, lines {"id","query"}; - for standard input')
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--config", metavar="FILE", help="settings file (default: the nearest subquest.toml)")


def run(args: argparse.Namespace) -> int:
    from ..config import load_config
    from ..errors import UsageError

    if (args.query is None) == (args.queries is None):
        raise UsageError("give one QUERY, or --queries FILE")
    if args.query is not None and not args.query.strip():
        raise UsageError("the query is empty")
    config = load_config(args.config, flags={"index": args.index, "search.k": args.k, "search.mode": args.mode})
    if not config.index:
        raise UsageError('there is nothing to search: give --index PATH, or write index = "PATH" in subquest.toml')
    args.k = config.search.k or 10
    options: dict[str, Any] = {
        "mode": config.search.mode or "auto",
        "where": _filter(args.where),
        "distinct": args.distinct,
    }
    with _opened(config.index, config) as index:
        if args.queries is not None:
            return _many(index, args, options)
        hits = index.search(args.query, args.k, **options)
        if args.json:
            print(json_text({"query": args.query, "hits": _shown(index, args.query, hits)}))
            return 0
        _print(index, args.query, hits)
    return 0


def _opened(place: str, config: Config) -> Index | Backend | PlainSearch:
    from ..assemble import open_search

    search: Any = open_search(place, tools=config.tools)
    return search if hasattr(search, "search_many") else PlainSearch(search)


class PlainSearch:
    """A search without the options of an index: a server with Search-R1's protocol, the web, a model."""

    def __init__(self, search: Search) -> None:
        from ..retrieval.analysis import Analysis

        self._search = search
        self.analysis = Analysis()

    def search(self, query: str, k: int, **options: Any) -> list[Hit]:
        return self.search_many([query], k, **options)[0]

    def search_many(
        self, queries: Sequence[str], k: int, *, mode: str, where: object = None, distinct: bool = False
    ) -> list[list[Hit]]:
        from ..errors import UsageError
        from ..process import run_sync

        for flag, given in (("--mode", mode != "auto"), ("--where", where), ("--distinct", distinct)):
            if given:
                raise UsageError(f"{flag} is for an index; {self._search.name} searches in its own way")
        return run_sync(self._search.retrieve(queries, k))

    def __enter__(self) -> PlainSearch:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to close: what was opened belongs to its server."""


def _filter(pairs: Sequence[str]) -> dict[str, list[Any]] | None:
    from ..errors import UsageError

    out: dict[str, list[Any]] = {}
    for pair in pairs:
        field, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"--where {pair}: write FIELD=VALUE")
        out.setdefault(field, []).extend(_meant(value))
    return out or None


def _meant(value: str) -> list[Any]:
    """What a value may stand for: `2023` is a number in one corpus and a text in another, such as every table."""
    try:
        plain = json.loads(value)
    except (ValueError, RecursionError):
        return [value]
    small = not isinstance(plain, int) or abs(plain) < 1 << 63
    return [plain, value] if isinstance(plain, str | int | float) and small else [value]


def _many(index: Index | Backend | PlainSearch, args: argparse.Namespace, options: dict[str, Any]) -> int:
    batch: list[tuple[Any, str]] = []

    def flush() -> None:
        found = index.search_many([query for _, query in batch], args.k, **options)
        for (identifier, query), hits in zip(batch, found, strict=True):
            print(json_text({"id": identifier, "hits": _shown(index, query, hits)}))
        batch.clear()

    for pair in _read(args.queries):
        batch.append(pair)
        if len(batch) == _BATCH:
            flush()
    if batch:
        flush()
    return 0


def _read(name: str) -> Iterator[tuple[Any, str]]:
    from ..errors import DataError, UsageError

    if name != "-" and not Path(name).is_file():
        raise UsageError(f"--queries {name}: there is no such file")
    with sys.stdin.buffer if name == "-" else open(name, "rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line.decode(errors="replace").removeprefix("\ufeff"))
                identifier, query = record["id"], record["query"]
            except (ValueError, KeyError, TypeError, RecursionError):
                raise DataError(f'{name}, line {number}: expected {{"id": ..., "query": ...}}') from None
            if not isinstance(query, str):
                raise DataError(f"{name}, line {number}: the query must be a text, not {type(query).__name__}")
            yield identifier, query


def _shown(index: Index | Backend | PlainSearch, query: str, hits: Sequence[Hit]) -> list[dict[str, Any]]:
    from ..citation import cite, place_in
    from ..retrieval.highlight import highlight

    out = []
    for hit in hits:
        document = hit.document
        span = highlight(document.text, query, index.analysis)
        record = {"id": document.id, "title": document.title, "text": document.text, "score": hit.score}
        record["highlight"] = {"start": span.start, "end": span.end}
        if document.meta:
            record["meta"] = dict(document.meta)
        if where := cite(place_in(document.meta, document.text, span.start, span.end)):
            record["source"] = where
        out.append(record)
    return out


def _print(index: Index | Backend | PlainSearch, query: str, hits: Sequence[Hit]) -> None:
    from ..citation import cite, place_in
    from ..retrieval.highlight import highlight

    paint = Paint(sys.stdout)
    if not hits:
        print("nothing found", file=sys.stderr)
    for rank, hit in enumerate(hits, start=1):
        document = hit.document
        span = highlight(document.text, query, index.analysis)
        title = paint(f"{rank}. {printable(document.title or document.id)}", "1")
        place = place_in(document.meta, document.text, span.start, span.end)
        where = printable(cite(place) or document.id)
        print(title, paint(f"{hit.score:.3f}  {where}", "2"))
        lines = list(_lines(document.text, span, paint))
        for line in lines:
            print(wrapped(line, indent="  " if len(lines) > 1 else ""))


def _lines(text: str, span: Span, paint: Paint) -> Iterator[str]:
    """The lines of a passage, rows of a table for example, with the span that answers the query painted."""
    begin = 0
    for line in text.splitlines(keepends=True):
        start, end = (min(max(place - begin, 0), len(line)) for place in (span.start, span.end))
        pieces = line[:start], line[start:end], line[end:]
        before, found, after = map(printable, pieces)
        gaps = [" " if left[-1:].isspace() or right[:1].isspace() else "" for left, right in itertools.pairwise(pieces)]
        if shown := f"{before}{gaps[0]}{paint(found, '1;33')}{gaps[1]}{after}".strip():
            yield shown
        begin += len(line)
