"""`subquest data list|get|convert`: the question sets that the papers use, and their formats."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from ..errors import UsageError
from ..output_file import check_output


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="known sets: licence, splits, use, and which are on this machine")
    listing.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    get = actions.add_parser("get", help="fetch a set from the Hugging Face hub (needs a network)")
    get.add_argument("name", metavar="NAME[:SPLIT]")
    convert = actions.add_parser("convert", help="write a set in our format, FlashRAG's or verl's")
    convert.add_argument("source", metavar="DATASET", help="a known set (hotpotqa:dev), a file or a world's folder")
    convert.add_argument("out", metavar="FILE", type=Path, help="ends in .jsonl, .jsonl.gz or .parquet")
    convert.add_argument("--to", choices=("subquest", "flashrag", "verl"), default="subquest")
    convert.add_argument("--sample", type=int, metavar="N", help="only N questions, chosen at random by the seed")
    convert.add_argument("--seed", type=int, default=0, help="seed of the sample")
    convert.add_argument("--skip-bad", action="store_true", help="skip broken rows of a file, with a message for each")


def run(args: argparse.Namespace) -> int:
    return {"list": _list, "get": _get, "convert": _convert}[args.action](args)


def _list(args: argparse.Namespace) -> int:
    from ..data.registry import REGISTRY, local_files

    found = {name: local_files(entry) for name, entry in REGISTRY.items()}
    if args.json:
        rows = {
            name: {
                "title": entry.title,
                "licence": entry.licence,
                "hub": entry.hub,
                "splits": [split for split, _ in entry.files],
                "at_hand": {split: str(path) for split, path in found[name].items()},
                "sample": entry.sample,
                "breakdowns": list(entry.breakdowns),
                "gated": entry.gated,
                "training": entry.training,
            }
            for name, entry in REGISTRY.items()
        }
        print(json.dumps(rows))
        return 0
    print(f"{'set':<17}{'licence':<36}{'on the hub':<22}{'use':<10}at hand")
    for name, entry in REGISTRY.items():
        splits = ", ".join(split for split, _ in entry.files) or "-"
        hub = f"{splits} (gated)" if entry.gated else splits
        at_hand = ", ".join(found[name]) or "-"
        use = "training" if entry.training else "measure"
        print(f"{name:<17}{entry.licence:<36}{hub:<22}{use:<10}{at_hand}")
    return 0


def _get(args: argparse.Namespace) -> int:
    from ..data.hub import fetch
    from ..data.registry import find_set, unknown_set

    name, _, split = args.name.partition(":")
    entry = find_set(name)
    if entry is None:
        raise UsageError(unknown_set(name))
    for path in fetch(entry, split):
        print(path)
    return 0


def _convert(args: argparse.Namespace) -> int:
    from ..data import questions_from, read_questions
    from ..data.question_export import write_questions
    from ..data.question_sets import sample_questions

    if args.sample is not None and args.sample < 1:
        raise UsageError("--sample must be at least 1")
    source = Path(args.source)
    check_output(args.out, "json", source=source / "questions.jsonl" if source.is_dir() else source)
    bad: list[str] = []
    if args.skip_bad:
        if not Path(args.source).is_file():
            raise UsageError("--skip-bad is for files")
        questions = read_questions(args.source, skip_bad=True, bad=bad)
    else:
        questions = questions_from(args.source)
    if args.sample:
        questions = sample_questions(questions, args.sample, args.seed)
    write_questions(questions, args.out, args.to)
    for message in bad:
        print(message, file=sys.stderr)
    skipped = f", {len(bad)} rows skipped" if bad else ""
    print(f"{len(questions)} questions written to {args.out}{skipped}", file=sys.stderr)
    return 0
