"""`subquest ask QUESTION`: answer one question and show how."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from ..output_file import check_output, complete_file
from .agent_options import add_agent_options, spec_from, warn_of_no_index, warn_of_untrained


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("question", help="the question, or - to read it from standard input")
    add_agent_options(parser)
    parser.add_argument(
        "--file", action="append", default=[], metavar="FILE", help="attach a file to the question (systems with tools)"
    )
    parser.add_argument("--seed", type=int, help="seed for sampling")
    output = parser.add_argument_group("output")
    form = output.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    form.add_argument("--events", action="store_true", help="print events as NDJSON while they happen")
    output.add_argument("--trace", metavar="FILE", type=Path, help="write the whole episode to FILE as JSON")
    output.add_argument("--quiet", action="store_true", help="no tree: only the answer, its evidence and what it cost")


def run(args: argparse.Namespace) -> int:
    from ..assemble import open_agent
    from ..codec import to_dict
    from ..record import checked_question
    from .terminal import printable
    from .tree import display

    question = checked_question(sys.stdin.read().strip() if args.question == "-" else args.question)
    if args.trace:
        check_output(args.trace, "json")

    spec = spec_from(args)
    warn_of_no_index([spec.system], spec.index)
    warn_of_untrained([spec.system], spec.model)

    async def solve(listener: Any) -> Any:
        async with open_agent(spec) as agent:
            return await agent.solve(question, listener=listener, seed=args.seed)

    if args.events:
        episode = asyncio.run(solve(lambda e: print(json.dumps(to_dict(e), ensure_ascii=False), flush=True)))
    elif args.json or args.quiet:
        episode = asyncio.run(solve(None))
    else:
        with display() as view:
            episode = asyncio.run(solve(view.add))
    unwritten = _write_trace(episode, args.trace) if args.trace else ""
    if args.json:
        print(json.dumps(summary(episode), ensure_ascii=False))
    elif not args.events:
        _print_answer(episode)
    for failure in episode.errors:
        print(f"subquest: {failure.where}: {printable(failure.message)}", file=sys.stderr)
    if unwritten:
        print(f"subquest: {unwritten}", file=sys.stderr)
    return 0 if episode.answer and not unwritten else 1


def _write_trace(episode: Any, path: Path) -> str:
    """Write the whole episode to a file. Returns what went wrong: the answer is printed all the same."""
    try:
        with complete_file(path) as scratch:
            scratch.write_text(episode.to_json(), encoding="utf-8")
    except OSError as error:
        return f"cannot write {path}: {error.strerror}"
    return ""


def summary(episode: Any) -> dict[str, Any]:
    """The episode as `ask --json` prints it."""
    from dataclasses import asdict

    return {
        "question": episode.question.question,
        "answer": episode.answer,
        "confidence": episode.confidence,
        "supported": episode.supported,
        "evidence": [asdict(e) for e in episode.evidence],
        "system": episode.system,
        "model": episode.model,
        "usage": asdict(episode.usage),
        "stop_reason": episode.stop_reason,
        "forced": episode.forced,
        "errors": [asdict(f) for f in episode.errors],
        "id": episode.id,
    }


def _print_answer(episode: Any) -> None:
    from ..citation import cite
    from .terminal import printable

    print(printable(episode.answer) or f"no answer ({episode.stop_reason})")
    if episode.supported is False:
        print("  not supported by a document")
    for evidence in episode.evidence:
        place = cite(evidence.place) or evidence.id
        print(f'  "{printable(evidence.quote)}" - {printable(evidence.title)} [{printable(place)}]')
    usage = episode.usage
    print(
        f"  {usage.model_calls} model calls, {usage.prompt_tokens + usage.completion_tokens:,} tokens "
        f"({usage.cached_tokens:,} cached), {usage.searches} searches, {usage.seconds:.1f} s",
    )
