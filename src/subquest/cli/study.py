"""`subquest study NAME`: an experiment of the papers, its numbers beside theirs; on any model, or as the papers' claims
on the models that a study trains."""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..masking import public
from ..output_file import check_output, complete_file
from .agent_options import add_resource_options, config_from, warn_of_no_index
from .evaluation import (
    add_run_options,
    answer_all,
    check_questions,
    check_run_options,
    open_run,
    run_settings,
    with_world_index,
)
from .judge import judge_run

if TYPE_CHECKING:
    from ..assemble import AgentSpec, Resources
    from ..record import Question
    from ..retrieval.search import Search
    from ..runs import RunStore
    from ..runtime.system import System
    from ..study import Source, Study, Training, Variant
    from ..study.results import Progress


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="which study, or a recipe.toml; without it, the list")
    parser.add_argument("--out", type=Path, metavar="RUN", help="the run (default: NAME.sqlite); again resumes it")
    parser.add_argument(
        "--on", action="append", default=[], metavar="DATASET", help="questions in place of the study's own; repeatable"
    )
    parser.add_argument("--only", action="append", default=[], metavar="VARIANT", help="only this variant; repeatable")
    add_run_options(parser)
    add_resource_options(parser)
    add_training_options(parser)


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


def run(args: argparse.Namespace) -> int:
    from ..study import find_study, read_study, studies
    from ..study.recipe import CLAIMS_BY_SIZE

    if not args.name:
        titles = {name: read_study(path).title for name, path in studies().items()} | CLAIMS_BY_SIZE
        print(json.dumps(titles) if args.json else "\n".join(f"{name:<18}{title}" for name, title in titles.items()))
        return 0
    study = read_study(args.recipes) if args.recipes else find_study(args.name)
    return _run_trained(args, study) if any(v.adapters for v in study.variants.values()) else _run_on_model(args, study)


# ---- studies on the user's model, into a run


def _run_on_model(args: argparse.Namespace, study: Study) -> int:
    from ..assemble import AgentSpec
    from ..evaluate.result_table import scored, table
    from ..study.table import rows, text

    check_run_options(args)
    study = _chosen(study, args.only)
    datasets = _questions(study, args)
    config = with_world_index(config_from(args), args.on)
    spec = AgentSpec.from_config(config, **({"cache": None} if args.no_cache else {}))
    spec = spec.replace(tools=())  # only some variants could call them: the comparison would not be fair
    _check(study, spec)
    out = args.out or Path(f"{study.name}.sqlite")
    with open_run(out, {"study": study.name, **run_settings(config, args)}) as store:
        asyncio.run(_answer(store, study, spec, args, datasets))
        found = rows(study, table(scored(store)))
    setting = public(f"{config.model or 'embedded'}, index {config.index or 'none'}, seed {args.seed}")
    if args.json:
        document = {
            "name": study.name,
            "title": study.title,
            "paper": study.table.setting,
            "ours": setting,
            "rows": [row.to_json() for row in found],
            "paper_numbers": [{"variant": v, "source": s, **values} for v, s, values in study.numbers],
        }
        print(json.dumps(document))
    else:
        print(text(study, found, setting))
        print(f"\na page of it: subquest report {out}", file=sys.stderr)
    return 0


def _chosen(study: Study, only: Sequence[str]) -> Study:
    for name in only:
        if name not in study.variants:
            raise UsageError(f"the study has no variant {name!r}; there are: {'; '.join(study.variants)}")
    return replace(study, variants={n: v for n, v in study.variants.items() if not only or n in only})


def _check(study: Study, spec: AgentSpec) -> None:
    """Refuse an index or settings that cannot work, before a run is started and a model loaded."""
    from ..assemble import check_search, preview_agent
    from ..study.stamps import spec_of

    systems = {name: preview_agent(spec_of(v, spec)) for name, v in study.variants.items()}
    for line in unnamed_differences(study, systems):
        print(f"subquest: the study does not name a difference of its variants: {line}", file=sys.stderr)
    warn_of_no_index([v.system for v in study.variants.values() if not v.search], spec.index)
    check_search(spec.index, mode=spec.mode, tools=spec.tool_options)


def unnamed_differences(study: Study, systems: Mapping[str, System[Any]]) -> list[str]:
    """Shared settings in which variants differ, beyond those that the recipe names for one or for all."""
    from ..assemble.fairness import find_differences

    return find_differences(systems, {n: {*v.named, *study.differs} for n, v in study.variants.items()})


def _questions(study: Study, args: argparse.Namespace) -> dict[str, list[Question]]:
    """The study's questions by source; sets that are missing are skipped with a message, unless all are."""
    from ..data.question_sets import name_sources
    from ..study import Source

    out: dict[str, list[Question]] = {}
    missing = []
    given = tuple(Source(name, place) for name, place in name_sources(args.on).items())
    for source in given or study.sources.values():
        try:
            found = _of_source(source, study, args)
        except UsageError as error:
            if given:
                raise
            missing.append(str(error))
            continue
        if found:
            out[source.name] = found
    for message in missing:
        print(f"skipped: {message}", file=sys.stderr)
    if not out:
        raise UsageError(
            f"none of the study's questions are available; fetch them, or name others with --on{_filters(study)}"
        )
    return out


def _of_source(source: Source, study: Study, args: argparse.Namespace) -> list[Question]:
    from ..data import questions_from
    from ..data.question_sets import filter_questions, sample_questions, with_dataset

    questions = questions_from(source.dataset)
    for expression in (*study.filter, *source.filter):
        questions = filter_questions(questions, expression)
    size = min(n for n in (source.sample, args.sample, len(questions)) if isinstance(n, int))
    chosen = sample_questions([q for q in questions if q.answers], size, args.seed)
    check_questions(source.dataset, chosen)
    return with_dataset(source.name, chosen)


def _filters(study: Study) -> str:
    return f" (it keeps only {' and '.join(study.filter)})" if study.filter else ""


async def _answer(
    store: RunStore,
    study: Study,
    spec: AgentSpec,
    args: argparse.Namespace,
    datasets: Mapping[str, Sequence[Question]],
) -> None:
    from ..assemble import build_agent, open_resources
    from ..study.stamps import spec_of

    async with open_resources(spec) as resources:
        systems: dict[str, System[Any]] = {}
        for variant in study.variants.values():
            place = _search(variant, resources)
            if variant.search and place is None:
                print(f"skipped: {variant.name} (needs {variant.search} search, which is not set up)", file=sys.stderr)
                continue
            systems[variant.name] = build_agent(spec_of(variant, spec), resources._replace(search=place))
        _check_unchanged(store, systems)
        await answer_all(store, systems, datasets, args)
    await judge_run(store, args.judge, args.judge_instruction, concurrency=args.concurrency)


def _check_unchanged(store: RunStore, systems: Mapping[str, System[Any]]) -> None:
    """Refuse a variant whose recipe has changed since the run answered questions with it."""
    for name, system in systems.items():
        known = next((s.id for s in store.summaries(system=name) if s.stop_reason != "failed"), None)
        started = next((event.data for event in store.events(known)), {}) if known else {}
        now: dict[str, Any] = {"system": system.name, "settings": system.recorded_settings()}
        before = {key: started.get(key, now[key]) for key in now}
        before["settings"] = dict(before["settings"])
        before["settings"].setdefault("prompts", now["settings"]["prompts"])  # older runs do not say it
        if before != now:
            raise UsageError(
                f"the run {store.path} has answers of the variant {name!r} as {_describe(before)}, "
                f"not {_describe(now)}; give the variant another name, or name another run with --out"
            )


def _describe(variant: Mapping[str, Any]) -> str:
    settings = ", ".join(f"{key}={json.dumps(value)}" for key, value in variant["settings"].items())
    return f"{variant['system']}{f' with {settings}' if settings else ''}"


def _search(variant: Variant, resources: Resources) -> Search | None:
    if variant.search == "web":
        from ..tools.websearch import from_environment

        return from_environment()
    if variant.search == "rerank" and resources.search is not None:
        from ..retrieval.rerank import Pointwise, Reranked

        return Reranked(resources.search, Pointwise(next(iter(resources.engines.values()))))
    return resources.search


# ---- studies that train their models, into a folder of results


def _run_trained(args: argparse.Namespace, study: Study) -> int:
    from ..study.results import Results
    from ..study.training import open_progress

    results = Results(args.out or study.folder / "results")
    args.runs = args.runs or Path("runs") / args.name
    model = args.model or study.model or "smollm2"
    if study.model and not args.model and (args.train or args.run):
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
        _report(f"{len(short)} trainings are not finished: {', '.join(short)}")
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
    from ..study.runner import Setup, answer_study, missing_for

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
