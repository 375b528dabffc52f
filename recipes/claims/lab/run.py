"""A study of the papers' claims on one GPU that is lent for minutes at a time.

python recipes/claims/lab/run.py recipes/claims/lab/1.5b.toml --model FOLDER --seconds 1500 --unpack packs --pack packs

A plan lists parts in the order of their worth. Each is carried out by `subquest study` in a process of its own, several
at a time, until the time is up; what is cut off goes on from there the next time.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from transfer import pack, unpack

from subquest.codec import Positive, Record, checked, from_dict
from subquest.errors import SubquestError, UsageError
from subquest.input_file import read_json, read_toml
from subquest.study import find_study, read_study
from subquest.study.questions import parts_of, prepare_all
from subquest.study.results import Progress, Results
from subquest.study.stamps import known_as
from subquest.study.training import finish_training, folder_of, last_step, open_progress, trained_adapters
from subquest.train.recipe import Recipe

GRACE = 30.0
"""Seconds that a part has after its time before it is terminated."""
ATTEMPTS = 2
"""Times that a part is started in one slice of time."""
MEMORY = 0.8
"""Share of the GPU's memory for the contexts of all processes."""


class Part(Record):
    name: str
    seconds: Positive
    """What it takes alone on an H200."""
    train: tuple[str, ...] = ()
    """Trainings, one after the other."""
    run: tuple[str, ...] = ()
    """Variants or claims that are answered then."""
    after: tuple[str, ...] = ()
    """Trainings that it needs."""


class Plan(Record):
    study: str
    part: tuple[Part, ...]
    recipes: str = ""


@dataclass(slots=True)
class Running:
    part: Part
    process: subprocess.Popen[bytes]
    waiting: list[list[str]] = field(default_factory=list)
    """Commands that come after."""


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("plan", type=Path)
    add("--model", default="", help="the weights of the study's model")
    add("--seconds", type=float, metavar="S", help="stop after so many; without it, only list what is left")
    add("--at-once", type=int, default=6, metavar="N", help="processes that share the GPU")
    add("--trainers", type=int, default=2, metavar="N", help="how many of them may train")
    add("--only", action="append", default=[], metavar="PART", help="only this part; repeatable")
    add("--data", type=Path, default=Path("../shared/data/eval"), help="folder of the real sets")
    add("--runs", type=Path, default=Path("runs/claims-lab"), metavar="FOLDER", help="where trainings are kept")
    add("--out", type=Path, metavar="FOLDER", help="folder of results (default: results of the recipes)")
    add("--pack", type=Path, metavar="FOLDER", help="at the end, put what must be copied into files of 15 MB")
    add("--unpack", type=Path, metavar="FOLDER", help="at the start, take what --pack put there")
    add("--concurrency", type=int, default=128, metavar="N", help="questions at a time in each process")
    add("--device", default="", help="cuda, cpu (default: cuda if available)")
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
        self.args, self.began = args, time.monotonic()
        plan = checked(Plan, read_toml(args.plan, "the plan"), str(args.plan), error=UsageError)
        self.study = read_study(args.plan.parent / plan.recipes) if plan.recipes else find_study(plan.study)
        self.recipes = ["--recipes", str(self.study.folder)]
        unknown = set(args.only) - {part.name for part in plan.part}
        if unknown:
            raise UsageError(f"--only: there is no part {', '.join(sorted(unknown))}")
        self.parts = [part for part in plan.part if not args.only or part.name in args.only]
        for part in self.parts:
            for names, select in ((part.train, self.study.select_trainings), (part.run, self.study.select)):
                if names:
                    select(names)
        if not 1 <= args.trainers <= args.at_once:
            raise UsageError(f"--trainers must be from 1 to --at-once, {args.at_once}")
        self.results = Results(args.out or self.study.folder / "results")
        self.attempts: dict[str, int] = {}

    def run(self) -> int:
        args = self.args
        if args.unpack:
            if not args.unpack.is_dir():
                raise UsageError(f"--unpack: there is no folder {args.unpack}")
            for folder in [args.unpack, *sorted(f for f in args.unpack.iterdir() if f.is_dir())]:
                if count := unpack(folder, self.results.folder, args.runs):
                    report(f"{count} files unpacked from {folder}")
        if args.seconds is not None:
            self._carry_out()
        self._list()
        if args.pack:
            self._pack()
        return 0

    # ---- what is left

    def _progress(self) -> Progress:
        self.results = Results(self.results.folder)  # other processes write it
        model = self.args.model or self.study.model or "smollm2"
        return open_progress(self.study, self.results, self.args.runs, model=model)

    def _missing(self, part: Part, progress: Progress) -> list[str]:
        """Trainings of a part whose adapters are wanted."""
        chosen = [t for t in progress.study.select_trainings(part.train) if part.train]
        return [t.name for t in progress.untrained(chosen)]

    def _unanswered(self, part: Part, progress: Progress) -> int:
        return sum(progress.unanswered(v) for v in progress.study.select(part.run)) if part.run else 0

    def _is_done(self, part: Part, progress: Progress) -> bool:
        return not self._missing(part, progress) and not self._unanswered(part, progress)

    def _list(self) -> None:
        progress = self._progress()
        rows = progress.rows(progress.study.select(()))
        report(f"rows: {rows.done} done, {rows.left} left, {rows.stale} of them stale")
        total = 0.0
        for part in self.parts:
            missing, questions = self._missing(part, progress), self._unanswered(part, progress)
            if missing or questions:
                total += self._takes(part)
                trained = f"train {', '.join(missing)}; " if missing else ""
                print(f"{part.name:<20}{self._takes(part):>6.0f} s  {trained}{questions:,} questions")
        print(f"together {total / 60:.0f} minutes, one after the other" if total else "nothing is left")

    # ---- carrying it out

    @property
    def _time_left(self) -> float:
        return float(self.args.seconds) - (time.monotonic() - self.began)

    def _carry_out(self) -> None:
        running: list[Running] = []
        ready = threading.Event()
        threading.Thread(target=self._prepare, args=(ready,), daemon=True).start()
        changed, prepared = True, False
        while running or self._time_left > 0:
            ended = [run for run in running if self._ended(run)]
            running = [run for run in running if run not in ended]
            changed, prepared = changed or bool(ended) or ready.is_set() != prepared, ready.is_set()
            while changed and self._time_left > 0 and len(running) < self.args.at_once:
                part = self._next(running, prepared=prepared)
                if part is None:
                    break
                running.append(self._start(part))
            changed = False
            if not running and prepared:
                return
            time.sleep(0.5)

    def _prepare(self, ready: threading.Event) -> None:
        """Make the questions and indexes that answers need, while the first trainings run."""
        asked = {s for variant in self.study.variants.values() for s in self.study.asked_of(variant)}
        parts = [p for s in asked for p in parts_of(self.study.sources[s], self.args.data)]
        try:
            prepare_all(parts, self.args.runs / "cache", report, min(os.cpu_count() or 1, 8))
        finally:
            ready.set()

    def _next(self, running: list[Running], *, prepared: bool) -> Part | None:
        """The first part that can be carried out now.

        Trainings that do not fit into the time that is left, but would into a slice, come after all others. One that
        fits into no slice is begun in its turn and goes on in the next.
        """
        progress = self._progress()
        trainers = sum(bool(run.part.train) for run in running)
        later = None
        for part in self.parts:
            tried = self.attempts.get(part.name, 0) >= ATTEMPTS or any(run.part == part for run in running)
            if tried or self._is_done(part, progress) or not set(part.after) <= progress.stamps.adapters.keys():
                continue
            missing = self._missing(part, progress)
            if (missing and trainers >= self.args.trainers) or (not missing and not prepared):
                continue
            if missing and self._time_left < self._takes(part) <= self.args.seconds:
                later = later or part
                continue
            return part
        return later

    def _takes(self, part: Part) -> float:
        """Seconds that a part still takes: of a training that was begun, its share of steps that is left."""
        done = 0.0
        for training in self.study.select_trainings(part.train) if part.train else []:
            folder = folder_of(self.study, training, self.args.runs)
            if step := last_step(folder):
                recipe = from_dict(Recipe, read_json(folder / "recipe.json"))
                done += min(step / recipe.optimiser.steps, 1.0) / len(part.train)
        return part.seconds * (1 - done)

    def _start(self, part: Part) -> Running:
        self.attempts[part.name] = self.attempts.get(part.name, 0) + 1
        commands = [["--train", *_only(part.train)]] if part.train else []
        commands += [["--run", *_only(part.run)]] if part.run else []
        report(f"[{time.monotonic() - self.began:.0f} s] {part.name}")
        return Running(part, self._process(part, commands[0]), commands[1:])

    def _process(self, part: Part, command: list[str]) -> subprocess.Popen[bytes]:
        args = self.args
        words = [sys.executable, "-m", "subquest", "study", self.study.name, *self.recipes, *command]
        words += ["--out", str(self.results.folder), "--runs", str(args.runs), "--data", str(args.data)]
        words += ["--concurrency", str(args.concurrency), "--minutes", f"{max(self._time_left, 1) / 60:.2f}"]
        words += [*(["--model", args.model] if args.model else []), *(["--device", args.device] if args.device else [])]
        environment = {"SUBQUEST_GPU_SHARE": f"{MEMORY / args.at_once:.3f}", **os.environ}
        args.runs.mkdir(parents=True, exist_ok=True)
        with (args.runs / f"{part.name}.log").open("ab") as log:
            return subprocess.Popen(words, stdout=log, stderr=log, env=environment, start_new_session=True)

    def _ended(self, run: Running) -> bool:
        """Whether a part is over; its next command is started where one is left."""
        if run.process.poll() is None:
            if self._time_left < -GRACE:
                os.killpg(run.process.pid, signal.SIGTERM)  # its training too, which then writes a checkpoint
            return False
        at = f"[{time.monotonic() - self.began:.0f} s] {run.part.name}"
        report(f"{at}: exit status {run.process.returncode}")
        if not run.waiting or self._time_left <= 0:
            return True
        run.process = self._process(run.part, run.waiting.pop(0))
        return False

    # ---- what is copied

    def _pack(self) -> None:
        """Results; adapters that are still answered with; the newest checkpoints of trainings that are not finished."""
        progress = self._progress()
        study, runs = progress.study, self.args.runs
        folders, unfinished = [], []
        made = trained_adapters(study, runs)
        for name, training in study.trainings.items():
            folder = folder_of(study, training, runs)
            users = [v for v in study.variants.values() if name in v.adapters.values()]
            if name in made and Path(made[name]).parent == folder and any(map(progress.unanswered, users)):
                folders.append((f"{folder.name}/adapter", folder / "adapter"))
            finished = self.results.training(name, known_as(study, training)).get("adapter")
            if not finished and (step := last_step(folder)):
                if (folder / "run.sqlite").is_file():  # it went on here: its curves, if it was ended from outside
                    finish_training(study, training, runs, self.results)
                wanted = ("recipe.json", f"checkpoints/step-{step:06d}")
                unfinished += [(f"{folder.name}/{part}", folder / part) for part in wanted]
        count = pack(self.args.pack, self.results.folder, [*folders, *unfinished])
        report(f"packed into {count} files: results, {len(folders)} adapters, {len(unfinished) // 2} checkpoints")


def _only(names: tuple[str, ...]) -> list[str]:
    return [word for name in names for word in ("--only", name)]


if __name__ == "__main__":
    sys.exit(main())
