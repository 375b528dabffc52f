"""How many arithmetic sub-tasks HiRA's code expert solves with a model, alone and through the whole of HiRA.

    subquest bench code-expert --model torch:MODEL
    subquest bench code-expert --model openai:NAME@http://HOST/v1 --through hira --prompts mine/ --out episodes.jsonl

The tasks are drawn by code from a seed, in 37 kinds (`_arithmetic_tasks.py`). An answer is right if the number, date,
time or name in it is the one asked for, within the rounding asked for (`_arithmetic_answers.py`). `expert` is the code
expert with its sandbox (the system `codeact`); `hira` adds planner, coordinator and the other experts, with an index
that has nothing about the tasks. A task that is not solved has one reason, the first that applies: no code was written,
the last code failed, there is no answer, or the answer is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from _arithmetic_answers import is_right
from _arithmetic_tasks import Task, draw
from _episodes import answered, keep

SYSTEMS = {"expert": "codeact", "hira": "hira"}
SOLVED = "solved"
REASONS = ("no code written", "code failed", "not answered", "wrong answer")
DOCUMENTS = {
    "Orvane Bridge": "The Orvane Bridge crosses the river Skell. Mila Torrun designed it.",
    "Tarn Lighthouse": "The Tarn Lighthouse has a red lantern and stands on a rock off Kestel.",
    "Lake Fenn": "Lake Fenn lies in the hills of Sudria. Its water is clear.",
}


def verdict(task: Task, episode: Any) -> str:
    """Solved, or why not."""
    if is_right(task.answer, episode.answer, task.text):
        return SOLVED
    code = [event for event in episode.events if event.kind == "code"]
    if not code:
        return REASONS[0]
    if code[-1].data["error"]:
        return REASONS[1]
    return REASONS[3] if episode.answer else REASONS[2]


def figures(tasks: Mapping[str, Task], episodes: Sequence[Any], verdicts: Mapping[str, str]) -> dict[str, Any]:
    """Counts over the tasks, and means of their tokens; a task that did not end in time is not answered."""
    counts = Counter(verdicts.get(number, REASONS[2]) for number in tasks)
    kinds: dict[str, list[int]] = {}
    for number, task in tasks.items():
        kind = kinds.setdefault(task.kind, [0, 0])
        kind[0] += verdicts.get(number) == SOLVED
        kind[1] += 1
    n = max(1, len(episodes))
    return {
        "n": len(tasks),
        **{name: counts[name] for name in (SOLVED, *REASONS)},
        "with code": sum(any(event.kind == "code" for event in e.events) for e in episodes),
        "read": sum(e.usage.prompt_tokens for e in episodes) / n,
        "written": sum(e.usage.completion_tokens for e in episodes) / n,
        "kinds": dict(sorted(kinds.items())),
    }


async def check_sandbox(tools: Any) -> None:
    """Refuse to begin where code cannot run: every task would fail, and the model be blamed."""
    from subquest.errors import ToolError
    from subquest.tools.sandbox import RemoteSandbox, Sandbox

    box = RemoteSandbox(tools.remote_sandbox) if tools.remote_sandbox else Sandbox()
    try:
        result = await box.run("print(6 * 7)")
    finally:
        await box.close()
    if result.output.strip() != "42":
        raise ToolError(f"the sandbox does not run code: {result.text}")


async def measure(args: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    from subquest.assemble import AgentSpec, EngineOptions, build_agent, open_resources
    from subquest.record import Document, Question
    from subquest.retrieval import Index
    from subquest.runtime.prompts import own_folder
    from subquest.tools.tool_options import ToolOptions

    tools = ToolOptions(web="none", egress="public")  # nothing in the index is private
    await check_sandbox(tools)
    tasks = {str(number): task for number, task in enumerate(draw(args.tasks, args.seed))}
    asked = [Question(n, task.text, (str(task.answer),), type=task.kind) for n, task in tasks.items()]
    index = Index.build(scratch / "index.sq", [Document(title, title, text) for title, text in DOCUMENTS.items()])
    options = EngineOptions(protocol=args.protocol, context=args.context, adapter=args.adapter)
    sampling = {"temperature": args.temperature, "max_tokens": args.max_tokens}
    prompts = str(own_folder(Path(args.prompts), "hira")) if args.prompts else None  # the expert reads them too
    base = AgentSpec(model=args.model, engine=options, sampling=sampling, prompts=prompts, tool_options=tools)
    rows: dict[str, Any] = {}
    async with open_resources(base) as resources:
        for name in args.through:
            search = index if name == "hira" else None
            system = build_agent(base.replace(system=SYSTEMS[name]), resources._replace(search=search))
            began = time.perf_counter()
            episodes = await answered(system, asked, args.concurrency, args.seconds)
            verdicts = {e.question.id: verdict(tasks[e.question.id], e) for e in episodes}
            rows[name] = {**figures(tasks, episodes, verdicts), "seconds": time.perf_counter() - began}
            keep(args.out, name, episodes, verdicts)
            show(name, rows[name])
    index.close()
    return rows


def show(name: str, row: Mapping[str, Any]) -> None:
    reasons = ", ".join(f"{reason} {row[reason]}" for reason in REASONS)
    print(
        f"{name}: solved {row[SOLVED]} of {row['n']}; {reasons}; with code {row['with code']}; tokens a task "
        f"{row['read']:,.0f} read, {row['written']:,.0f} written; {row['seconds']:.1f} s",
        file=sys.stderr,
        flush=True,
    )


def show_kinds(rows: Mapping[str, Any]) -> None:
    kinds = sorted({kind for row in rows.values() for kind in row["kinds"]})
    print(f"\n{'kind':<28}" + "".join(f"{name:>10}" for name in rows), file=sys.stderr)
    for kind in kinds:
        cells = ["{} of {}".format(*row["kinds"].get(kind, (0, 0))) for row in rows.values()]
        print(f"{kind:<28}" + "".join(f"{cell:>10}" for cell in cells), file=sys.stderr)


def main(argv: Sequence[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="subquest bench code-expert", description=__doc__)
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--adapter")
    parser.add_argument("--protocol", default="tags", choices=("tags", "tools"))
    parser.add_argument("--tasks", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0, help="another seed draws other tasks")
    parser.add_argument("--through", default="both", choices=("expert", "hira", "both"))
    parser.add_argument("--prompts", help="full, compact or a folder; default: the model's")
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--context", type=int, help="the longest context")
    parser.add_argument("--max-tokens", type=int, default=512)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--seconds", type=float, default=3600.0, help="time for each row")
    parser.add_argument("--out", type=Path, help="a file for the episodes, one a line")
    args = parser.parse_args(argv)
    args.through = list(SYSTEMS) if args.through == "both" else [args.through]
    with tempfile.TemporaryDirectory() as scratch:
        rows = asyncio.run(measure(args, Path(scratch)))
    show_kinds(rows)
    return {
        "name": "code-expert",
        "figures": rows,
        "ratios": {f"{name}: solved": row[SOLVED] / max(1, row["n"]) for name, row in rows.items()},
    }
