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
from .agent_options import add_agent_options, config_from, spec_from, warn_of_no_index, warn_of_untrained
from .evaluation import (
    PAPER,
    add_run_options,
    answer_all,
    check_questions,
    check_run_options,
    open_run,
    run_settings,
    stored_settings,
    with_world_index,
)
from .judge import judge_run, report_count

if TYPE_CHECKING:
    from ..assemble import AgentSpec
    from ..config import Config
    from ..evaluate.ray_workers import Remote
    from ..evaluate.result_table import Scored
    from ..evaluate.runner import Solver
    from ..record import Question
    from ..runs import RunStore
    from ..runtime.system import System


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
    parser.add_argument(
        "--by", metavar="FIELD", help="also the results of each type, or of each value of hops, level, …"
    )
    parser.add_argument("--plan-score", action="store_true", help="SEPR against gold decompositions, by MiniLM")
    add_run_options(parser)
    add_agent_options(parser)


def run(args: argparse.Namespace) -> int:
    check_run_options(args)
    from ..assemble import check_search, preview_agent
    from ..data.question_sets import name_sources
    from ..evaluate.result_table import scored

    datasets = {name: _questions(name, source, args) for name, source in name_sources(args.datasets).items()}
    if args.by:
        _check_field(args.by, [question for questions in datasets.values() for question in questions])
    config = with_world_index(config_from(args), args.datasets)
    spec = spec_from(args, config)
    names = [name for name in spec.system.split(",") if name]
    if not names:
        raise UsageError("--system names no system; write one, or several with commas between them")
    specs = {name: spec.replace(system=name) for name in names}
    for each in specs.values():
        preview_agent(each)
    shared = _shared(specs, args)
    warn_of_no_index(names, spec.index)
    warn_of_untrained(names, spec)
    if not args.ray:  # otherwise the index is where the workers are
        check_search(spec.index, mode=spec.mode, tools=spec.tool_options)
    if args.plan_score:
        from ..metrics.embeddings import check_embedder

        check_embedder()
    specs = {name: each.replace(shared=shared) for name, each in specs.items()}
    settings = {**_settings(config, spec, args), **({"shared": shared} if shared else {})}
    with open_run(args.out, settings, len(specs) * sum(map(len, datasets.values()))) as store:
        asyncio.run(_evaluate(store, specs, datasets, args))
        result = _results(scored(store), args.by)
    if args.json:
        print(json.dumps(result))
    else:
        _print_table(result)
    failed = [cell["failed"] == 1 for systems in result.values() for cell in systems.values()]
    return 1 if failed and all(failed) else 0


def _check_field(field: str, questions: Sequence[Question]) -> None:
    from ..evaluate.result_table import field_of

    if not any(field_of(question, field) for question in questions):
        known = [name for name in ("type", "hops", "split") if any(field_of(q, name) for q in questions)]
        known += sorted({name for q in questions for name in q.meta})
        raise UsageError(
            f"--by {field}: no question says its {field}; they have {', '.join(known) or 'no such fields'}"
        )


def _results(rows: list[Scored], field: str | None) -> dict[str, dict[str, dict[str, Any]]]:
    """The result table; with a `field`, each cell also has the cells of its values under `by`."""
    from ..evaluate.result_table import broken_down, table

    result = table(rows)
    for value, group in broken_down(rows, field).items() if field else ():
        for dataset, systems in table(group).items():
            for system, cell in systems.items():
                result[dataset][system].setdefault("by", {})[value] = cell
    return result


def _questions(name: str, source: str, args: argparse.Namespace) -> list[Question]:
    """The questions of one source, under the name that it has in the table."""
    from ..data import questions_from
    from ..data.question_sets import filter_questions, sample_questions, with_dataset
    from ..data.registry import find_set

    questions = questions_from(source)
    for expression in args.filter:
        questions = filter_questions(questions, expression)
    if args.sample == PAPER:
        entry = find_set(source.partition(":")[0])
        questions = sample_questions(questions, entry.sample if entry and entry.sample else len(questions))
    elif args.sample:
        questions = sample_questions(questions, args.sample, args.seed)
    questions = questions[: args.limit]
    if not questions:
        raise UsageError(f"{source}: no question passes --filter {' --filter '.join(args.filter)}")
    if without := [q.id for q in questions if not q.answers]:
        raise DataError(
            f"{source}: question {without[0]!r} has no gold answer ({len(without)} in all); nothing can be scored"
        )
    check_questions(source, questions)
    return with_dataset(name, questions)


def _settings(config: Config, spec: AgentSpec, args: argparse.Namespace) -> dict[str, Any]:
    """What must be the same when the run is resumed. Systems and sets may be added; questions may not change."""
    from ..evaluate import fingerprint

    dialect = fingerprint.of_dialect(str(spec.settings.get("dialect", "")))
    return {
        **run_settings(config, args),
        "settings": dict(spec.settings),
        **({"dialect_content": dialect} if dialect else {}),
        **({"abstain": True} if spec.abstain else {}),
        **({"only_supported": True} if spec.only_supported else {}),
        **({"votes": spec.votes} if spec.votes > 1 else {}),
        "preset": spec.preset,
        "roles": sorted(args.role),
    }


async def _evaluate(
    store: RunStore,
    specs: Mapping[str, AgentSpec],
    datasets: Mapping[str, Sequence[Question]],
    args: argparse.Namespace,
) -> None:
    async with AsyncExitStack() as stack:
        systems: Mapping[str, Solver]
        systems = await (_on_cluster(stack, specs, args) if args.ray else _here(stack, specs))
        await answer_all(store, systems, datasets, args)
    if args.plan_score:
        from ..evaluate.model_scores import judge_plans

        judge_plans(store, report=report_count("plan score"))
    await judge_run(store, args.judge, args.judge_instruction, concurrency=args.concurrency)


def _shared(specs: Mapping[str, AgentSpec], args: argparse.Namespace) -> dict[str, Any]:
    """What the compared systems share where the user does not set it: the settings of the run's first system.

    They are stored with the run, so that systems can be added to it. In a run without them, each system has its own.
    """
    from ..assemble import preview_agent
    from ..assemble.fairness import shared_settings

    stored = stored_settings(args.out)
    if stored is None:
        shared = {} if args.own_settings else shared_settings(preview_agent(next(iter(specs.values()))))
    else:
        shared = dict(stored.get("shared", {}))
        if shared and args.own_settings:
            raise UsageError(f"the systems of the run {args.out} share their settings; --own-settings needs a new run")
    if not shared:
        if stored is not None and len(specs) > 1 and not args.own_settings:
            print("subquest: as when the run began, each system has its own settings", file=sys.stderr)
        return {}
    own = {name: preview_agent(spec) for name, spec in specs.items()}
    _report_shared(own, {name: preview_agent(spec.replace(shared=shared)) for name, spec in specs.items()})
    return shared


def _report_shared(own: Mapping[str, System[Any]], sharing: Mapping[str, System[Any]]) -> None:
    """Say what sharing settings has changed, and in what the systems still differ."""
    from ..assemble.fairness import effective_settings, find_differences

    changed = [
        f"{name} {key}={effective_settings(sharing[name])[key]!r} (its own: {value!r})"
        for name, system in own.items()
        for key, value in effective_settings(system).items()
        if effective_settings(sharing[name])[key] != value
    ]
    if changed:
        message = f"compared with the same settings: {'; '.join(changed)} (--own-settings keeps each system's own)"
        print(f"subquest: {message}", file=sys.stderr)
    for line in find_differences(sharing, {}):
        print(f"subquest: the systems still differ in {line}", file=sys.stderr)


async def _here(stack: AsyncExitStack, specs: Mapping[str, AgentSpec]) -> dict[str, System[Any]]:
    """The systems on shared engines and a search in this process, which close with the stack."""
    from ..assemble import build_agent, open_resources

    resources = await stack.enter_async_context(open_resources(next(iter(specs.values()))))
    return {name: build_agent(spec, resources) for name, spec in specs.items()}


async def _on_cluster(
    stack: AsyncExitStack, specs: Mapping[str, AgentSpec], args: argparse.Namespace
) -> dict[str, Remote]:
    """The systems on a Ray cluster; each worker opens its own engines and index, at the same paths."""
    from ..evaluate.ray_workers import Cluster

    cluster = Cluster(args.ray, partial(_here, specs=specs), at_once=args.concurrency)
    stack.push_async_callback(cluster.close)
    return await cluster.systems()


EXTRA = {"judge": "judge", "sepr": "plan", "unknown_unanswerable": "unknown", "unknown_answerable": "wrongly"}
"""Columns of metrics that not every run has: `unknown` is said to questions that cannot be answered, or wrongly to
others."""


def _print_table(result: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
    rows = [
        (dataset, label, cell)
        for dataset, systems in result.items()
        for system, whole in systems.items()
        for label, cell in ((system, whole), *((f"  {value}", part) for value, part in whole.get("by", {}).items()))
    ]
    extra = [(key, name) for key, name in EXTRA.items() if any(key in cell for _, _, cell in rows)]
    more = "".join(f"{name:>8}" for _, name in extra)
    wide = max(20, *(len(dataset) + 2 for dataset in result))
    long = max(18, *(len(label) + 2 for _, label, _ in rows))
    print(
        f"{'data set':<{wide}}{'system':<{long}}{'n':>6}{'EM':>8}{'95%':>16}"
        f"{'F1':>8}{'CEM':>8}{more}{'forced':>8}{'failed':>8}"
    )
    for dataset, label, cell in rows:
        span = f"{cell['em_low']:.3f}-{cell['em_high']:.3f}"
        more = "".join(f"{cell[key]:>8.3f}" if key in cell else f"{'-':>8}" for key, _ in extra)
        print(
            f"{dataset:<{wide}}{label:<{long}}{cell['n']:>6}{cell['em']:>8.3f}{span:>16}{cell['f1']:>8.3f}"
            f"{cell['cem']:>8.3f}{more}{cell['forced']:>8.2f}{cell['failed']:>8.2f}"
        )
