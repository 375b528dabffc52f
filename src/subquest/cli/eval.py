"""`subquest eval DATASET... --system A,B --out RUN`: a resumable comparison of systems."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError, UsageError
from .agent import (
    add_agent_options,
    build,
    check,
    check_index,
    config_from,
    resources,
    settings_from,
    warn_of_no_index,
    warn_of_untaught,
)
from .evaluating import (
    PAPER,
    add_run_options,
    answer_all,
    check_askable,
    check_run_options,
    judged,
    run_at,
    settings_at,
    settings_of,
    told,
    with_index,
)

if TYPE_CHECKING:
    from ..config import Config
    from ..evaluate.ray_workers import Remote
    from ..evaluate.runner import Solver
    from ..record import Question
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
    parser.add_argument("--filter", action="append", default=[], metavar="EXPR", help="such as hops>=3 or type=bridge")
    parser.add_argument(
        "--ray", metavar="ADDRESS", help="run the episodes on a Ray cluster (auto: the one started here)"
    )
    parser.add_argument(
        "--own-settings", action="store_true", help="each system with its paper's settings, not with those of the first"
    )
    parser.add_argument("--plan-score", action="store_true", help="SEPR against gold decompositions, by MiniLM")
    add_run_options(parser)
    add_agent_options(parser)


def run(args: argparse.Namespace) -> int:
    check_run_options(args)
    from ..data.naming import named
    from ..evaluate.result_table import scored, table
    from ..systems.registry import get

    datasets = {name: _questions(name, source, args) for name, source in named(args.datasets).items()}
    config = with_index(config_from(args), args.datasets)
    names = [name for name in (config.system or "coda").split(",") if name]
    if not names:
        raise UsageError("--system names no system; write one, or several with commas between them")
    for name in names:
        check(get(name), config, args)
    shared = _shared(names, config, args)
    warn_of_no_index(names, config)
    warn_of_untaught(names, config)
    if not args.ray:  # else the index is where the workers are
        check_index(config)
    if args.plan_score:
        from ..metrics.embeddings import check_embedder

        check_embedder()
    with run_at(args.out, {**_settings(config, args), **({"shared": shared} if shared else {})}) as store:
        asyncio.run(_evaluate(store, config, args, names, datasets, shared))
        result = table(scored(store))
    if args.json:
        print(json.dumps(result))
    else:
        _print_table(result)
    return 0


def _questions(name: str, source: str, args: argparse.Namespace) -> list[Question]:
    """The questions of one source, under the name that it has in the table."""
    from ..data import questions_from
    from ..data.reading import of_set, sample
    from ..data.registry import find
    from ..data.select import select

    questions = questions_from(source)
    for expression in args.filter:
        questions = select(questions, expression)
    if args.sample == PAPER:
        entry = find(source.partition(":")[0])
        questions = sample(questions, entry.sample if entry and entry.sample else len(questions))
    elif args.sample:
        questions = sample(questions, args.sample, args.seed)
    questions = questions[: args.limit]
    if not questions:
        raise UsageError(f"{source}: no question passes --filter {' --filter '.join(args.filter)}")
    if without := [q.id for q in questions if not q.answers]:
        raise DataError(
            f"{source}: question {without[0]!r} has no gold answer ({len(without)} in all); nothing can be scored"
        )
    check_askable(source, questions)
    return of_set(name, questions)


def _settings(config: Config, args: argparse.Namespace) -> dict[str, Any]:
    """What must be the same when the run is resumed. Systems and sets may be added; questions may not change."""
    from ..evaluate import fingerprint

    settings = settings_from(args)
    dialect = fingerprint.of_dialect(str(settings.get("dialect", "")))
    return {
        **settings_of(config, args),
        "settings": settings,
        **({"dialect_content": dialect} if dialect else {}),
        **({"abstain": True} if args.abstain else {}),
        **({"votes": args.votes} if args.votes > 1 else {}),
        "preset": args.preset,
        "roles": sorted(args.role),
    }


async def _evaluate(
    store: RunStore,
    config: Config,
    args: argparse.Namespace,
    names: list[str],
    datasets: Mapping[str, Sequence[Question]],
    shared: Mapping[str, Any],
) -> None:
    async with AsyncExitStack() as stack:
        systems: Mapping[str, Solver] = await (_on_cluster if args.ray else _here)(stack, config, args, names, shared)
        await answer_all(store, systems, datasets, args)
    if args.plan_score:
        from ..evaluate.model_scores import judge_plans

        judge_plans(store, told=told("plan score"))
    await judged(store, args)


def _shared(names: Sequence[str], config: Config, args: argparse.Namespace) -> dict[str, Any]:
    """What systems that are compared share, where the user does not say it: the settings of the run's first one.

    A run keeps them, so that systems can be added to it. One without them has left each system its own.
    """
    from ..engine.scripted import ScriptedEngine
    from ..evaluate.fairness import level
    from ..systems.registry import get

    engines = {"": ScriptedEngine([])}
    begun = settings_at(args.out)
    if begun is None:
        shared = {} if args.own_settings else level(build(get(names[0]), config, args, engines, None))
    else:
        shared = dict(begun.get("shared", {}))
        if shared and args.own_settings:
            raise UsageError(f"the systems of the run {args.out} share their settings; --own-settings needs a new run")
    if not shared:
        if begun is not None and len(names) > 1 and not args.own_settings:
            print("subquest: as the run was begun, each system has its own settings", file=sys.stderr)
        return {}
    own = {name: build(get(name), config, args, engines, None) for name in names}
    _tell_shared(own, {name: build(get(name), config, args, engines, None, shared) for name in names})
    return shared


def _tell_shared(own: Mapping[str, System[Any]], alike: Mapping[str, System[Any]]) -> None:
    """What sharing settings has changed, and in what systems differ all the same."""
    from ..evaluate.fairness import differences, effective

    changed = [
        f"{name} {key}={effective(alike[name])[key]!r} (its own: {value!r})"
        for name, system in own.items()
        for key, value in effective(system).items()
        if effective(alike[name])[key] != value
    ]
    if changed:
        message = f"compared with the same settings: {'; '.join(changed)} (--own-settings leaves each its own)"
        print(f"subquest: {message}", file=sys.stderr)
    for line in differences(alike, {}):
        print(f"subquest: the systems still differ in {line}", file=sys.stderr)


async def _here(
    stack: AsyncExitStack, config: Config, args: argparse.Namespace, names: Sequence[str], shared: Mapping[str, Any]
) -> dict[str, System[Any]]:
    """The systems on engines and a search of this process, which close with the stack."""
    from ..systems.registry import get

    engines, search = await stack.enter_async_context(resources(config, cache=not args.no_cache))
    return {name: build(get(name), config, args, engines, search, shared) for name in names}


async def _on_cluster(
    stack: AsyncExitStack, config: Config, args: argparse.Namespace, names: Sequence[str], shared: Mapping[str, Any]
) -> dict[str, Remote]:
    """The systems on a Ray cluster; each worker opens engines and the index of its own, at the same paths."""
    from ..evaluate.ray_workers import Cluster

    here = partial(_here, config=config, args=args, names=names, shared=shared)
    cluster = Cluster(args.ray, here, at_once=args.concurrency)
    stack.push_async_callback(cluster.close)
    return await cluster.systems()


def _print_table(result: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
    cells = [cell for systems in result.values() for cell in systems.values()]
    extra = [(key, name) for key, name in (("judge", "judge"), ("sepr", "plan")) if any(key in c for c in cells)]
    more = "".join(f"{name:>8}" for _, name in extra)
    wide = max(20, *(len(dataset) + 2 for dataset in result))
    long = max(18, *(len(system) + 2 for systems in result.values() for system in systems))
    print(
        f"{'data set':<{wide}}{'system':<{long}}{'n':>6}{'EM':>8}{'95%':>16}"
        f"{'F1':>8}{'CEM':>8}{more}{'forced':>8}{'failed':>8}"
    )
    for dataset, systems in result.items():
        for system, cell in systems.items():
            span = f"{cell['em_low']:.3f}-{cell['em_high']:.3f}"
            more = "".join(f"{cell[key]:>8.3f}" if key in cell else f"{'-':>8}" for key, _ in extra)
            print(
                f"{dataset:<{wide}}{system:<{long}}{cell['n']:>6}{cell['em']:>8.3f}{span:>16}{cell['f1']:>8.3f}"
                f"{cell['cem']:>8.3f}{more}{cell['forced']:>8.2f}{cell['failed']:>8.2f}"
            )
