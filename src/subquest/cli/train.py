"""`subquest train RECIPE.toml --out RUN`: start or resume a training run."""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import signal
import sys
import threading
import tomllib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ..errors import MissingDependency, UsageError
from ..masking import public
from ..runs.file import RUN_FILE, refuse_foreign

if TYPE_CHECKING:
    from ..train.run import TrainRun

ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
"""Environment variables for torch's GPU allocator: the first since torch 2.9, the others before (and still)."""

OWN = ("adapter", "best", "checkpoints", "commands.txt", "last", "lock", "log", "recipe.tmp", "tensorboard")
"""What a run that could not begin, or was brought here without its metrics, may have in its folder."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", type=Path, help="a recipe in TOML; recipes/ has the papers'")
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("--out", type=Path, metavar="RUN", help="the run's folder; the same command resumes it")
    place.add_argument(
        "--prepare", type=Path, metavar="FILE", help="write the gold traces that the recipe trains on and stop"
    )
    place.add_argument(
        "--estimate", type=int, metavar="GPUS", help="say what a step would cost on so many H200 GPUs and stop"
    )
    parser.add_argument(
        "--minutes", type=float, metavar="M", help="stop with a checkpoint before so many minutes are over"
    )
    parser.add_argument("--device", default="", help="cuda, cpu (default: cuda where there is one)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change the recipe, as optimiser.steps=50"
    )
    parser.add_argument(
        "--track", action="append", default=[], metavar="NAME", help="tell wandb or trackio too, where installed"
    )
    parser.add_argument("--json", action="store_true", help="print each step's figures as a line of JSON")


def run(args: argparse.Namespace) -> int:
    try:
        from ..train.guards import Collapsed
        from ..train.launch import prepare, train
        from ..train.monitoring import Monitors, open_monitors
        from ..train.recipe import load_recipe
    except ImportError as error:
        if (error.name or "").startswith("subquest"):
            raise
        raise MissingDependency(f"{error.name}, which training needs,", "train") from None

    recipe = load_recipe(args.recipe, dict(_override(pair) for pair in args.set))
    first = os.environ.get("RANK", "0") == "0"  # of several processes under torchrun, only one prints

    def say(text: str) -> None:
        if first:
            print(text, file=sys.stderr, flush=True)

    if args.prepare:
        say(prepare(recipe, args.prepare, _command(args, "--prepare", args.prepare)))
        return 0
    if args.estimate is not None:
        from ..train.cost import Machine, estimate, table

        if args.estimate < 1:
            raise UsageError(f"--estimate {args.estimate}: give the number of GPUs, at least 1")
        print(table(estimate(recipe, Machine(args.estimate)), args.estimate))
        return 0
    if args.minutes is not None and not args.minutes >= 0:
        raise UsageError(f"--minutes {args.minutes:g}: give a number of minutes, 0 or more")
    if first and not any((args.out / name).exists() for name in ("recipe.json", RUN_FILE)):
        refuse_foreign(args.out, OWN)
    _grow_in_place()
    monitors = Monitors(())
    if first:
        monitors = open_monitors(recipe, args.out, sys.stdout, as_json=args.json, trackers=args.track)
    if first:
        _keep_command(args)
    how = {"minutes": args.minutes, "device": args.device, "say": say, "progress": monitors.status}
    try:
        with Stop(say) as stop:
            done = asyncio.run(train(recipe, args.out, watch=monitors.log, stop=stop, **how))
    except Collapsed as reason:
        kept = args.out / "checkpoints"
        say(f"subquest: stopped: {reason}" + f". The last good checkpoint is in {kept}" * any(kept.glob("step-*")))
        return 1
    finally:
        monitors.close()
    reached = done.checkpoints.steps()[-1]
    say(f"{done.folder}: step {reached} of {done.steps}")
    if not stop():
        say("\n".join(_next_steps(args, done, reached)))
        return 0
    say("stopped; the same command goes on from there")
    return 128 + stop.signal


def _keep_command(args: argparse.Namespace) -> None:
    """Note the command in the run's folder, for its model card."""
    minutes = "" if args.minutes is None else f" --minutes {args.minutes:g}"
    with suppress(FileExistsError, NotADirectoryError):  # the run says what is wrong with its folder
        args.out.mkdir(parents=True, exist_ok=True)
        with (args.out / "commands.txt").open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(_command(args, "--out", args.out) + minutes + "\n")


def _command(args: argparse.Namespace, option: str, place: Path) -> str:
    """The command in short, for somebody who wants to repeat it."""
    words = ["subquest", "train", str(args.recipe), option, str(place)]
    return public(shlex.join([*words, *(word for pair in args.set for word in ("--set", pair))]))


def _next_steps(args: argparse.Namespace, run: TrainRun, reached: int) -> list[str]:
    """What a user can do with a run now."""
    recipe, out = run.recipe, shlex.quote(str(args.out))
    lines = ["next:", f"  subquest report {out} --out curves.svg    # draw its curves"]
    weights = run.folder / ("best" if (run.folder / "best").is_dir() else "last")
    place, model = shlex.quote(str(weights)), recipe.model.path
    if not model.startswith("random:"):  # it could not answer anything, and its vocabulary is its own
        ask = f"subquest ask 'QUESTION' --index INDEX --system {recipe.system}"
        used = f"--model torch:{model} --adapter {place}" if recipe.model.rank else f"--model torch:{place}"
        lines.append(f"  {ask} {used}    # use what it has learnt")
    again = f"subquest train {shlex.quote(str(args.recipe))} --out {out}"
    if reached < run.steps:
        lines.append(f"  {again}    # go on with step {reached + 1}")
    else:
        more = f"optimiser.steps={2 * max(run.steps, recipe.optimiser.steps)}"
        if recipe.kind == "sft" and run.steps < recipe.optimiser.steps:
            more = f"optimiser.epochs={2 * recipe.optimiser.epochs:g}"
        others = "".join(f" --set {shlex.quote(pair)}" for pair in args.set if not pair.startswith(more.split("=")[0]))
        lines.append(f"  {again}{others} --set {more}    # train it longer")
    return lines


def _grow_in_place() -> None:
    """Let torch grow its blocks of GPU memory in place: the batch shapes of updates keep changing, and it would keep
    blocks for each. Torch reads this when CUDA is first used; the user's own setting is kept."""
    if not any(name in os.environ for name in ALLOCATOR):
        os.environ.update(dict.fromkeys(ALLOCATOR[:2], "expandable_segments:True"))


class Stop:
    """Whether to stop: Ctrl-C, or a scheduler's SIGTERM, asks for a checkpoint after this step; a second one ends the
    run.

    Before the first step there is nothing to keep: then the run ends at once.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._before: dict[int, Any] = {}
        self.signal = 0
        self._begun = False

    def __call__(self) -> bool:
        self._begun = True  # called before every step
        return self.signal > 0

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # other threads cannot set handlers
            self._before = {number: signal.signal(number, self._handle) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *error: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _handle(self, number: int, frame: object) -> None:
        if self.signal or not self._begun:
            raise KeyboardInterrupt
        self.signal = number
        self._say("stopping after this step, with a checkpoint; once more ends it at once")


def _override(pair: str) -> tuple[str, object]:
    key, equals, value = pair.partition("=")
    if not equals:
        raise UsageError(f"--set {pair!r}: write KEY=VALUE")
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key, value
