"""The papers' claims on one shared GPU, in slices of minutes: several processes answer beside several trainings.

python recipes/claims/lab/run.py --plan --workers 13 --minutes 9
python recipes/claims/lab/run.py --run --only 'coda-*' --workers 13 --minutes 9 --use cold=FOLDER

`subquest study claims` does the same work in one process, and lists and writes what is stored.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from pathlib import Path

from timing import BESIDE, TRAIN, describe, left_by_kind, slices_of
from trainers import Trainings
from transfer import pack, unpack_adapters, unpack_results
from workers import answer_with_workers

from subquest.errors import SubquestError, UsageError
from subquest.retrieval.minilm import weights
from subquest.study import Study, Training, Variant, find_study, read_study
from subquest.study.results import Progress, Results
from subquest.study.runner import Setup, missing_for
from subquest.study.training import folder_of, missing_start, open_progress, trained_adapters

MEMORY = 0.7
"""Share of the GPU's memory for all contexts, unless `SUBQUEST_GPU_SHARE` says otherwise."""


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--run", action="store_true", help="answer what is not answered yet")
    add("--train", action="store_true", help="train the adapters that are missing, with --run beside it")
    add("--plan", action="store_true", help="what is left, in slices of --minutes (default: 9)")
    add("--only", action="append", default=[], metavar="PATTERN", help="variants, claims or trainings; !PATTERN: not")
    add("--minutes", type=float, metavar="M", help="stop after M minutes; training takes at most a part of them")
    add("--workers", type=int, default=1, metavar="N", help="processes that share the GPU")
    add("--trainers", type=int, metavar="N", help="how many of them train while there is something to train (all)")
    add("--use", action="append", default=[], metavar="NAME=PLACE", help="an adapter, as cold=FOLDER")
    add("--data", type=Path, default=Path("../shared/data/eval"), help="folder of the real sets")
    add("--recipes", type=Path, metavar="FOLDER", help="other recipes than recipes/claims")
    add("--runs", type=Path, default=Path("runs/claims"), metavar="FOLDER", help="where trainings are kept")
    add("--out", type=Path, metavar="FOLDER", help="folder of results (default: results of the recipes)")
    add("--pack", type=Path, metavar="FOLDER", help="at the end, put what must be copied into a few files")
    add("--unpack", type=Path, metavar="FOLDER", help="at the start, take what --pack put there")
    add("--concurrency", type=int, default=256, metavar="N", help="questions at a time in each process")
    add("--model", default="smollm2")
    add("--device", default="", help="cuda, cpu (default: cuda if available)")
    add("--json", action="store_true", help="--plan as JSON")
    return parser


def main(arguments: list[str] | None = None) -> int:
    args = options().parse_args(arguments)
    try:
        return Lab(args).run()
    except SubquestError as error:
        print(f"claims: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1


def report(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Lab:
    """One slice of time."""

    def __init__(self, args: argparse.Namespace) -> None:
        if args.workers < 1:
            raise UsageError("--workers must be at least 1")
        if args.trainers is not None and not 1 <= args.trainers <= args.workers:
            raise UsageError(f"--trainers must be from 1 to the number of --workers, {args.workers}")
        self.args, self.began = args, time.time()
        self.study: Study = read_study(args.recipes) if args.recipes else find_study("claims")
        self.results = Results(args.out or self.study.folder / "results")

    def run(self) -> int:
        args = self.args
        if args.unpack:
            self._unpack()
        failed, trainings = 0, None
        if args.train:
            trainings, failed = self._trainings()
        progress = self._progress()
        if args.run:
            failed += self._answer(progress, trainings)
        elif trainings is not None:
            trainings.run()
        if trainings is not None and (short := trainings.short):
            report(f"{len(short)} trainings are left for the next slice: {', '.join(short)}")
            failed += len(short)
        if args.train or args.run:
            self._report_left(progress)
        if args.pack:
            self._pack(progress)
        if args.plan or not (args.train or args.run or args.pack or args.unpack):
            self._plan(progress)
        return 1 if failed else 0

    def _progress(self) -> Progress:
        use = dict(pair.split("=", 1) for pair in self.args.use if "=" in pair)
        if len(use) < len(self.args.use) or any(not Path(place).exists() for place in use.values()):
            raise UsageError("--use: write NAME=PLACE, with a place that exists")
        return open_progress(self.study, self.results, self.args.runs, use=use, model=self.args.model)

    def _trainings(self) -> tuple[Trainings | None, int]:
        """Train what other trainings start from, where it is missing; returns the others, ready to start, or how many
        are left where they have to wait."""
        chosen = self.study.select_trainings(self.args.only)
        while (start := missing_start(progress := self._progress(), chosen)) is not None:
            if left := self._side_by_side(progress, [start]).run():
                report(f"the adapter {start.name} was not made: the trainings that start from it wait for it")
                return None, len(left)
        return self._side_by_side(progress, [t for t in chosen if t.name not in progress.study.starts]), 0

    def _side_by_side(self, progress: Progress, wanted: list[Training]) -> Trainings:
        args = self.args
        chosen = progress.untrained(wanted)
        if any(t.needs_minilm for t in chosen):
            try:
                weights()
            except SubquestError as error:
                report(f"skipped: {', '.join(t.name for t in chosen if t.needs_minilm)}: {error}")
                chosen = [t for t in chosen if not t.needs_minilm]
        at_once = args.trainers or args.workers
        share = 0.95 if not args.run else TRAIN if at_once == args.workers else BESIDE
        left = None if args.minutes is None else share * args.minutes - (time.time() - self.began) / 60
        adapters = progress.stamps.adapters
        return Trainings(
            progress.study, chosen, args.runs, self.results,
            adapters=adapters, minutes=left, at_once=at_once, device=args.device, report=report,
        )  # fmt: skip

    def _answer(self, progress: Progress, trainings: Trainings | None) -> int:
        args, study = self.args, progress.study
        coming = trainings.places if trainings is not None else {}
        adapters = {**progress.stamps.adapters, **coming}
        variants: list[Variant] = []
        later: list[Variant] = []
        named = args.train and any(not p.startswith("!") for p in args.only)
        for variant in study.using(args.only) if named else study.select(args.only):
            if problem := missing_for(variant, adapters):
                report(f"skipped: {variant.name}: {problem}")
            else:
                (later if coming.keys() & set(variant.adapters.values()) else variants).append(variant)
        memory = float(os.environ.get("SUBQUEST_GPU_SHARE") or MEMORY) / args.workers
        until = math.inf if args.minutes is None else self.began + 60 * args.minutes
        setup = Setup(args.model, adapters, args.runs / "cache", args.concurrency, memory, until, args.device)
        trainers = trainings if coming else None
        return answer_with_workers(
            progress, variants, setup,
            data=args.data, workers=args.workers, trainers=trainers, later=later, report=report,
        )  # fmt: skip

    def _report_left(self, progress: Progress) -> None:
        """Rows done and left, and the minutes that are left by kind of work."""
        variants = progress.study.select(() if self.args.train else self.args.only)
        rows = progress.rows(variants)
        report(f"rows: {rows.done} done, {rows.left} left, {rows.stale} of them stale")
        for kind, minutes, measured in left_by_kind(progress, variants, workers=self.args.workers):
            report(f"  {kind}: {minutes:.1f} min left{'' if measured else ' (a guess)'}")

    def _plan(self, progress: Progress) -> None:
        args = self.args
        chosen = progress.study.select(args.only)
        on_gpu, oracles = [v for v in chosen if not v.oracle], [v for v in chosen if v.oracle]
        slices = slices_of(progress, on_gpu, minutes=args.minutes or 9.0, workers=args.workers)
        rows = progress.rows(chosen)
        if args.json:
            found = [
                {"minutes": round(s.minutes, 2), "trainings": [t.name for t in s.trainings], "questions": s.questions}
                for s in slices
            ]
            print(json.dumps({"rows": rows._asdict(), "slices": found}))
            return
        print(f"rows: {rows.done} done, {rows.left} left, {rows.stale} of them stale")
        print("\n".join(describe(slices)))
        if here := sum(minutes for _, minutes, _ in left_by_kind(progress, oracles, workers=1)):
            print(f"without a GPU: {here:.0f} min of one core for the variants with an oracle")

    def _unpack(self) -> None:
        if not self.args.unpack.is_dir():
            raise UsageError(f"--unpack: there is no folder {self.args.unpack}")
        report(f"{unpack_results(self.args.unpack, self.results.folder)} files of results unpacked")
        found = unpack_adapters(self.args.unpack, self.args.runs)
        report(f"{len(found)} adapters unpacked: {', '.join(found) or 'none'}")

    def _pack(self, progress: Progress) -> None:
        """Results, the start of the trainings, and the adapters of trainings with rows that are not complete."""
        study, wanted, start = progress.study, {}, ""
        for name, place in trained_adapters(study, self.args.runs).items():
            users = [v for v in study.variants.values() if name in v.adapters.values()]
            folder = folder_of(study, study.trainings[name], self.args.runs).name
            if name in study.starts or any(map(progress.unanswered, users)):
                wanted[folder] = Path(place)
            if name in study.starts:
                start = start or folder
        left = pack(self.args.pack, self.results.folder, wanted, start)
        total = sum(f.stat().st_size for f in self.args.pack.glob("claims-*.tar"))
        report(f"packed results and {len(wanted) - len(left)} adapters, {total / 1e6:.1f} MB; no room for {len(left)}")


if __name__ == "__main__":
    sys.exit(main())
