"""`subquest ask QUESTION`: answer one question and show how."""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ..english import counted
from ..errors import UsageError
from ..events import Event
from ..output_file import check_output, complete_file
from ..record import STYLES
from .agent_options import (
    add_agent_options,
    config_from,
    refuse_no_index,
    spec_from,
    warn_of_untrained,
    warn_of_untrained_tools,
)

if TYPE_CHECKING:
    from ..assemble import AgentSpec
    from ..record import Episode


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("question", help="the question, or - to read it from standard input")
    add_agent_options(parser)
    parser.add_argument(
        "--file", action="append", default=[], metavar="FILE", help="attach a file to the question (systems with tools)"
    )
    parser.add_argument(
        "--style",
        choices=STYLES,
        help="the answer in a few words (short, the default), in a sentence with a citation, or as a report",
    )
    parser.add_argument(
        "--calibration",
        metavar="FILE",
        help="of `subquest runs calibrate`: say in words how likely the answer is right",
    )
    parser.add_argument("--seed", type=int, help="seed for sampling")
    output = parser.add_argument_group("output")
    form = output.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    form.add_argument("--events", action="store_true", help="print events as NDJSON while they happen")
    output.add_argument("--trace", metavar="FILE", type=Path, help="write the whole episode to FILE as JSON")
    output.add_argument(
        "--out",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="write the answer and its sources to FILE: .md, .html, .docx or .pdf; may be given several times",
    )
    output.add_argument("--quiet", action="store_true", help="no tree: only the answer, its evidence and what it cost")


def run(args: argparse.Namespace) -> int:
    from ..assemble import open_agent
    from ..assemble.suitability import has_adapter
    from ..codec import to_dict
    from ..exports import check_export, write_export
    from ..metrics.confidence import likely, own_calibration, read_calibrations
    from ..record import checked_question
    from .terminal import printable
    from .tree import display

    question = checked_question(sys.stdin.read().strip() if args.question == "-" else args.question)
    if args.trace:
        check_output(args.trace, "json")
    for path in args.out:
        check_export(path)

    config = config_from(args)
    spec = spec_from(args, config).replace(style=config.style or "short")
    given = config.calibration
    calibrations = read_calibrations(given) if given else own_calibration(spec.model, spec.engine.adapter)
    refuse_no_index(spec)
    warn_of_untrained([spec.system], spec)
    warn_of_untrained_tools(spec)

    adapted = False

    async def solve(listener: Any) -> Any:
        nonlocal adapted
        async with open_agent(spec) as agent:
            adapted = any(map(has_adapter, agent.engines.values()))
            return await agent.solve(question, listener=listener, seed=args.seed)

    if args.events:
        episode = asyncio.run(solve(lambda e: print(json.dumps(to_dict(e), ensure_ascii=False), flush=True)))
    elif args.json:
        episode = asyncio.run(solve(None))
    elif args.quiet:
        episode = asyncio.run(solve(_print_section))
    else:
        with display() as view:
            episode = asyncio.run(solve(view.add))
    how_likely = likely(episode, calibrations)
    if how_likely and calibrations is not None:
        episode = replace(
            episode, settings={**episode.settings, "likely": how_likely, "calibration": calibrations.about}
        )
    unwritten = [_write(args.trace, lambda path: _write_trace(episode, path))] if args.trace else []
    unwritten += [_write(path, lambda path: write_export(episode, path)) for path in args.out]
    unwritten = [problem for problem in unwritten if problem]
    if args.json:
        about = {"likely": how_likely, "calibration": calibrations.about if calibrations else ""}
        print(json.dumps(summary(episode) | about, ensure_ascii=False))
    elif not args.events:
        _print_answer(episode, streamed=args.quiet, likely=how_likely)
    for failure in episode.errors if args.quiet or args.json or args.events else ():  # the tree shows them
        print(f"subquest: {failure.where}: {printable(failure.message)}", file=sys.stderr)
    if episode.limit_reached and (args.quiet or args.json):
        print(f"subquest: limit reached: {episode.limit_reached}", file=sys.stderr)
    for problem in unwritten:
        print(f"subquest: {problem}", file=sys.stderr)
    if hint := endpoint_hint(episode, spec) or prose_hint(episode, spec, adapted) or system_hint(episode, adapted):
        print(f"subquest: {hint}", file=sys.stderr)
    return 0 if (episode.answer or episode.stop_reason == "abstained") and not unwritten else 1


def endpoint_hint(episode: Episode, spec: AgentSpec) -> str:
    """How to look into an endpoint that answered nothing; empty if it answered."""
    if episode.usage.model_calls or not any(failure.where == "engine" for failure in episode.errors):
        return ""
    models = spec.model.values() if isinstance(spec.model, Mapping) else [spec.model]
    remote = any("http" in name or name.startswith(("openai:", "litellm:")) for name in models)
    return "`subquest doctor` with the same --model says what the endpoint can do" if remote else ""


def prose_hint(episode: Episode, spec: AgentSpec, adapted: bool) -> str:
    """What to try if a model keeps writing prose instead of actions; empty if it does not."""
    prose = sum(error in ("no action", "no <answer>") for t in episode.trajectories for error in t.format_errors)
    prose += sum(failure.where == "format" for failure in episode.errors)
    turns = episode.usage.model_calls
    if prose < 2 or 3 * prose < turns:
        return ""
    used = str(episode.settings.get("prompts", ""))
    others = () if adapted else ("full", "compact")  # an adapter was trained on its own
    tries = [f"--prompts {name}" for name in others if name not in used]
    models = spec.model.values() if isinstance(spec.model, Mapping) else [spec.model]
    if spec.engine.protocol != "tools" and any(re.search(r"\b(openai:|litellm:|https?://)", name) for name in models):
        tries.insert(0, "--protocol tools (if the endpoint has tool calls)")
    options = " or ".join([*tries, "a larger --model"])
    return f"the model wrote prose in place of an action in {prose} of {turns} turns: try {options}"


def system_hint(episode: Episode, adapted: bool) -> str:
    """What to try if an agent's answer rests on no document and its model was not trained for it; otherwise empty."""
    trained = "compact" in str(episode.settings.get("prompts", "")) or adapted
    hands_out = episode.system != "rag" and any(t.parent for t in episode.trajectories)
    if episode.supported is not False or episode.parts_supported or trained or not hands_out:
        return ""
    return "no document supports the answer: a small model often does better with --system rag, which reads once"


def _write(path: Path, write: Callable[[Path], None]) -> str:
    """Write a file. Returns what went wrong: the answer is printed all the same."""
    try:
        write(path)
    except OSError as error:
        return f"cannot write {path}: {error.strerror}"
    except UsageError as error:
        return str(error)
    return ""


def _write_trace(episode: Any, path: Path) -> None:
    with complete_file(path) as scratch:
        scratch.write_text(episode.to_json(), encoding="utf-8")


def _print_section(event: Event) -> None:
    """A section of a report, as soon as it is written."""
    if event.kind == "section":
        print(f"{_lines(event.data['text'])}\n", flush=True)


def summary(episode: Any) -> dict[str, Any]:
    """The episode as `ask --json` prints it."""
    from dataclasses import asdict

    from ..codec import to_dict

    return {
        "question": episode.question.question,
        "answer": episode.answer,
        "report": to_dict(episode.report) if episode.report else None,
        "confidence": episode.confidence,
        "supported": episode.supported,
        "parts_supported": episode.parts_supported,
        "evidence": [asdict(e) for e in episode.evidence],
        "system": episode.system,
        "model": episode.model,
        "usage": asdict(episode.usage),
        "stop_reason": episode.stop_reason,
        "forced": episode.forced,
        "errors": [asdict(f) for f in episode.errors],
        "id": episode.id,
    }


def _lines(text: str) -> str:
    """Text of several lines without control characters."""
    from .terminal import printable

    return "\n".join(map(printable, text.splitlines()))


def _print_answer(episode: Any, *, streamed: bool, likely: str) -> None:
    """The answer, its evidence and what it cost; of a report whose sections are `streamed`, only its sources."""
    from ..citation import cite
    from .terminal import printable

    report = episode.report
    if report is not None and report.style == "report":
        text = episode.answer
        if streamed:
            text = "## Sources" + text.partition("## Sources")[2] if episode.evidence else ""
        print(f"{_lines(text)}\n" if text else "")
        if report.dropped:
            dropped = "a written sentence was" if report.dropped == 1 else f"{report.dropped} written sentences were"
            print(f"  {dropped} dropped, which no quote supports")
        _print_usage(episode.usage)
        return
    print(printable(episode.answer) or episode.why_no_answer)
    if likely:
        print(f"  {likely}")
    if episode.support_note:
        print(f"  {episode.support_note}")
    for evidence in episode.evidence:
        place = cite(evidence.place) or evidence.id
        mark = " (states the answer)" if evidence.states_answer and len(episode.evidence) > 1 else ""
        print(f'  "{printable(evidence.quote)}" - {printable(evidence.title)} [{printable(place)}]{mark}')
    _print_usage(episode.usage)


def _print_usage(usage: Any) -> None:
    print(
        f"  {counted(usage.model_calls, 'model call')}, "
        f"{usage.prompt_tokens + usage.completion_tokens:,} tokens ({usage.cached_tokens:,} cached), "
        f"{counted(usage.searches, 'search')}, {usage.seconds:.1f} s",
    )
