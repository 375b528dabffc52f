"""`subquest demo`: questions about a made-up world and about a few ordinary documents, answered offline."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import MissingDependency, UsageError

if TYPE_CHECKING:
    from ..engine import Engine
    from ..record import Episode, Question
    from ..retrieval import Index
    from ..worlds import World

ARTICLES = 240
MOST = 1000
"""A world of this size has at least so many questions."""
OFFICE = {
    "How much does the trust pay for meals per day?": ("32 pounds", "up to 32 pounds", "32 pounds per day"),
    "In which office does the person who leads the towpath repair work?": ("Fenwick Top",),
}
"""Questions about the documents that `subquest examples` writes, and their answers."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("demo"),
        metavar="DIR",
        help="where the world and the indexes go (default: demo)",
    )
    parser.add_argument("--seed", type=int, default=2026, help="another seed makes another world")
    parser.add_argument("--questions", type=int, default=3, metavar="N", help="how many to ask about the world")
    parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")


def run(args: argparse.Namespace) -> int:
    from .. import embedded
    from ..record import Question
    from ..worlds import make_world

    if args.questions < 1:
        raise UsageError(f"--questions {args.questions}: ask at least one")
    if args.questions > MOST:
        raise UsageError(f"--questions {args.questions}: the demo's world is small; ask at most {MOST:,}")
    _check_folder(args.out)
    _check_model()  # before a world is made
    count = args.questions
    world = make_world(seed=args.seed, articles=ARTICLES, questions=max(count, 8), split="test", hops=(2, 3))
    index, office = _index(world, args.out), _office(args.out)
    engine = embedded()
    if engine.adapter is None:
        _say("The embedded model has no trained adapter: expect wrong answers, but watch how it works.")
    about = f"{len(index)} articles of a made-up world, indexed in {index.path}; nobody has ever read them."
    papers = (
        f"{len(OFFICE)} questions about the papers of a canal trust, indexed in {office.path}: a model this small was "
        "not trained on such documents."
    )
    parts = [
        (about, index, world.questions[:count]),
        (papers, office, [Question(q, q, a) for q, a in OFFICE.items()]),
    ]
    start = time.monotonic()
    episodes = asyncio.run(_ask(parts, engine, quiet=args.json))
    seconds = round(time.monotonic() - start, 1)
    for one in (index, office):
        one.close()
    right = [_is_right(e) for e in episodes]
    if args.json:
        rows = [
            {
                "question": e.question.question,
                "answer": e.answer,
                "expected": list(e.question.answers),
                "right": ok,
                "seconds": round(e.usage.seconds, 1),
            }
            for e, ok in zip(episodes, right, strict=True)
        ]
        print(json.dumps({"right": sum(right), "n": len(rows), "seconds": seconds, "questions": rows}))
        return 0
    print(f"\n{sum(right)} of {len(right)} right in {seconds:.0f} s, offline, on a model of 135 million parameters.")
    for episode, ok in zip(episodes, right, strict=True):
        _print(episode, ok)
    if not all(right):
        print("A model this small is often wrong. `subquest doctor` says which larger one fits this machine.")
    beside = Path(sys.executable).with_name("subquest")  # an environment that is not activated is not on the path
    program = beside if shutil.which("subquest") is None and beside.exists() else "subquest"
    print(f'Ask your own: {program} ask "..." --index {index.path}')
    return 0


def _check_model() -> None:
    """Say what to install or to fetch where the embedded model cannot run."""
    from ..models import embedded_model

    try:
        from ..engine.embedded.llama_cpp import open_library

        open_library()
    except MissingDependency:
        own = 'subquest ask "..." --index INDEX --model http://localhost:8000/v1'
        raise MissingDependency(
            "the embedded model, which the demo runs on,", "embedded", f"or ask a model at an endpoint: {own}"
        ) from None
    embedded_model()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _check_folder(out: Path) -> None:
    """Refuse a folder whose documents, questions or index are not from an earlier demo: they would be replaced."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out}: it is not a folder")
    above = next(folder for folder in (out, *out.absolute().parents) if folder.exists())
    if not os.access(above, os.W_OK):
        raise UsageError(f"cannot write {out}: no permission to write into {os.path.relpath(above)}")
    taken = [name for name in ("corpus.jsonl", "questions.jsonl", "docs.sq", "office.sq") if (out / name).exists()]
    if taken and ((out / "world.json").exists() or not _asked_in(out / "questions.jsonl")):
        raise UsageError(f"{out / taken[0]} exists and does not belong to a demo; choose another folder with --out")


def _asked_in(questions: Path) -> bool:
    """Whether the first question of a file is about a made-up world."""
    try:
        with questions.open(encoding="utf-8") as file:
            return str(json.loads(file.readline())["id"]).startswith("world-")
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _index(world: World, out: Path) -> Index:
    """The world's corpus and questions as files, and an index of this world and nothing else."""
    from ..codec import to_dict
    from ..retrieval import Index

    out.mkdir(parents=True, exist_ok=True)
    records: dict[str, Sequence[Any]] = {"corpus": world.documents, "questions": world.questions}
    for name, rows in records.items():
        lines = (json.dumps(to_dict(row), ensure_ascii=False) for row in rows)
        (out / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    shutil.rmtree(out / "docs.sq", ignore_errors=True)
    return Index.build(out / "docs.sq", world.documents)


def _office(out: Path) -> Index:
    """An index of the example documents."""
    from ..retrieval import Index
    from ..retrieval.ingest import ingest
    from ..retrieval.settings import Settings
    from .examples import shipped

    shutil.rmtree(out / "office.sq", ignore_errors=True)
    index = Index.create(out / "office.sq", Settings())
    ingest(index, [shipped("examples") / "documents"], jobs=1)
    return index


async def _ask(parts: Sequence[tuple[str, Index, Sequence[Question]]], engine: Engine, *, quiet: bool) -> list[Episode]:
    from ..systems.coda import CoDA
    from .tree import display

    episodes = []
    for about, index, questions in parts:
        agent = CoDA(engine, index)
        _say(about if quiet else f"\n{about}")
        for question in questions:
            if quiet:
                episodes.append(await agent.solve(question))
                continue
            _say("")
            with display() as view:
                episodes.append(await agent.solve(question, listener=view.add))
            verdict = "right" if _is_right(episodes[-1]) else f"wrong: the answer is {question.answers[0]}"
            _say(f"  {verdict} ({episodes[-1].usage.seconds:.0f} s)")
    await engine.close()
    return episodes


def _is_right(episode: Episode) -> bool:
    from ..metrics import exact_match

    return bool(exact_match(episode.answer, episode.question.answers))


def _print(episode: Episode, right: bool) -> None:
    print(f"  {'right' if right else 'wrong'}  {episode.question.question}")
    answer = episode.answer or episode.why_no_answer
    print(f"         answered: {answer}" + ("" if right else f"; the right answer is {episode.question.answers[0]}"))
    if episode.support_note:
        print(f"         {episode.support_note}")
    for evidence in episode.evidence:
        print(f'         "{evidence.quote}" - {evidence.title}')
