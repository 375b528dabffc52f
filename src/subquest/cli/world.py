"""`subquest world`: make, check, sample, serve and rewrite fictional worlds."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..english import counted
from ..errors import UsageError
from ..output_file import check_output
from .writer_options import add_writer_options, check_writer_options, finish, open_writer, seconds_of

if TYPE_CHECKING:
    from ..engine import Engine
    from ..record import Document, Question


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="make|check|sample|site|plans|instruct|retell"
    )

    make = actions.add_parser("make", help="generate a world: corpus, questions, gold plans, facts")
    make.add_argument("--out", required=True, type=Path, help="folder to write into")
    make.add_argument("--seed", type=int, default=0, help="the same seed gives the same bytes (default 0)")
    make.add_argument("--articles", type=int, default=1000, help="number of articles, at least 160 (default 1000)")
    make.add_argument("--questions", type=int, default=200, help="number of questions (default 200)")
    make.add_argument("--split", default="train", help="train, dev or test: worlds of one seed share no entity")
    make.add_argument("--hops", default="1-4", help="numbers of hops, such as 2, 1-4 or 2,4,6 (1 to 8)")
    make.add_argument("--types", default="", help="question types, separated by commas (default: all)")
    make.add_argument("--noise", type=float, default=1.0, help="how many sentences without facts, 0 to 3 (default 1)")
    make.add_argument("--near-duplicates", type=float, default=0.04, help="how often names repeat (default 0.04)")
    make.add_argument("--unanswerable", type=float, default=0.0, help="share of unanswerable questions (default 0)")
    make.add_argument("--phrasings", default="all", help="all, train (one phrasing left out) or held-out (only that)")
    make.add_argument("--form", default="subquest", help="also write these formats: flashrag, verl or both,…")
    make.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes (default: all cores)")

    check = actions.add_parser("check", help="re-derive every answer from the articles; fail on a contradiction")
    check.add_argument("folder", type=Path)

    sample = actions.add_parser("sample", help="show some articles and questions of a world")
    sample.add_argument("folder", type=Path)
    sample.add_argument("-n", type=int, default=3, help="how many of each (default 3)")
    sample.add_argument("--seed", type=int, default=0, help="which ones")

    site = actions.add_parser("site", help="serve a world as a web site with a search endpoint, on this machine only")
    site.add_argument("folder", type=Path)
    site.add_argument("--port", type=int, default=8320)
    site.add_argument("--write", type=Path, help="write the pages into a folder instead of serving them")

    plans = actions.add_parser("plans", help="rewrite triples and >> forms of gold plans into natural sub-questions")
    plans.add_argument("source", type=Path, help="questions as jsonl or jsonl.gz (MuSiQue, 2WikiMultiHopQA, ours)")
    plans.add_argument("--out", type=Path, help="where the rewritten questions go (without it they are only counted)")

    instruct = actions.add_parser(
        "instruct", help="let a model rewrite questions, plans and gold traces; keep what passes a filter"
    )
    instruct.add_argument("folder", type=Path, help="a world")
    instruct.add_argument("--model", required=True, help="the teacher, as in ask --model; or rules, which needs none")
    instruct.add_argument("--out", required=True, type=Path, help="folder for questions.jsonl and traces-SYSTEM.jsonl")
    instruct.add_argument("--traces", default="", metavar="SYSTEM,…", help="also rewrite gold traces of these systems")
    instruct.add_argument("--limit", type=int, help="only so many questions")

    retell = actions.add_parser(
        "retell", help="let a model write articles and questions in other words; keep all facts"
    )
    retell.add_argument("folder", type=Path, help="a world")
    retell.add_argument("--model", required=True, help="who writes, as in ask --model")
    retell.add_argument("--out", required=True, type=Path, help="folder for the retold world")
    retell.add_argument("--seed", type=int, default=0, help="of the model's choices (default 0)")
    add_writer_options(retell)
    for each in (make, check, sample, plans, instruct, retell):
        each.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    actions = {
        "make": _make,
        "check": _check,
        "sample": _sample,
        "site": _site,
        "plans": _plans,
        "instruct": _instruct,
        "retell": _retell,
    }
    return actions[args.action](args)


def parse_hops(text: str) -> tuple[int, ...]:
    """`2`, `1-4` or `2,4-6` as numbers."""
    out: list[int] = []
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            out.extend(range(int(first), int(last or first) + 1))
    except ValueError:
        raise UsageError(f"--hops {text!r}: write numbers such as 2, 1-4 or 2,4,6") from None
    return tuple(dict.fromkeys(out))


def _make(args: argparse.Namespace) -> int:
    from ..data.question_export import WORLD_FORMATS, export_world, remove_world_exports
    from ..worlds import TYPES, Recipe, write_world
    from ..worlds.world_folder import FILES

    recipe = Recipe(
        seed=args.seed,
        articles=args.articles,
        questions=args.questions,
        split=args.split,
        hops=parse_hops(args.hops),
        types=tuple(t.strip() for t in args.types.split(",")) if args.types else TYPES,
        phrasings=args.phrasings,
        noise=args.noise,
        near_duplicates=args.near_duplicates,
        unanswerable=args.unanswerable,
    )
    forms = [f for f in args.form.split(",") if f and f != "subquest"]
    for form in forms:
        if form not in WORLD_FORMATS:
            raise UsageError(f"--form {form!r}: choose from subquest, {', '.join(WORLD_FORMATS)}")
    others = [name for name in FILES if (args.out / name).exists()]
    if others and not (args.out / "world.json").exists():
        raise UsageError(f"{args.out / others[0]} exists and does not belong to a world; choose another folder")
    written = write_world(args.out, recipe, args.workers)
    if others:
        remove_world_exports(args.out)
        print(f"{args.out}: the world that was there is replaced", file=sys.stderr)
    files = [str(p) for form in forms for p in export_world(args.out, form)]
    if written.questions < recipe.questions:
        short = recipe.questions - written.questions
        print(
            f"{counted(short, 'question')} of these types and hops could not be found: allow more articles",
            file=sys.stderr,
        )
    if args.json:
        counts = {"articles": written.articles, "questions": written.questions}
        print(json.dumps({"folder": str(args.out), **counts, "forms": files}))
    else:
        print(
            f"{args.out}: {counted(written.articles, 'article')}, {counted(written.questions, 'question')}",
            file=sys.stderr,
        )
    return 0 if written.questions == recipe.questions else 1


def _check(args: argparse.Namespace) -> int:
    from ..worlds import check_world

    report = check_world(args.folder)
    if args.json:
        figures = {"articles": report.articles, "facts": report.facts, "questions": report.questions}
        tables = {"kinds": dict(report.kinds), "relations": len(report.relations), "types": dict(report.types)}
        print(json.dumps({"sound": report.sound, **figures, **tables, "problems": report.problems}))
    else:
        for problem in report.problems:
            print(problem, file=sys.stderr)
        verdict = "sound" if report.sound else counted(len(report.problems), "problem")
        counts = f"{counted(report.articles, 'article')}, {counted(report.facts, 'fact')}"
        print(f"{args.folder}: {counts}, {counted(report.questions, 'question')}: {verdict}", file=sys.stderr)
    return 0 if report.sound else 1


def _sample(args: argparse.Namespace) -> int:
    import msgspec

    from ..worlds.random_stream import RandomStream
    from ..worlds.world_folder import read_articles, read_questions

    stream = RandomStream(args.seed, "sample")
    articles = stream.sample(list(read_articles(args.folder)), args.n)
    questions = stream.sample(list(read_questions(args.folder)), args.n)
    if args.json:
        print(msgspec.json.encode({"articles": articles, "questions": questions}).decode())
        return 0
    for article in articles:
        print(f"## {article.title}\n{article.text}\n")
    for q in questions:
        print(f"[{q.type}, {counted(q.hops or 1, 'hop')}] {q.question}\n  answer: {'; '.join(q.answers or ['none'])}")
        for n, step in enumerate(q.decomposition, 1):
            print(f"  {n}. {step.question} -> {step.answer} ({step.support})")
        print()
    return 0


def _site(args: argparse.Namespace) -> int:
    from ..worlds.site import Site, serve

    site = Site.open(args.folder)
    if args.write is not None:
        count = site.write(args.write)
        print(f"{args.write}: {counted(count, 'file')}", file=sys.stderr)
        return 0
    with serve(site, args.port) as url:
        print(f"{url} (Ctrl-C stops)", file=sys.stderr)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)
    return 0


def _plans(args: argparse.Namespace) -> int:
    from ..data.gold_plans import rewrite_file

    if args.out is not None:
        check_output(args.out, "json", source=args.source)
    report = rewrite_file(args.source, args.out)
    if args.json:
        print(json.dumps(report.as_dict()))
    else:
        print(report.summary(), file=sys.stderr)
    return 0


def _instruct(args: argparse.Namespace) -> int:
    from ..assemble.engines import open_engine
    from ..codec import to_dict
    from ..data import read_questions
    from ..data.self_instruct import instruct
    from ..record import Document
    from ..worlds.world_folder import read_articles

    systems = [name.strip() for name in args.traces.split(",") if name.strip()]
    if systems:
        _check_traces(systems)
    questions = read_questions(args.folder / "questions.jsonl")[: args.limit]
    documents = [Document(row.id, row.title, row.text) for row in read_articles(args.folder)]
    planned = [q for q in questions if q.decomposition]
    teacher: Engine
    if args.model == "rules":
        from ..train.rule_teacher import RuleTeacher

        teacher = RuleTeacher(planned)
    else:
        teacher = open_engine(args.model, part="teacher")

    async def work() -> dict[str, Any]:
        try:
            made = await instruct(teacher, planned, {d.title: d.text for d in documents})
            _write_lines(args.out / "questions.jsonl", map(to_dict, made.kept))
            report: dict[str, Any] = {"plans": {"kept": len(made.kept), "refused": dict(made.refused)}}
            for system in systems:
                report[system] = await _rewrite_traces(system, teacher, planned, documents, args.out)
            return report
        finally:
            await teacher.close()

    args.out.mkdir(parents=True, exist_ok=True)
    check_output(args.out / "questions.jsonl", "json", source=args.folder / "questions.jsonl")
    report = asyncio.run(work())
    if args.json:
        print(json.dumps(report))
    else:
        for what, counts in report.items():
            print(f"{what}: {json.dumps(counts)}", file=sys.stderr)
    return 0


def _retell(args: argparse.Namespace) -> int:
    from ..paperwork.retelling import retell

    check_writer_options(args)
    if not (args.folder / "world.json").is_file():
        raise UsageError(f"{args.folder} is not the folder of a world: it has no world.json (subquest world make)")
    engine = open_writer(args)
    work = retell(engine, args.folder, args.out, seed=args.seed, concurrency=args.concurrency, seconds=seconds_of(args))
    made = finish(work, engine)
    report = {"articles": made.articles, "questions": made.questions, "refused": dict(made.refused)}
    if args.json:
        print(json.dumps(report))
    else:
        print(
            f"{counted(made.articles, 'article')} and {counted(made.questions, 'question')} retold in {args.out}",
            file=sys.stderr,
        )
        for reason, count in sorted(made.refused.items()):
            print(f"{count:>7}  {reason}")
    return 0


def _check_traces(systems: Sequence[str]) -> None:
    """Refuse unknown systems and a missing vocabulary before a model is asked."""
    from ..models import embedded_model
    from ..systems.registry import get

    for system in systems:
        get(system)
    embedded_model()


async def _rewrite_traces(
    system: str, teacher: Engine, questions: Sequence[Question], documents: Sequence[Document], out: Path
) -> dict[str, Any]:
    """Writes gold traces of one system in the teacher's words, as episodes with the embedded model's tokens."""
    import tempfile

    from ..codec import to_dict
    from ..data.trace_rewriter import TraceRewriter
    from ..engine.chat_format import CHATML
    from ..engine.torch.loader import load
    from ..engine.torch.vocabulary import Vocabulary
    from ..models import smollm2_path
    from ..retrieval import Index
    from ..train.teacher import make_traces

    source = load(smollm2_path())
    vocabulary = Vocabulary(source.tokenizer, source.architecture.vocabulary)
    rewriter = TraceRewriter(teacher)
    with tempfile.TemporaryDirectory() as folder, Index.build(Path(folder) / "world.sq", documents) as index:
        found = await make_traces(system, questions, index, vocabulary, CHATML, rewriter=rewriter)
    _write_lines(out / f"traces-{system}.jsonl", map(to_dict, found.episodes))
    turns = {"kept": rewriter.kept, "refused": dict(rewriter.refused)}
    return {"traces": len(found.episodes), "rejected": dict(found.rejected), "turns": turns}


def _write_lines(path: Path, rows: Iterable[Any]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
