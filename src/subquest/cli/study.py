"""`subquest study NAME`: an experiment of the papers, its numbers beside theirs; on any model, or as the papers' claims
on the models that a study trains."""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..masking import public
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
from .trained_study import add_training_options, run_trained

if TYPE_CHECKING:
    from ..assemble import AgentSpec, Resources
    from ..record import Question
    from ..retrieval.search import Search
    from ..runs import RunStore
    from ..runtime.system import System
    from ..study import Source, Study, Variant


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


def run(args: argparse.Namespace) -> int:
    from ..study import find_study, read_study, studies
    from ..study.catalog import CLAIMS_BY_SIZE

    if not args.name:
        titles = {name: read_study(path).title for name, path in studies().items()} | CLAIMS_BY_SIZE
        print(json.dumps(titles) if args.json else "\n".join(f"{name:<18}{title}" for name, title in titles.items()))
        return 0
    study = read_study(args.recipes) if args.recipes else find_study(args.name)
    trained = any(v.adapters for v in study.variants.values())
    return run_trained(args, study) if trained else _run_on_model(args, study)


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
    answers = len(study.variants) * sum(map(len, datasets.values()))
    with open_run(out, {"study": study.name, **run_settings(config, args)}, answers) as store:
        asyncio.run(_answer(store, study, spec, args, datasets))
        found = rows(study, table(scored(store)))
    setting = public(f"{spec.model}, index {config.index or 'none'}, seed {args.seed}")
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
        print(f"\na page of it: subquest report {shlex.quote(str(out))}", file=sys.stderr)
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
