"""How a model that was never trained on our protocols gets on with each system's prompts, beside naive RAG.

    subquest bench prompts --model torch:MODEL --data ../shared/data/train --split dev
    subquest bench prompts --model openai:NAME@http://HOST/v1 --systems coda,rag --prompts full --prompts mine/
    subquest bench prompts --model gguf:FILE --folder DOCS --questions QUESTIONS.jsonl
    subquest bench prompts --model gguf:FILE --folder DOCS --questions QUESTIONS.jsonl --systems coda --set k=5

For every set of questions, set of prompts and system: support recall (gold passages that its searches brought), the
share of turns with a format error, of answers that were forced and of questions without one, sub-tasks and searches a
question, EM and F1. All systems run with CoDA's settings (documents a search, turns, greedy decoding), so that they
differ in the system and the prompts. This is how prompts are chosen: on dev questions, never on those of an evaluation.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from _episodes import answered, keep
from _options import COUNT

from subquest.cli.agent_options import add_system_options, settings_from

SETS = ("hotpotqa", "2wikimultihopqa", "musique")
SYSTEMS = ("rag", "coda", "decor", "apex", "autorefine", "search-r1", "react", "search-o1", "ircot")
COLUMNS = ("support_recall", "format_errors", "forced", "no_answer", "failed", "tasks", "searches", "em", "f1")
BASELINE = "rag"


class Source(NamedTuple):
    """Questions, and what to search for them."""

    name: str
    questions: list[Any]
    index: Any


def broken_turns(episode: Any) -> int:
    """Turns with a format error, however many they have: a turn that was cut inside a tag has three."""
    from subquest.protocol import parse

    found = 0
    for trajectory in episode.trajectories:
        own = [e for e in episode.events if e.trajectory == (trajectory.part_of or trajectory.id)]
        said = [e for e in own if e.kind == "error" and e.data.get("where") == "format"]
        broken = {e.data["text"] for e in said if "text" in e.data}
        broken |= {e.data["text"] for e in own if e.kind == "turn" and e.data["finish"] == "length"}
        turns = [segment.text for segment in trajectory.segments if segment.kind == "agent"]
        read = turns[:-1] if trajectory.forced else turns  # a forced turn ends a tag that it was given
        broken |= {text for text in read if trajectory.format_errors and parse(text).problems}
        found += sum(text in broken for text in turns)
        found += sum("text" not in e.data for e in said) if not trajectory.part_of else 0
    return found


def figures(episodes: Sequence[Any]) -> dict[str, float]:
    """Means over the questions; the share of format errors is over turns."""
    from subquest.evaluate.score import score

    totals: dict[str, list[float]] = defaultdict(list)
    for episode in episodes:
        found = score(episode)
        for name in ("em", "f1", "forced", "no_answer", "failed", "searches", "support_recall", "completion_tokens"):
            if name in found:
                totals[name].append(found[name])
        totals["tasks"].append(float(sum(t.parent is not None for t in episode.contexts)))
        turns = sum(s.kind == "agent" for t in episode.trajectories for s in t.segments)
        totals["turns"].append(float(turns))
        totals["broken"].append(float(broken_turns(episode)))
    means = {name: sum(values) / len(values) for name, values in totals.items() if values}
    means["format_errors"] = sum(totals["broken"]) / max(1.0, sum(totals["turns"]))
    return means


def sources(args: argparse.Namespace, scratch: Path) -> list[Source]:
    """The dev sets of a folder of data, and the user's own folder of documents."""
    from subquest.data import questions_from
    from subquest.retrieval import Index
    from subquest.retrieval.corpus import read

    found = []
    for name in args.sets if args.data else ():
        questions = questions_from(str(args.data / f"{name}_{args.split}.jsonl.gz"))
        corpora = sorted(args.data.glob(f"{name}*_corpus.jsonl.gz"))
        place = args.cache / f"{name}.sq" if args.cache else scratch / f"{name}.sq"
        index = Index.open(place) if place.exists() else Index.build(place, read(corpora))
        found.append(Source(name, questions[: args.limit], index))
    if args.index:
        found.append(Source(args.index.stem, questions_from(str(args.questions))[: args.limit], Index.open(args.index)))
    if args.folder:
        from subquest.retrieval.ingest import ingest

        place = scratch / "folder.sq"
        with Index.build(place, []) as index:
            ingest(index, [args.folder])
        found.append(Source(args.folder.name, questions_from(str(args.questions))[: args.limit], Index.open(place)))
    return found


async def measure(args: argparse.Namespace, found: Sequence[Source]) -> dict[str, Any]:
    from subquest.assemble import AgentSpec, EngineOptions, build_agent, open_resources, preview_agent
    from subquest.assemble.fairness import shared_settings

    options = EngineOptions(protocol=args.protocol, context=args.context, adapter=args.adapter)
    rows: dict[str, Any] = {}
    shared = shared_settings(preview_agent(AgentSpec(system="coda")))
    shared |= {"max_tokens": args.max_tokens, "temperature": args.temperature}
    variant = {"preset": args.preset, "settings": settings_from(args)}
    base = AgentSpec(model=args.model, engine=options, shared=shared, **variant)
    for name in args.systems:  # what is wrong with one is told before the first has run
        for prompts in args.prompts:
            preview_agent(base.replace(system=name, prompts=prompts or None))
    async with open_resources(base) as resources:
        for source in found:
            for prompts in args.prompts:
                for name in args.systems:
                    spec = base.replace(system=name, prompts=prompts or None)
                    system = build_agent(spec, resources._replace(search=source.index))
                    began = time.perf_counter()
                    episodes = await answered(system, source.questions, args.concurrency, args.seconds)
                    row = figures(episodes) if episodes else {}
                    row |= {"n": len(episodes), "seconds": time.perf_counter() - began}
                    label = "/".join(filter(None, (source.name, prompts if len(args.prompts) > 1 else "", name)))
                    rows[label] = row
                    show(label, row)
                    keep(args.out, label, episodes)
    return rows


def show(label: str, row: Mapping[str, float]) -> None:
    cells = "".join(f"{row.get(c, float('nan')):>10.3f}" for c in COLUMNS)
    print(f"{label:<44}{row['n']:>5}{cells}{row['seconds']:>8.1f}", file=sys.stderr, flush=True)


def main(argv: Sequence[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="subquest bench prompts", description=__doc__)
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--adapter")
    parser.add_argument("--protocol", default="tags", choices=("tags", "tools"))
    parser.add_argument("--data", type=Path, help="a folder with NAME_SPLIT.jsonl.gz and NAME_…corpus.jsonl.gz")
    parser.add_argument("--split", default="dev")
    parser.add_argument("--sets", type=lambda t: t.split(","), default=list(SETS))
    parser.add_argument("--folder", type=Path, help="documents of your own")
    parser.add_argument("--index", type=Path, help="an index of yours, in place of documents")
    parser.add_argument("--questions", type=Path, help="questions about them")
    parser.add_argument("--systems", type=lambda t: t.split(","), default=list(SYSTEMS))
    add_system_options(parser)
    parser.add_argument("--prompts", action="append", default=[], help="full, compact or a folder; repeatable")
    parser.add_argument("--limit", type=COUNT, default=40, help="questions of each set")
    parser.add_argument("--concurrency", type=COUNT, default=64)
    parser.add_argument("--context", type=int, help="the longest context")
    parser.add_argument("--max-tokens", type=COUNT, default=512)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--seconds", type=float, default=3600.0, help="time for each row")
    parser.add_argument("--cache", type=Path, help="a folder for the indexes, kept for the next time")
    parser.add_argument("--out", type=Path, help="a file for the episodes, one a line")
    args = parser.parse_args(argv)
    args.prompts = args.prompts or [""]
    if bool(args.folder or args.index) != bool(args.questions) or not (args.data or args.questions):
        parser.error("give --data FOLDER, or --folder DOCS (or --index INDEX) with --questions FILE")
    head = "".join(f"{c.replace('support_', '')[:9]:>10}" for c in COLUMNS)
    print(f"{'':<44}{'n':>5}{head}{'seconds':>8}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as scratch:
        rows = asyncio.run(measure(args, sources(args, Path(scratch))))
    ratios = {}
    for label, row in rows.items():
        beside = rows.get(f"{label.rpartition('/')[0]}/{BASELINE}", {})
        if beside.get("support_recall") and "support_recall" in row:
            ratios[f"{label}: support recall over {BASELINE}"] = row["support_recall"] / beside["support_recall"]
    return {"name": "prompts", "figures": rows, "ratios": ratios}
