"""Studies that train their models, such as the papers' claims: trainings and answers go into a folder of results, and
pages are written from it."""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..english import counted
from ..errors import UsageError
from ..output_file import check_output, complete_file

if TYPE_CHECKING:
    from ..study import Study, Training, Variant
    from ..study.results import Progress


def add_training_options(parser: argparse.ArgumentParser) -> None:
    """Options of studies that train their models."""
    group = parser.add_argument_group(
        "studies that train their models",
        "such as `claims`; --out is the folder of results, --only takes patterns of variants, claims or trainings, and "
        "!PATTERN leaves variants out",
    )
    group.add_argument("--run", action="store_true", help="answer what is not answered yet")
    group.add_argument("--train", action="store_true", help="train the adapters that are missing")
    group.add_argument("--types", metavar="SOURCE", help="what variants got by type of question, as on `world`")
    group.add_argument("--write", type=Path, metavar="FILE", help="write the page of all claims")
    group.add_argument("--minutes", type=float, metavar="M", help="stop after so many minutes")
    group.add_argument("--use", action="append", default=[], metavar="NAME=PLACE", help="an adapter, as cold=FOLDER")
    group.add_argument("--data", type=Path, default=Path("../shared/data/eval"), help="folder of the real sets")
    group.add_argument("--recipes", type=Path, metavar="FOLDER", help="other recipes than the study's own")
    group.add_argument("--runs", type=Path, metavar="FOLDER", help="where trainings are kept (default: runs/NAME)")
    group.add_argument("--device", default="", help="cuda, cpu (default: cuda if available)")


def run_trained(args: argparse.Namespace, study: Study) -> int:
    from ..models import MODELS
    from ..study.results import Results
    from ..study.training import open_progress

    results = Results(args.out or study.folder / "results")
    args.runs = args.runs or Path("runs") / args.name
    model = args.model or study.model or "smollm2"
    if study.model not in ("", *MODELS) and not args.model and (args.train or args.run):
        raise UsageError(f"--model FOLDER is missing: where the weights of {study.model} are")
    if args.write:
        check_output(args.write, "markdown")
    until = math.inf if args.minutes is None else time.time() + 60 * args.minutes

    def opened() -> Progress:
        return open_progress(study, results, args.runs, use=_adapters(args.use), model=model)

    failed = _train(args, opened, until) if args.train else 0
    progress = opened()
    if args.run:
        failed += _answer_left(args, progress, model, until)
    if args.train or args.run:
        _report(_count(progress, () if args.train else args.only))
    if args.write:
        _write(args, progress)
    if args.types:
        _show_types(args, progress)
    elif not (args.train or args.run or args.write):
        _list(args, progress)
    return 1 if failed else 0


def _write(args: argparse.Namespace, progress: Progress) -> None:
    """The page of all claims; or, of a study on several sizes of model, a page of verdicts and one for each paper."""
    if progress.study.sizes:
        from ..study import read_study
        from ..study.overview import Overview
        from ..study.results import Results
        from ..study.training import open_progress

        def open_size(folder: Path) -> Progress:
            study = read_study(folder.resolve())
            return open_progress(study, Results(study.folder / "results"), Path("runs") / study.name)

        Overview(progress, open_size).write(args.write)
        return
    from ..study.page import Page

    with complete_file(args.write) as scratch:
        scratch.write_text(Page(progress).text(), encoding="utf-8")


def _report(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _count(progress: Progress, only: Sequence[str]) -> str:
    rows = progress.rows(progress.study.select(only))
    return f"rows: {rows.done} done, {rows.left} left" + (f", {rows.stale} of them stale" if rows.stale else "")


def _adapters(use: Sequence[str]) -> dict[str, str]:
    out = {}
    for pair in use:
        name, equals, place = pair.partition("=")
        if not equals:
            raise UsageError(f"--use {pair!r}: write NAME=PLACE")
        if not Path(place).exists():
            raise UsageError(f"--use {pair!r}: there is no {place}")
        out[name] = place
    return out


def _train(args: argparse.Namespace, opened: Callable[[], Progress], until: float) -> int:
    """Train what is missing, what others start from first; returns how many trainings are left."""
    from ..study.training import missing_start, train

    def train_now(progress: Progress, trainings: Sequence[Training]) -> list[str]:
        return train(
            progress.study,
            trainings,
            args.runs,
            progress.results,
            adapters=progress.stamps.adapters,
            until=None if math.isinf(until) else until,
            model=args.model if progress.study.model else "",
            device=args.device,
            report=_report,
        )

    chosen = opened().study.select_trainings(args.only)
    while (start := missing_start(progress := opened(), chosen)) is not None:
        if train_now(progress, [start]):
            _report(f"the adapter {start.name} was not made: the trainings that start from it wait for it")
            return 1
    wanted = progress.untrained(chosen)
    if any(t.needs_minilm for t in wanted) and (problem := _minilm_problem()):
        _report(f"skipped: {', '.join(t.name for t in wanted if t.needs_minilm)}: {problem}")
        wanted = [t for t in wanted if not t.needs_minilm]
    if short := train_now(progress, wanted):
        _report(f"{counted(len(short), 'training')} not finished: {', '.join(short)}")
    return len(short)


def _minilm_problem() -> str:
    """Why MiniLM cannot be used here; empty where it can."""
    from ..errors import SubquestError
    from ..retrieval.minilm import weights

    try:
        weights()
    except SubquestError as error:
        return str(error)
    return ""


def _answer_left(args: argparse.Namespace, progress: Progress, model: str, until: float) -> int:
    """Answer what is left, as far as this machine can; returns how many units are left of that."""
    from ..study.engines import Setup
    from ..study.runner import answer_study, missing_for

    study, adapters = progress.study, progress.stamps.adapters
    named = args.train and any(not p.startswith("!") for p in args.only)  # then --only names trainings
    variants: list[Variant] = []
    lacking: dict[str, list[str]] = {}
    for variant in study.using(args.only) if named else study.select(args.only):
        if problem := missing_for(variant, adapters):
            lacking.setdefault(problem, []).append(variant.name)
        else:
            variants.append(variant)
    for problem, names in lacking.items():
        _report(f"skipped: {', '.join(names)}: {problem}")
    setup = Setup(model, adapters, args.runs / "cache", args.concurrency, until, args.device)
    return answer_study(progress, variants, setup, data=args.data, report=_report)


def _show_types(args: argparse.Namespace, progress: Progress) -> None:
    from ..study.table import by_type, type_table

    study = progress.study
    if args.types not in study.sources:
        raise UsageError(f"--types: there is no source {args.types!r}; there are {', '.join(study.sources)}")
    if not args.only:
        raise UsageError("--types: name the variants to compare with --only")
    variants = [v for v in study.select(args.only) if args.types in study.sources_of(v)]
    done = [v for v in variants if (found := progress.fresh(v)) and found.of(args.types)]
    if skipped := [v.name for v in variants if v not in done]:
        _report(f"skipped: {', '.join(skipped)}: not run yet")
    print(type_table(by_type(progress, done, source=args.types, data=args.data, cache=args.runs / "cache"), done))


def _list(args: argparse.Namespace, progress: Progress) -> None:
    from ..study.stamps import known_as

    study = progress.study
    rows: list[dict[str, Any]] = []
    for variant in study.select(args.only):
        found = progress.fresh(variant)
        count = sum(len(u.hops) for u in found.units.values()) if found else 0
        claims = [c.id for c in study.claims if any(variant.name in r.answered_by for r in c.row)]
        rows.append({"arm": variant.name, "answered": count, "stale": progress.stale(variant), "claims": claims})
    made = {t.name: bool(progress.results.training(t.name, known_as(study, t))) for t in study.trainings.values()}
    counted = progress.rows(study.select(args.only))
    if args.json:
        print(json.dumps({"arms": rows, "trainings": made, "rows": counted._asdict()}))
        return
    for row in rows:
        stale = f"  (stale: {row['stale']})" if row["stale"] else ""
        print(f"{row['arm']:<44}{row['answered']:>7,} answered  {', '.join(row['claims'])}{stale}")
    print("\ntrainings: " + "; ".join(f"{t}{' (run)' if run else ''}" for t, run in made.items()))
    print(_count(progress, args.only))
