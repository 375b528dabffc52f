"""`subquest data`: question sets and corpora of the papers, their formats, and sets that a model writes."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..english import counted
from ..errors import UsageError
from ..output_file import check_output
from . import data_organisations, data_questions

if TYPE_CHECKING:
    from ..data.registry import Published


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="known sets and corpora: licence, use, size, and what is on this machine")
    get = actions.add_parser("get", help="fetch a question set or a corpus by name, or take it from a file")
    get.add_argument("name", metavar="NAME[:SPLIT]")
    get.add_argument(
        "--file",
        dest="files",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="take it from here: the file as it was published, or a folder that holds it",
    )
    get.add_argument("--mirror", default="", metavar="URL", help="take it from a mirror of the hub, not from the hub")
    get.add_argument(
        "--renew", action="store_true", help="fetch it again, and accept another content than was recorded on first use"
    )
    for action in (listing, get):
        action.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    convert = actions.add_parser("convert", help="write a set in our format, FlashRAG's or verl's")
    convert.add_argument("source", metavar="DATASET", help="a known set (hotpotqa:dev), a file or a world's folder")
    convert.add_argument("out", metavar="FILE", type=Path, help="ends in .jsonl, .jsonl.gz or .parquet")
    convert.add_argument("--to", choices=("subquest", "flashrag", "verl"), default="subquest")
    convert.add_argument("--sample", type=int, metavar="N", help="only N questions, chosen at random by the seed")
    convert.add_argument("--seed", type=int, default=0, help="seed of the sample")
    convert.add_argument("--skip-bad", action="store_true", help="skip broken rows of a file, with a message for each")
    convert.add_argument(
        "--corpus", type=Path, metavar="FILE", help="also write the questions' own paragraphs, to index (.jsonl[.gz])"
    )
    data_organisations.configure(
        actions.add_parser(
            "organisations", help="let a model write the papers of invented organisations, with questions about them"
        )
    )
    data_questions.configure(
        actions.add_parser("questions", help="let a model write questions about your own documents, with plans")
    )


def run(args: argparse.Namespace) -> int:
    actions = {
        "list": _list,
        "get": _get,
        "convert": _convert,
        "organisations": data_organisations.run,
        "questions": data_questions.run,
    }
    return actions[args.action](args)


def _list(args: argparse.Namespace) -> int:
    from ..data.registry import CORPORA, REGISTRY, local_corpus, local_files

    found = {name: local_files(entry) for name, entry in REGISTRY.items()}
    found |= {name: local_corpus(corpus) for name, corpus in CORPORA.items()}
    if args.json:
        sets = {
            name: {
                "kind": "questions",
                **_row(entry, found[name]),
                "splits": [file.split for file in entry.files],
                "sample": entry.sample,
                "breakdowns": list(entry.breakdowns),
                "training": entry.training,
            }
            for name, entry in REGISTRY.items()
        }
        corpora = {
            name: {"kind": "corpus", **_row(corpus, found[name]), "passages": corpus.passages}
            for name, corpus in CORPORA.items()
        }
        print(json.dumps(sets | corpora))
        return 0
    print(f"{'set':<17}{'licence':<36}{'to fetch':<22}{'use':<10}at hand")
    for name, entry in REGISTRY.items():
        splits = ", ".join(file.split for file in entry.files) or "-"
        hub = f"{splits} (gated)" if entry.gated else splits
        at_hand = ", ".join(found[name]) or "-"
        use = "training" if entry.training else "measure"
        print(f"{name:<17}{entry.licence:<36}{hub:<22}{use:<10}{at_hand}")
    print(f"\n{'corpus':<17}{'licence':<36}{'to fetch':<22}{'passages':<14}at hand")
    for name, corpus in CORPORA.items():
        size = f"{sum(file.size or 0 for file in corpus.files) / 1e9:.1f} GB"
        print(f"{name:<17}{corpus.licence:<36}{size:<22}{corpus.passages:<14,}{', '.join(found[name]) or '-'}")
    return 0


def _row(entry: Published, at_hand: dict[str, Path]) -> dict[str, Any]:
    return {
        "title": entry.title,
        "licence": entry.licence,
        "hub": entry.hub,
        "revision": entry.revision if entry.hub else None,
        "files": [{"split": f.split, "path": f.path, "bytes": f.size, "sha256": f.sha256 or None} for f in entry.files],
        "gated": entry.gated,
        "at_hand": {split: str(path) for split, path in at_hand.items()},
    }


def _get(args: argparse.Namespace) -> int:
    from ..data.fetch import fetch
    from ..data.registry import CORPORA, find_set, unknown_set
    from .progress import DownloadProgress

    name, _, split = args.name.partition(":")
    entry = CORPORA.get(name) or find_set(name)
    if entry is None:
        raise UsageError(unknown_set(name))
    with DownloadProgress() as progress:
        paths = fetch(
            entry,
            split,
            files=args.files,
            mirror=args.mirror,
            renew=args.renew,
            say=lambda line: print(line, file=sys.stderr),
            progress=progress,
        )
    if args.json:
        print(json.dumps({"name": entry.name, "files": [{"path": str(p), "bytes": p.stat().st_size} for p in paths]}))
    else:
        print(*paths, sep="\n")
    return 0


def _convert(args: argparse.Namespace) -> int:
    from ..data import questions_from, read_questions
    from ..data.paragraphs import write_paragraphs
    from ..data.question_export import write_questions
    from ..data.question_sets import sample_questions

    if args.sample is not None and args.sample < 1:
        raise UsageError("--sample must be at least 1")
    source = Path(args.source)
    check_output(args.out, "json", source=source / "questions.jsonl" if source.is_dir() else source)
    if args.corpus:
        check_output(args.corpus, "json", source=source)
    bad: list[str] = []
    if args.skip_bad:
        if not Path(args.source).is_file():
            raise UsageError("--skip-bad is for files")
        questions = read_questions(args.source, skip_bad=True, bad=bad)
    else:
        questions = questions_from(args.source)
    if args.sample:
        questions = sample_questions(questions, args.sample, args.seed)
    corpus = ""
    if args.corpus:
        questions, count = write_paragraphs(args.source, questions, args.corpus)
        corpus = f", their {counted(count, 'paragraph')} to {args.corpus}"
    write_questions(questions, args.out, args.to)
    for message in bad:
        print(message, file=sys.stderr)
    skipped = f", {counted(len(bad), 'row')} skipped" if bad else ""
    print(f"{counted(len(questions), 'question')} written to {args.out}{corpus}{skipped}", file=sys.stderr)
    return 0
