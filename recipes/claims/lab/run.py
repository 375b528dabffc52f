"""The papers' claims on a GPU that is lent for minutes at a time.

python recipes/claims/lab/run.py claims-1.5b --store STORE --minutes 26 --pack BACK

A study is cut into parts that need nothing of each other: trainings with all rows that use their adapters, and the rows
of a paper that need no training. Each part is one `subquest study` command. The store holds all that is made: moved or
unpacked elsewhere, it is gone on with there.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sqlite3
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from subquest.codec import Record, checked
from subquest.errors import SubquestError, UsageError
from subquest.input_file import read_toml
from subquest.study import Study, Training, Variant, find_study, read_study
from subquest.study.results import Progress, Results
from subquest.study.stamps import known_as
from subquest.study.training import curves_of, folder_of, last_step, open_progress

FIRST = ("CoDA", "peco", "autorefine", "peco-2", "autorefine-2", "HiRA")
"""The most wanted parts: the hierarchy and PECO with two seeds, then HiRA."""
ORDER = ("CoDA", "HiRA", "APEX-Searcher", "DECOR")
"""Papers, in the order of their other parts."""
PIECE = 15_000_000
"""Bytes of a file that is taken home, at most."""
PACK_SECONDS = 60.0
"""Between two packings while parts are carried out."""
TRAINING_SECONDS = 180.0
"""Left, for a training to be begun or gone on with."""
TRAININGS = 3
"""Trainings at once: at 1.5B each takes up to 41 GB, 20 of them for updates of 8,192 tokens and 13 for contexts."""
MEMORY = 0.25
"""Share of the GPU's free memory for the contexts of a process that answers beside them."""


class Seconds(Record):
    """What things take alone on the GPU (`seconds.toml`)."""

    start: float
    document: float
    step: dict[str, float]
    question: dict[str, float]
    size: dict[str, float]


class Part(NamedTuple):
    name: str
    trainings: list[Training]
    variants: list[Variant]

    @property
    def command(self) -> list[str]:
        names = [t.name for t in self.trainings] or [v.name for v in self.variants]
        return [*["--train"] * bool(self.trainings), "--run", *(word for name in names for word in ("--only", name))]


def parts_of(study: Study) -> list[Part]:
    """The parts of a study, the most wanted first: then papers in their order, of each first what needs no training."""
    parts: list[Part] = []
    for variant in study.select(()):
        paper = _paper(study, variant)
        needed = {name for name in variant.adapters.values() if name in study.trainings}
        joined = [p for p in parts if needed & {t.name for t in p.trainings} or (not needed and p.name == paper)]
        needed |= {t.name for p in joined for t in p.trainings}
        trainings = [t for t in study.trainings.values() if t.name in needed]
        variants = [*(v for p in joined for v in p.variants), variant]
        parts = [p for p in parts if p not in joined]
        parts.append(Part(trainings[0].name if trainings else paper, trainings, variants))
    papers = [*ORDER, ""]
    names = ["", *study.trainings]

    def worth(part: Part) -> tuple[int, int, int]:
        paper = min(papers.index(_paper(study, v)) for v in part.variants)
        first = FIRST.index(part.name) if part.name in FIRST else len(FIRST)
        return first, paper, names.index(part.name if part.trainings else "")

    return sorted(parts, key=worth)


def _paper(study: Study, variant: Variant) -> str:
    """The paper of the first claim that a variant is in, where it is one of ours to order."""
    found = (c.paper for c in study.claims for r in c.row if variant.name in r.answered_by)
    return next((paper for paper in found if paper in ORDER), "")


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("study", help="claims-1.5b, claims-0.5b, or a folder of recipes")
    add("--model", default="", help="where the study's model is")
    add("--minutes", type=float, metavar="M", help="stop after so many; without it, only list what is left")
    add("--store", type=Path, metavar="FOLDER", help="results and trainings (default: runs/STUDY)")
    add("--pack", type=Path, metavar="FOLDER", help="write what has to be taken home there, every minute")
    add("--at-once", type=int, default=1, metavar="N", help=f"parts that share the GPU; at most {TRAININGS} train")
    add("--only", action="append", default=[], metavar="PART", help="only this part; repeatable")
    add("--data", type=Path, default=Path("../shared/data/eval"), help="folder of the real sets")
    add("--concurrency", type=int, default=256, metavar="N", help="questions at a time in each process")
    add("--device", default="", help="cuda, cpu (default: cuda if available)")
    return parser


def main(arguments: list[str] | None = None) -> int:
    args = options().parse_args(arguments)
    try:
        return Lab(args).run()
    except SubquestError as error:
        print(f"claims: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1


class Lab:
    """One stretch of time on the GPU."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.end = time.monotonic() + 60 * (args.minutes or 0)
        self.study = read_study(Path(args.study)) if Path(args.study).is_dir() else find_study(args.study)
        self.seconds = checked(Seconds, read_toml(Path(__file__).with_name("seconds.toml"), "the estimates"), "seconds")
        self.store = args.store or Path("runs") / self.study.name
        self.parts = [p for p in parts_of(self.study) if p.name in (args.only or [p.name])]
        if unknown := set(args.only) - {p.name for p in self.parts}:
            raise UsageError(f"--only: there is no part {', '.join(sorted(unknown))}")
        if args.at_once < 1:
            raise UsageError("--at-once: give a number of parts, 1 or more")
        self._begun: set[str] = set()
        self._working: set[str] = set()
        self._again: set[str] = set()
        self._training_now = 0
        self._trainings = TRAININGS
        self._lock = threading.Lock()

    def run(self) -> int:
        if self.args.minutes:
            workers = [threading.Thread(target=self._work) for _ in range(self.args.at_once)]
            for worker in workers:
                worker.start()
            for worker in workers:
                while worker.is_alive():
                    worker.join(PACK_SECONDS)
                    self._pack()
        self._list()
        self._pack()
        return 0

    @property
    def left(self) -> float:
        """Seconds."""
        return self.end - time.monotonic()

    # ---- what is left, and how long it takes

    def _progress(self) -> Progress:
        return open_progress(self.study, Results(self.store / "results"), self.store / "runs", model=self.args.model)

    def _list(self) -> None:
        progress, total = self._progress(), 0.0
        for part in self.parts:
            trained, answered = self._training(part, progress), self._answers(part, progress)
            total += trained + answered
            if trained or answered:
                names = ", ".join(t.name for t in progress.untrained(part.trainings))
                questions = sum(map(progress.unanswered, part.variants))
                print(f"{part.name:<26}{(trained + answered) / 60:>6.1f} min  {questions:>6,} questions  {names}")
        if stale := progress.rows(self.study.variants.values()).stale:
            print(f"{stale} rows are stale: what they were measured with has changed since")
        print(f"{total / 60:.0f} minutes are left, one part after the other" if total else "nothing is left")

    def _training(self, part: Part, progress: Progress) -> float:
        """Seconds that the trainings of a part take."""
        return sum(self._steps(t, progress) + self.seconds.start for t in progress.untrained(part.trainings))

    def _steps(self, training: Training, progress: Progress) -> float:
        """Seconds of a training's steps: as long as steps of its kind took so far, or else as estimated."""
        kind, took = _kind(training), []
        for like in (t for t in self.study.trainings.values() if _kind(t) == kind):
            kept = progress.results.training(like.name, known_as(progress.study, like)).get("figures", {})
            took += [seconds for _, seconds in kept.get("seconds") or self._made(like, progress)]
        step = mean(took) if took else self._estimate(self.seconds.step, kind)
        made = last_step(folder_of(progress.study, training, self.store / "runs"))
        return float((training.setting("optimiser.steps") - made) * step)

    def _made(self, training: Training, progress: Progress) -> list[tuple[int, float]]:
        """The seconds of the steps that a training has made while it is carried out."""
        with contextlib.suppress(SubquestError, sqlite3.Error):  # its store is just being made
            found = curves_of(folder_of(progress.study, training, self.store / "runs"))
            return list(found.get("seconds", {}).items())
        return []

    def _answers(self, part: Part, progress: Progress) -> float:
        """Seconds that the questions of a part take."""
        seconds = 0.0
        for variant in part.variants:
            more = self.seconds.document * max(variant.settings.get("k", 3) - 3, 0)
            seconds += progress.unanswered(variant) * (self._estimate(self.seconds.question, variant.system) + more)
        return seconds + self.seconds.start if seconds else 0.0

    def _estimate(self, table: dict[str, float], kind: str) -> float:
        return table.get(kind, table["other"]) * self.seconds.size.get(self.study.name, 1.0)

    # ---- carrying it out

    def _work(self) -> None:
        """Carry out one part after the other."""
        while (part := self._next()) is not None:
            print(f"{part.name}: begun with {self.left / 60:.1f} minutes left", file=sys.stderr, flush=True)
            status = self._carry_out(part)
            print(f"{part.name}: exit status {status}, {self.left / 60:.1f} minutes left", file=sys.stderr, flush=True)
            with self._lock:
                self._working.discard(part.name)
                self._training_now -= bool(part.trainings)
                if status and part.trainings and part.name not in self._again:
                    # there was too little memory, most likely: once more, when fewer train
                    self._again.add(part.name)
                    self._begun.discard(part.name)
                    self._trainings = max(1, self._training_now)

    def _next(self) -> Part | None:
        """The first part that is left, while there is time: answers and trainings can both be cut off."""
        with self._lock:
            progress = self._progress()
            for part in self.parts:
                training = self._training(part, progress)
                left = training + self._answers(part, progress) and part.name not in self._begun
                room = not part.trainings or self._training_now < self._trainings
                if left and room and self.left >= (TRAINING_SECONDS if training else self.seconds.start):
                    self._begun.add(part.name)
                    self._working.add(part.name)
                    self._training_now += bool(part.trainings)
                    return part
        return None

    def _carry_out(self, part: Part) -> int:
        args = self.args
        words = [sys.executable, "-m", "subquest", "study", self.study.name, "--recipes", str(self.study.folder)]
        words += [*part.command, "--out", str(self.store / "results"), "--runs", str(self.store / "runs")]
        words += ["--data", str(args.data), "--concurrency", str(args.concurrency)]
        words += ["--minutes", f"{self.left / 60:.2f}"]
        words += [*["--model", args.model] * bool(args.model), *["--device", args.device] * bool(args.device)]
        environment = {}
        if args.at_once > 1:  # the most wanted part goes first on the GPU, where MPS runs
            below = any(other.name in self._working for other in self.parts[: self.parts.index(part)])
            environment = {"SUBQUEST_GPU_SHARE": str(MEMORY), "CUDA_MPS_CLIENT_PRIORITY": str(int(below))}
        self.store.mkdir(parents=True, exist_ok=True)
        with (self.store / "log").open("ab") as log:
            return subprocess.run(words, stdout=log, stderr=log, env={**environment, **os.environ}).returncode

    # ---- what is taken home

    def _pack(self) -> None:
        """The results and logs as one file; in files of limited size the adapters that rows still need, and the newest
        checkpoints of trainings that are not finished."""
        if (out := self.args.pack) is None:
            return
        out.mkdir(parents=True, exist_ok=True)
        progress, building = self._progress(), out / "building"
        with tarfile.open(building, "w:xz", preset=1) as tar:
            for pattern in ("results/*.json.xz", "results/episodes/*.jsonl", "log", "runs/*/log"):
                for file in sorted(self.store.glob(pattern)):
                    with contextlib.suppress(FileNotFoundError):  # another part has just completed it
                        tar.add(file, file.relative_to(self.store))
        building.replace(out / "results.tar.xz")
        needed = set()
        for part in (p for p in self.parts if any(map(progress.unanswered, p.variants))):
            unfinished = progress.untrained(part.trainings)
            for training in part.trainings:
                folder = folder_of(progress.study, training, self.store / "runs")
                step = last_step(folder) if training in unfinished else 0
                if training not in unfinished:
                    needed |= self._pack_folder(folder / "adapter", f"{folder.name}-adapter")
                elif step:
                    needed |= self._pack_folder(folder / "checkpoints" / f"step-{step:06}", f"{folder.name}-{step}")
        for old in set(out.glob("*.tar.[0-9][0-9]")) - needed:
            old.unlink()

    def _pack_folder(self, place: Path, name: str) -> set[Path]:
        """The pieces of an adapter or a checkpoint, which are written once."""
        out = self.args.pack
        if not (out / f"{name}.tar.00").exists():
            packed = io.BytesIO()
            try:
                with tarfile.open(fileobj=packed, mode="w") as tar:
                    for file in sorted(place.iterdir()):
                        content = _content(file)
                        entry = tarfile.TarInfo(str(file.relative_to(self.store)))
                        entry.size = len(content)
                        tar.addfile(entry, io.BytesIO(content))
            except FileNotFoundError:  # a newer checkpoint has just taken its place
                return set()
            data = packed.getbuffer()
            for number in reversed(range(-(-len(data) // PIECE))):  # once the first is there, all are
                (out / "building").write_bytes(data[number * PIECE : (number + 1) * PIECE])
                (out / "building").replace(out / f"{name}.tar.{number:02}")
        return set(out.glob(f"{name}.tar.[0-9][0-9]"))


def _content(file: Path) -> bytes:
    """A file's content; of a checkpoint Adam's moments in 16 bits, which makes it a third smaller."""
    if not file.name.startswith("shard-"):
        return file.read_bytes()
    import torch
    from safetensors.torch import load_file, save

    tensors = load_file(file).items()
    return save({name: t if name.startswith("weight/") else t.to(torch.bfloat16) for name, t in tensors})


def _kind(training: Training) -> str:
    """What decides how long a step takes."""
    return "sft" if training.setting("kind") == "sft" else str(training.setting("system"))


if __name__ == "__main__":
    sys.exit(main())
