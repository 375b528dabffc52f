"""`subquest study claims`: the claims table: list it, train its adapters, answer its questions, write its page."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import SubquestError, UsageError

if TYPE_CHECKING:
    from ..claims.book import Arm, Book, Training
    from ..claims.measure import Stamps
    from ..claims.results import Results
    from ..claims.training import Trainings

SHARE = 0.7
"""Part of the GPU's memory that the workers' contexts may take, where `SUBQUEST_GPU_SHARE` says nothing else."""


def configure(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "claims", "for `subquest study claims`; --only takes arms, claims or trainings, and !PATTERN leaves arms out"
    )
    group.add_argument("--run", action="store_true", help="answer what is not answered yet")
    group.add_argument("--train", action="store_true", help="train the adapters that are missing, with --run beside it")
    group.add_argument("--plan", action="store_true", help="what is left, in slices of --minutes (default: 9)")
    group.add_argument("--types", metavar="SOURCE", help="what the arms got by type of question, as on `world`")
    group.add_argument("--write", type=Path, metavar="FILE", help="write the page of all claims")
    group.add_argument(
        "--minutes", type=float, metavar="M", help="stop in so many minutes; training takes at most a part of them"
    )
    group.add_argument("--workers", type=int, default=1, metavar="N", help="processes that share the GPU")
    group.add_argument(
        "--trainers", type=int, metavar="N", help="how many of them train as long as there is something to train (all)"
    )
    group.add_argument("--use", action="append", default=[], metavar="NAME=PLACE", help="an adapter, as cold=FOLDER")
    group.add_argument("--data", type=Path, default=Path("../shared/data/eval"), help="folder of the real sets")
    group.add_argument("--recipes", type=Path, metavar="FOLDER", help="other claims than recipes/claims")
    group.add_argument(
        "--runs", type=Path, default=Path("runs/claims"), metavar="FOLDER", help="where trainings are kept"
    )
    group.add_argument("--pack", type=Path, metavar="FOLDER", help="in the end, put what must travel into a few files")
    group.add_argument("--unpack", type=Path, metavar="FOLDER", help="in the beginning, take what --pack put there")
    group.add_argument("--device", default="", help="cuda, cpu (default: cuda where there is one)")


def run(args: argparse.Namespace) -> int:
    from ..claims.book import default_folder, read_book
    from ..claims.measure import Stamps, begun
    from ..claims.results import Results
    from ..claims.training import train_all

    if args.workers < 1:
        raise UsageError("--workers must be at least 1")
    if args.trainers is not None and not 1 <= args.trainers <= args.workers:
        raise UsageError(f"--trainers must be from 1 to the number of --workers, {args.workers}")
    book = read_book(args.recipes or default_folder())
    folder = args.out or book.results
    began = time.time()
    if args.unpack:
        _unpack(args, book, folder)
    results = Results(folder)
    book = begun(book, results)
    failed = 0
    trainings = None
    if args.train:
        book, trainings, failed = _train(args, book, results, began)
    stamps = Stamps(book, _adapters(args, book), model=args.model or "smollm2")
    if args.run:
        until = math.inf if args.minutes is None else began + 60 * args.minutes
        failed += _run(args, book, results, stamps, until, trainings)
    elif trainings is not None:
        train_all(trainings)
    if trainings is not None and (short := trainings.short):
        _say(f"{len(short)} trainings are left for the next slice: {', '.join(short)}")
        failed += len(short)
    if args.train or args.run:
        _progress(args, book, results, stamps)
    if args.pack:
        _pack(args, book, results, stamps)
    if args.write:
        from ..claims.page import Page

        args.write.write_text(Page(book, results, stamps).text(), encoding="utf-8")
    if args.types:
        _types(args, book, results, stamps)
    if args.plan:
        _plan(args, book, results, stamps)
    elif not (args.train or args.run or args.write or args.pack or args.unpack or args.types):
        _list(args, book, results, stamps)
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
    """Adapters at hand by name: those of trainings, the shipped one, and those of --use."""
    from ..claims.book import SHIPPED
    from ..claims.measure import file_digest, known_as
    from ..claims.training import adapters_at_hand
    from ..models import default_adapter

    found = adapters_at_hand(book, args.runs)
    if (shipped := default_adapter()) is not None:
        found[SHIPPED] = str(shipped)
    found |= _used(args)
    if book.shipped and SHIPPED in found and file_digest(found[SHIPPED]) != book.shipped:
        raise UsageError(
            f"{found[SHIPPED]} is not the adapter that the claims were run with; give that one with "
            f"--use {SHIPPED}=PLACE, or begin anew by changing `shipped` in the recipes of the claims"
        )
    for name in (s for s in book.starts if s in found):
        recorded = book.origins.get(name, "") not in ("", known_as(book, book.trainings[name]))
        if recorded and file_digest(found[name]) != book.origins[name]:
            raise UsageError(f"{found[name]} is not the adapter {name} that trainings of the claims started from")
    return found


def _unpack(args: argparse.Namespace, book: Book, results: Path) -> None:
    from ..claims.parcel import unpack_adapters, unpack_results

    if not args.unpack.is_dir():
        raise UsageError(f"--unpack: there is no folder {args.unpack}")
    _say(f"{unpack_results(args.unpack, results)} files of results came in")
    found = unpack_adapters(args.unpack, args.runs)
    _say(f"{len(found)} adapters came in: {', '.join(found) or 'none'}")


def _pack(args: argparse.Namespace, book: Book, results: Results, stamps: Stamps) -> None:
    """Results, the start of the trainings, and the adapters of trainings with rows that are not complete."""
    from ..claims.parcel import pack
    from ..claims.timing import unanswered
    from ..claims.training import adapters_at_hand, folder_of

    wanted = {}
    start = ""
    for name, place in adapters_at_hand(book, args.runs).items():
        users = [a for a in book.arms.values() if name in a.adapters.values()]
        folder = folder_of(book, book.trainings[name], args.runs).name
        if name in book.starts or any(unanswered(book, a, results, stamps) for a in users):
            wanted[folder] = Path(place)
        if name in book.starts:
            start = start or folder
    left = pack(args.pack, results.folder, wanted, start)
    total = sum(f.stat().st_size for f in args.pack.glob("claims-*.tar"))
    _say(f"packed results and {len(wanted) - len(left)} adapters, {total / 1e6:.1f} MB; no room for {len(left)}")


def _train(args: argparse.Namespace, book: Book, results: Results, began: float) -> tuple[Book, Trainings | None, int]:
    """Train what other trainings start from, where it is missing; returns the book as it is then, the other trainings,
    ready to go, and how many are left where they have to wait."""
    from ..claims.measure import Stamps, begun, known_as
    from ..claims.timing import untrained
    from ..claims.training import train_all

    adapters = _adapters(args, book)
    stamps = Stamps(book, adapters, model=args.model or "smollm2")
    chosen = untrained(book, book.trained(args.only), results, stamps, adapters)
    for name in dict.fromkeys(book.start_of(t) or t.id for t in chosen):
        if name not in book.starts or name in adapters:
            continue
        start = book.trainings[name]
        if results.training(name, known_as(book, start)).get("adapter"):
            raise UsageError(
                f"the adapter {name}, which trainings start from, was made and is not at hand: take it from its "
                f"parcel (--unpack), or give it with --use {name}=PLACE"
            )
        if left := train_all(_trainings(args, book, results, [start], began)):
            _say(f"the adapter {name} is not made: the trainings that start from it wait for it")
            return book, None, len(left)
        book = begun(book, results)
    others = [t for t in book.trained(args.only) if t.id not in book.starts]
    return book, _trainings(args, book, results, others, began), 0


def _trainings(
    args: argparse.Namespace, book: Book, results: Results, wanted: Sequence[Training], began: float
) -> Trainings:
    """Those that are missing."""
    from ..claims.measure import Stamps
    from ..claims.plan import BESIDE, TRAIN
    from ..claims.timing import untrained
    from ..claims.training import Trainings

    adapters = _adapters(args, book)
    stamps = Stamps(book, adapters, model=args.model or "smollm2")
    chosen = untrained(book, wanted, results, stamps, adapters)
    if any(t.needs_minilm for t in chosen) and (problem := _no_minilm()):
        names = ", ".join(t.id for t in chosen if t.needs_minilm)
        _say(f"left out: {names}: {problem}")
        chosen = [t for t in chosen if not t.needs_minilm]
    at_once = args.trainers or args.workers
    share = 0.95 if not args.run else TRAIN if at_once == args.workers else BESIDE
    left = None if args.minutes is None else share * args.minutes - (time.time() - began) / 60
    return Trainings(
        book, chosen, args.runs, results, adapters=adapters, minutes=left, at_once=at_once, device=args.device, say=_say
    )


def _run(
    args: argparse.Namespace,
    book: Book,
    results: Results,
    stamps: Stamps,
    until: float,
    trainings: Trainings | None,
) -> int:
    from ..claims.engines import Setup
    from ..claims.evaluate import evaluate

    coming = trainings.places if trainings is not None else {}
    arms: list[Arm] = []
    later: list[Arm] = []
    lacking: dict[str, list[str]] = {}
    chosen = args.train and any(not p.startswith("!") for p in args.only)
    for arm in book.using(args.only) if chosen else book.chosen(args.only):
        if problem := _lacking(arm, {**stamps.adapters, **coming}):
            lacking.setdefault(problem, []).append(arm.id)
        else:
            (later if coming.keys() & set(arm.adapters.values()) else arms).append(arm)
    for problem, names in lacking.items():
        _say(f"left out: {', '.join(names)}: {problem}")
    setup = Setup(
        model=args.model or "smollm2",
        adapters={**stamps.adapters, **coming},
        cache=args.runs / "cache",
        concurrency=args.concurrency,
        share=float(os.environ.get("SUBQUEST_GPU_SHARE") or SHARE) / args.workers,
        until=until,
        device=args.device,
    )
    beside = trainings if coming else None
    return evaluate(
        book, arms, results, stamps, setup, data=args.data, workers=args.workers, beside=beside, later=later, say=_say
    ).units


def _lacking(arm: Arm, adapters: Mapping[str, str]) -> str:
    """What an arm needs and this machine does not have; empty where nothing is missing."""
    from ..claims.evaluate import missing_in

    if name := missing_in(arm, adapters):
        return f"the adapter {name} is not at hand (--train, or --use {name}=PLACE)"
    if arm.needs_minilm:
        return _no_minilm()
    try:
        if arm.oracle:
            from ..tools.sandbox import bubblewrap

            bubblewrap.way()
    except SubquestError as error:
        return str(error)
    return ""


def _no_minilm() -> str:
    """Why MiniLM cannot be used here; empty where it can."""
    from ..retrieval.minilm import weights

    try:
        weights()
    except SubquestError as error:
        return str(error)
    return ""


def _progress(args: argparse.Namespace, book: Book, results: Results, stamps: Stamps) -> None:
    """Rows done and left, and the minutes that are left by kind of work."""
    from ..claims.plan import left_by_kind, rows_of

    arms = book.chosen(() if args.train else args.only)
    rows = rows_of(book, arms, results, stamps)
    _say(f"rows: {rows.done} done, {rows.left} left" + (f", {rows.stale} of them stale" if rows.stale else ""))
    for kind, minutes, measured in left_by_kind(book, arms, results, stamps, workers=args.workers):
        _say(f"  {kind}: {minutes:.1f} min left{'' if measured else ' (a guess)'}")


def _plan(args: argparse.Namespace, book: Book, results: Results, stamps: Stamps) -> None:
    from ..claims.plan import left_by_kind, rows_of, slices_of, told

    arms = [a for a in book.chosen(args.only) if not a.oracle]
    slices = slices_of(book, arms, results, stamps, minutes=args.minutes or 9.0, workers=args.workers)
    rows = rows_of(book, book.chosen(args.only), results, stamps)
    if args.json:
        found = [
            {"minutes": round(s.minutes, 2), "trainings": [t.id for t in s.trainings], "questions": s.questions}
            for s in slices
        ]
        print(json.dumps({"rows": rows._asdict(), "slices": found}))
        return
    print(f"rows: {rows.done} done, {rows.left} left, {rows.stale} of them stale")
    print("\n".join(told(slices)))
    oracles = [a for a in book.chosen(args.only) if a.oracle]
    if here := sum(minutes for _, minutes, _ in left_by_kind(book, oracles, results, stamps, workers=1)):
        print(f"without a GPU: {here:.0f} min of one core for the arms with an oracle")


def _types(args: argparse.Namespace, book: Book, results: Results, stamps: Stamps) -> None:
    from ..claims.types import by_type, told

    if args.types not in book.sources:
        raise UsageError(f"--types: there is no source {args.types!r}; there are {', '.join(book.sources)}")
    if not args.only:
        raise UsageError("--types: name the arms that are to be compared with --only")
    arms = [a for a in book.chosen(args.only) if args.types in book.sources_of(a)]
    done = [a for a in arms if (found := results.arm(a.id, stamps.of(a))) and found.of(args.types)]
    if left_out := [a.id for a in arms if a not in done]:
        _say(f"left out: {', '.join(left_out)}: not run yet")
    cache = args.runs / "cache"
    figures = by_type(book, done, results, stamps, source=args.types, data=args.data, cache=cache)
    print(told(figures, done))


def _list(args: argparse.Namespace, book: Book, results: Results, stamps: Stamps) -> None:
    from ..claims.measure import known_as

    rows: list[dict[str, Any]] = []
    for arm in book.chosen(args.only):
        stamp = stamps.of(arm)
        found = results.arm(arm.id, stamp)
        count = sum(len(u.hops) for u in found.units.values()) if found else 0
        claims = [c.id for c in book.claims if any(arm.id in r.answered_by for r in c.row)]
        rows.append({"arm": arm.id, "answered": count, "stale": results.stale(arm.id, stamp), "claims": claims})
    made = {t.id: bool(results.training(t.id, known_as(book, t))) for t in book.trainings.values()}
    if args.json:
        print(json.dumps({"arms": rows, "trainings": made}))
        return
    for row in rows:
        stale = f"  (stale: {row['stale']})" if row["stale"] else ""
        print(f"{row['arm']:<44}{row['answered']:>7,} answered  {', '.join(row['claims'])}{stale}")
    print("\ntrainings: " + "; ".join(f"{t}{' (run)' if run else ''}" for t, run in made.items()))
