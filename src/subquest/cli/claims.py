"""`subquest study claims`: the claims table: list it, train its adapters, answer its questions, write its page."""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import SubquestError, UsageError

if TYPE_CHECKING:
    from ..claims.book import Arm, Book
    from ..claims.results import Results


def configure(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("claims", "for `subquest study claims`; --only takes arms, claims or trainings")
    group.add_argument("--run", action="store_true", help="answer what is not answered yet")
    group.add_argument(
        "--train", action="store_true", help="train the adapters that --only names, then go on with --run"
    )
    group.add_argument("--write", type=Path, metavar="FILE", help="write the page of all claims")
    group.add_argument(
        "--minutes", type=float, metavar="M", help="stop in so many minutes; training takes at most 0.6 of them"
    )
    group.add_argument("--workers", type=int, default=1, metavar="N", help="processes that share the GPU")
    group.add_argument("--use", action="append", default=[], metavar="NAME=PLACE", help="an adapter, as sft=FOLDER")
    group.add_argument("--data", type=Path, default=Path("../shared/data/eval"), help="folder of the real sets")
    group.add_argument("--recipes", type=Path, metavar="FOLDER", help="other claims than recipes/claims")
    group.add_argument(
        "--runs", type=Path, default=Path("runs/claims"), metavar="FOLDER", help="where trainings are kept"
    )
    group.add_argument("--device", default="", help="cuda, cpu (default: cuda where there is one)")


def run(args: argparse.Namespace) -> int:
    from ..claims.book import default_folder, read_book
    from ..claims.results import Results

    book = read_book(args.recipes or default_folder())
    results = Results(args.out or book.results)
    began = time.time()
    failed = 0
    if args.workers < 1:
        raise UsageError("--workers must be at least 1")
    if args.train:
        failed += _train(args, book, results)
    if args.run:
        until = math.inf if args.minutes is None else began + 60 * args.minutes
        failed += _run(args, book, results, until)
    if args.write:
        from ..claims.page import Page

        args.write.write_text(Page(book, results).text(), encoding="utf-8")
    if not (args.train or args.run or args.write):
        _list(args, book, results)
    return 1 if failed else 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _used(args: argparse.Namespace) -> dict[str, str]:
    out = {}
    for pair in args.use:
        name, equals, place = pair.partition("=")
        if not equals:
            raise UsageError(f"--use {pair!r}: write NAME=PLACE")
        if not Path(place).exists():
            raise UsageError(f"--use {pair!r}: there is no {place}")
        out[name] = place
    return out


def _adapters(args: argparse.Namespace, book: Book) -> dict[str, str]:
    """Adapters at hand by name: those of --use, of trainings that were run, and the shipped one as what it is."""
    from ..claims.evaluate import file_digest
    from ..claims.training import adapter_of
    from ..models import default_adapter

    found = {t: str(place) for t in book.trainings if (place := adapter_of(t, args.runs)).is_dir()}
    if (shipped := default_adapter()) is not None:
        begun = not book.start or file_digest(str(shipped)) == book.start
        found["sft" if begun else "final"] = str(shipped)
    found |= _used(args)
    if book.start and "sft" in found and file_digest(found["sft"]) != book.start:
        raise UsageError(
            f"{found['sft']} is not the adapter that the claims started from; "
            "give that one with --use sft=PLACE, or begin anew by changing `start` in the recipes of the claims"
        )
    return found


def _train(args: argparse.Namespace, book: Book, results: Results) -> int:
    from ..claims.training import train_all

    adapters = _adapters(args, book)
    if "sft" not in adapters:
        raise UsageError("the adapter to start from is not at hand: give it with --use sft=PLACE")
    changes = {"model.adapter": adapters["sft"]}
    minutes = None if args.minutes is None else (0.6 if args.run else 0.95) * args.minutes
    chosen = book.trained(args.only)
    short = train_all(
        chosen, args.runs, results, changes=changes, minutes=minutes, workers=args.workers, device=args.device, say=_say
    )
    for name in short:
        _say(f"{name} did not reach its last step; run it again to go on")
    return len(short)


def _run(args: argparse.Namespace, book: Book, results: Results, until: float) -> int:
    from ..claims.engines import Setup
    from ..claims.evaluate import evaluate

    adapters = _adapters(args, book)
    arms = []
    for arm in book.using(args.only) if args.train else book.chosen(args.only):
        if problem := _lacking(arm, adapters):
            _say(f"left out: {arm.id}: {problem}")
        else:
            arms.append(arm)
    setup = Setup(
        model=args.model or "smollm2",
        adapters=adapters,
        cache=args.runs / "cache",
        concurrency=args.concurrency,
        share=0.7 / args.workers / max((len(set(a.adapters.values())) for a in arms), default=1),
        until=until,
        device=args.device,
    )
    return evaluate(book, arms, results, setup, data=args.data, workers=args.workers, say=_say)


def _lacking(arm: Arm, adapters: dict[str, str]) -> str:
    """What an arm needs and this machine does not have; empty where nothing is missing."""
    from ..claims.evaluate import missing_in

    if name := missing_in(arm, adapters):
        return f"the adapter {name} is not at hand (--train, or --use {name}=PLACE)"
    try:
        if arm.needs_minilm:
            from ..retrieval.minilm import weights

            weights()
        if arm.oracle:
            from ..tools.sandbox import jail

            jail.way()
    except SubquestError as error:
        return str(error)
    return ""


def _list(args: argparse.Namespace, book: Book, results: Results) -> None:
    rows: list[dict[str, Any]] = []
    for arm in book.chosen(args.only):
        found = results.arm(arm)
        count = sum(len(u.hops) for u in found.units.values()) if found else 0
        claims = [c.id for c in book.claims if any(r.arm == arm.id for r in c.row)]
        rows.append({"arm": arm.id, "answered": count, "claims": claims})
    if args.json:
        print(json.dumps({"arms": rows, "trainings": {t: bool(results.curve(t)) for t in book.trainings}}))
        return
    for row in rows:
        print(f"{row['arm']:<44}{row['answered']:>7,} answered  {', '.join(row['claims'])}")
    print("\ntrainings: " + "; ".join(f"{t}{' (run)' if results.curve(t) else ''}" for t in book.trainings))
