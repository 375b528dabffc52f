"""`subquest eval DATASET... --system A,B --out RUN`: a resumable comparison of systems."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError, UsageError
from .agent import add_agent_options, build, config_from, resources

if TYPE_CHECKING:
    from ..config import Config
    from ..evaluate.cluster import Remote
    from ..evaluate.runner import Job, Solver
    from ..judge import ModelJudge, RuleJudge
    from ..record import Episode, Question
    from ..runs import RunStore
    from ..systems.base import System


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "datasets",
        nargs="+",
        metavar="DATASET",
        help="a known set (hotpotqa, hotpotqa:dev), a file or a world's folder",
    )
    parser.add_argument("--out", required=True, metavar="RUN", type=Path, help="the run; the same command resumes it")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N questions of each set")
    parser.add_argument("--sample", type=int, metavar="N", help="a fixed random N questions of each set")
    parser.add_argument("--filter", action="append", default=[], metavar="EXPR", help="such as hops>=3 or type=bridge")
    parser.add_argument("--concurrency", type=int, default=8, metavar="N", help="episodes at a time")
    parser.add_argument("--timeout", type=float, metavar="S", help="seconds a question may take")
    parser.add_argument("--seed", type=int, default=0, help="seed for sampling questions and tokens")
    parser.add_argument(
        "--ray", metavar="ADDRESS", help="run the episodes on a Ray cluster (auto: the one started here)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    scoring = parser.add_argument_group("scores that need a model")
    scoring.add_argument("--judge", metavar="MODEL", help="judge answers with this model (or by rules: rules)")
    scoring.add_argument(
        "--judge-instruction",
        choices=("equivalence", "core", "decor"),
        default="equivalence",
        help="what counts as right: the same, the core of a long answer, or DECOR's rules (default: %(default)s)",
    )
    scoring.add_argument("--plan-score", action="store_true", help="SEPR against gold decompositions, by MiniLM")
    add_agent_options(parser)


def run(args: argparse.Namespace) -> int:
    if args.concurrency < 1:
        raise UsageError("--concurrency must be at least 1")
    from ..evaluate.table import scored, table
    from ..runs import RunStore

    datasets = dict(_questions(source, args) for source in args.datasets)
    config = _with_index(config_from(args), args.datasets)
    names = [name for name in (config.system or "coda").split(",") if name]
    with RunStore.resume(args.out, settings=_settings(config, args)) as store:
        asyncio.run(_evaluate(store, config, args, names, datasets))
        if args.plan_score:
            from ..evaluate.afterwards import judge_plans

            judge_plans(store, told=_told("plan score"))
        asyncio.run(judged(store, args))
        result = table(scored(store))
    if args.json:
        print(json.dumps(result))
    else:
        _print_table(result)
    return 0


def _with_index(config: Config, sources: Sequence[str]) -> Config:
    """A world's folder holds its corpus: without another index its own is searched, made at the first use."""
    from dataclasses import replace

    folder = Path(sources[0]).expanduser()
    if config.index or len(sources) > 1 or not (folder / "corpus.jsonl").is_file():
        return config
    place = folder / "docs.sq"
    if not place.exists():
        from ..retrieval import Index
        from ..retrieval.corpus import read

        print(f"making an index of {folder / 'corpus.jsonl'} in {place}", file=sys.stderr)
        Index.build(place, read([folder / "corpus.jsonl"])).close()
    return replace(config, index=str(place))


def _told(what: str) -> Callable[[int], None]:
    return lambda done: print(f"{what}: {done} answers", file=sys.stderr)


async def judged(store: RunStore, args: argparse.Namespace) -> None:
    """A verdict of `--judge` for every answer that has none yet."""
    from ..evaluate.afterwards import judge_answers
    from ..judge import RuleJudge

    if not args.judge:
        return
    judge = _judge(store, args)
    try:
        undecided = await judge_answers(store, judge, told=_told("judged"))
    finally:
        if not isinstance(judge, RuleJudge):
            print(f"judge: {judge.usage.model_calls} model calls, {judge.cached} from the cache", file=sys.stderr)
            await judge.close()
            await judge.engine.close()
    if undecided:
        print(f"the judge did not decide on {undecided} answers; run again to ask once more", file=sys.stderr)


def _judge(store: RunStore, args: argparse.Namespace) -> ModelJudge | RuleJudge:
    from ..engine.resolve import resolve
    from ..judge import ModelJudge, RuleJudge

    if args.judge == "rules":
        return RuleJudge()
    engine = resolve(args.judge)
    if isinstance(engine, Mapping):
        raise UsageError("a judge is one model: --judge takes no roles")
    cache = store.path.with_suffix(".judge.sqlite")
    return ModelJudge(engine, instruction=args.judge_instruction, cache=cache, concurrency=args.concurrency)


def _questions(source: str, args: argparse.Namespace) -> tuple[str, list[Question]]:
    """The questions of one source under the name they have in the table."""
    from dataclasses import replace

    from ..data import questions_from
    from ..data.reading import sample
    from ..data.select import passes

    questions = questions_from(source)
    for expression in args.filter:
        questions = [q for q in questions if passes(q, expression)]
    if args.sample:
        questions = sample(questions, args.sample, args.seed)
    questions = questions[: args.limit]
    if not questions:
        raise UsageError(f"{source}: no question passes --filter {' --filter '.join(args.filter)}")
    if without := [q.id for q in questions if not q.answers]:
        raise DataError(
            f"{source}: question {without[0]!r} has no gold answer ({len(without)} in all); nothing can be scored"
        )
    path = Path(source)
    name = path.name.split(".")[0] if path.exists() else source.partition(":")[0]
    return name, [replace(q, dataset=name) for q in questions]


def _settings(config: Config, args: argparse.Namespace) -> dict[str, Any]:
    """What must be the same when the run is resumed. Systems and sets may be added; questions may not change."""
    from dataclasses import asdict

    from ..evaluate import fingerprint
    from .agent import settings_from

    local = config.index is not None and Path(config.index).is_dir()
    judge = {"model": args.judge, "instruction": args.judge_instruction}
    return {
        "model": config.model or "embedded",
        "index": str(Path(config.index).resolve()) if config.index and local else config.index,
        "index_content": fingerprint.of_index(config.index) if config.index and local else None,
        "search": asdict(config.search),
        "sampling": asdict(config.sampling),
        "limits": asdict(config.limits),
        "settings": settings_from(args),
        "preset": args.preset,
        "roles": sorted(args.role),
        "seed": args.seed,
        "prompts": fingerprint.of_prompts(config.prompts) if config.prompts else None,
        **({"judge": judge} if args.judge else {}),
    }


async def _evaluate(
    store: RunStore,
    config: Config,
    args: argparse.Namespace,
    names: list[str],
    datasets: Mapping[str, Sequence[Question]],
) -> None:
    from ..evaluate.runner import evaluate, jobs_for

    async with AsyncExitStack() as stack:
        systems: Mapping[str, Solver] = await (_on_cluster if args.ray else _here)(stack, config, args, names)
        jobs = list(jobs_for(store, datasets, systems))
        total = sum(map(len, datasets.values())) * len(systems)
        with Progress(total, total - len(jobs)) as progress:
            await evaluate(
                jobs,
                systems,
                store,
                concurrency=args.concurrency,
                seconds=args.timeout,
                seed=args.seed,
                finished=progress.add,
            )


async def _here(
    stack: AsyncExitStack, config: Config, args: argparse.Namespace, names: Sequence[str]
) -> dict[str, System[Any]]:
    """The systems on engines and a search of this process, which close with the stack."""
    from ..systems.registry import get

    engines, search = await stack.enter_async_context(resources(config, cache=not args.no_cache))
    return {name: build(get(name), config, args, engines, search) for name in names}


async def _on_cluster(
    stack: AsyncExitStack, config: Config, args: argparse.Namespace, names: Sequence[str]
) -> dict[str, Remote]:
    """The systems on a Ray cluster; each worker opens engines and the index of its own, at the same paths."""
    from ..evaluate.cluster import Cluster

    cluster = Cluster(args.ray, partial(_here, config=config, args=args, names=names), at_once=args.concurrency)
    stack.push_async_callback(cluster.close)
    return await cluster.systems()


class Progress:
    """How far an evaluation is: on a terminal a line that is rewritten, elsewhere a line now and then."""

    def __init__(self, total: int, done: int) -> None:
        self._total, self._done, self._new = total, done, 0
        self._start = self._shown = time.monotonic()
        self._em = self._tokens = self._cost = 0.0
        self._failed = 0
        self._live = sys.stderr.isatty()

    def __enter__(self) -> Progress:
        if self._done:
            print(f"{self._done} of {self._total} are done already", file=sys.stderr)
        return self

    def __exit__(self, *error: object) -> None:
        if self._new:
            self._show(end="\n")

    def add(self, job: Job, episode: Episode, scores: Mapping[str, float]) -> None:
        self._done += 1
        self._new += 1
        self._em += scores["em"]
        self._tokens += scores["prompt_tokens"] + scores["completion_tokens"]
        self._cost += scores["cost"]
        self._failed += int(scores["failed"])
        if time.monotonic() - self._shown > (0.2 if self._live else 10):
            self._show(end="\r" if self._live else "\n")

    def _show(self, end: str) -> None:
        self._shown = time.monotonic()
        rate = self._new / max(self._shown - self._start, 1e-9)
        left = (self._total - self._done) / rate if rate else 0
        cost = f", cost {self._cost:.4g}" if self._cost else ""
        failed = f", {self._failed} failed" if self._failed else ""
        line = (
            f"{self._done}/{self._total}  EM {self._em / self._new:.3f}  {rate:.2f}/s  "
            f"{left / 60:.0f} min left  {self._tokens / 1000:.0f}k tokens{cost}{failed}"
        )
        print(f"{line:<90}" if end == "\r" else line, end=end, file=sys.stderr, flush=True)


def _print_table(result: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
    cells = [cell for systems in result.values() for cell in systems.values()]
    extra = [(key, name) for key, name in (("judge", "judge"), ("sepr", "plan")) if any(key in c for c in cells)]
    more = "".join(f"{name:>8}" for _, name in extra)
    print(
        f"{'data set':<20}{'system':<18}{'n':>6}{'EM':>8}{'95%':>16}{'F1':>8}{'CEM':>8}{more}{'forced':>8}{'failed':>8}"
    )
    for dataset, systems in result.items():
        for system, cell in systems.items():
            span = f"{cell['em_low']:.3f}-{cell['em_high']:.3f}"
            more = "".join(f"{cell[key]:>8.3f}" if key in cell else f"{'-':>8}" for key, _ in extra)
            print(
                f"{dataset:<20}{system:<18}{cell['n']:>6}{cell['em']:>8.3f}{span:>16}{cell['f1']:>8.3f}"
                f"{cell['cem']:>8.3f}{more}{cell['forced']:>8.2f}{cell['failed']:>8.2f}"
            )
