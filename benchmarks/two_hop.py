"""Two-hop questions about ordinary documents: right answers and seconds for each model, and what it read and wrote.

    python benchmarks/two_hop.py [--models embedded,qwen-0.5b,qwen-1.5b] [--systems coda,rag] [--adapter FILE|none]
    python benchmarks/two_hop.py --folder DIR --questions FILE.jsonl     documents and questions of your own

Every question is a `subquest ask` of its own. The first is asked twice: *cold*, on a machine that has not read the
roles' prompts yet, and *warm*, with the prompts that were saved then, as all others. CPU seconds count the computing of
all threads and hold while other programs run; wall-clock seconds hold only on an idle machine. An answer is right by
exact match. `read` counts tokens that the model had to read, without those found in a cache.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from _asking import Desk, desk

from subquest.data import questions_from
from subquest.errors import UsageError
from subquest.metrics import exact_match
from subquest.record import Question

EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "documents"
QUESTIONS = {
    "What is the phone number of the person who leads the replacement of the gates of Saltby Lock?": "4421",
    "In which office does the person work who leads the repair of the towpath?": "Fenwick Top",
    "What is the phone number of the person who approves claims above 250 pounds?": "4402",
    "When is the next inspection of the boat that the board approved in May 2026?": "2027-02-01",
    "In which year did the person start who approves the claims of volunteers?": "2021",
    "What is the phone number of the person with whom groups book a visit?": "4431",
}
"""About the documents of EXAMPLES."""


class Asked(NamedTuple):
    """One question, answered by a process of its own."""

    right: bool
    seconds: float
    cpu: float
    calls: int
    roles: dict[str, dict[str, int]]
    """Of each role: `contexts`, and the tokens it `read` and `wrote`."""

    def tokens(self, what: str) -> int:
        return sum(role[what] for role in self.roles.values())


def main(argv: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="subquest bench two-hop", description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="embedded,qwen-0.5b,qwen-1.5b")
    parser.add_argument("--adapter", help="run the models with this adapter, or with `none` (default: what ships)")
    parser.add_argument("--systems", "--system", default="coda,rag")
    parser.add_argument("--folder", type=Path, default=EXAMPLES, help="the documents")
    parser.add_argument("--questions", help="a question set about them; those with two hops are asked")
    parser.add_argument("--sample", type=int, help="ask only the first so many")
    args = parser.parse_args(argv)
    questions = _questions(args)[: args.sample]
    figures: dict[str, Any] = {}
    with desk() as place:
        place.run("index", "build", str(args.folder.resolve()), "--out", "docs.sq")
        for model, system in product(args.models.split(","), args.systems.split(",")):
            options = ["--model", model, "--system", system]
            options += ["--adapter", str(_adapter(args.adapter))] if args.adapter else []
            place.forget_prompts()
            cold = _ask(place, questions[0], options)
            warm = [_ask(place, question, options) for question in questions]
            figures[f"{model}, {system}"] = _figures(cold, warm)
    _table(figures)
    ratios = {f"cold / warm, cpu, {m}": row["cold cpu"] / row["first cpu"] for m, row in figures.items()}
    return {"name": "two-hop", "figures": figures, "load": os.getloadavg()[0], "ratios": ratios}


def _questions(args: argparse.Namespace) -> list[Question]:
    if args.questions:
        found = questions_from(args.questions)
        return [question for question in found if question.hops == 2] or found
    if args.folder.resolve() != EXAMPLES:
        raise UsageError("--folder needs --questions about its documents")
    if not EXAMPLES.is_dir():
        raise UsageError("the example documents are not installed; give --folder and --questions")
    return [Question(f"q{n}", text, (answer,)) for n, (text, answer) in enumerate(QUESTIONS.items(), 1)]


def _adapter(given: str) -> str | Path:
    return given if given == "none" else Path(given).resolve()


def _ask(place: Desk, question: Question, options: list[str]) -> Asked:
    asking = ["ask", question.question, "--index", "docs.sq", *options, "--json", "--trace", "trace.json"]
    done = place.run(*asking, answered=False)
    roles: dict[str, dict[str, int]] = {}
    for context in json.loads((place.folder / "trace.json").read_text())["trajectories"]:
        usage, role = context["usage"], roles.setdefault(context["role"], {"contexts": 0, "read": 0, "wrote": 0})
        role["contexts"] += 1
        role["read"] += usage.get("prompt_tokens", 0) - usage.get("cached_tokens", 0)
        role["wrote"] += usage.get("completion_tokens", 0)
    said = json.loads(done.out)
    asked = Asked(
        bool(exact_match(said["answer"] or "", question.answers)),
        done.seconds,
        done.cpu,
        said["usage"]["model_calls"],
        roles,
    )
    sign = "right" if asked.right else f"wrong ({', '.join(question.answers)})"
    print(f"{said['answer']}: {sign}, {done.cpu:.0f} CPU s, {done.seconds:.0f} s, {roles}", file=sys.stderr, flush=True)
    return asked


def _figures(cold: Asked, warm: list[Asked]) -> dict[str, Any]:
    return {
        "n": len(warm),
        "right": sum(asked.right for asked in warm),
        "cold cpu": cold.cpu,
        "cold seconds": cold.seconds,
        "first cpu": warm[0].cpu,
        "cpu": statistics.median(asked.cpu for asked in warm),
        "most cpu": max(asked.cpu for asked in warm),
        "seconds": statistics.median(asked.seconds for asked in warm),
        "calls": statistics.mean(asked.calls for asked in warm),
        "read": statistics.mean(asked.tokens("read") for asked in warm),
        "wrote": statistics.mean(asked.tokens("wrote") for asked in warm),
        "roles": [asked.roles for asked in warm],
    }


def _table(figures: dict[str, Any]) -> None:
    columns = ("right", "cold cpu", "cpu", "most cpu", "seconds", "calls", "read", "wrote")
    print(f"{'warm unless it says cold':<26}" + "".join(f"{name:>10}" for name in columns), file=sys.stderr)
    for model, row in figures.items():
        cells = [f"{row['right']} of {row['n']}", *(f"{row[name]:.0f}" for name in columns[1:])]
        print(f"{model:<26}" + "".join(f"{cell:>10}" for cell in cells), file=sys.stderr)
    print(
        "cpu: seconds of computing of all threads, the median. seconds: by the clock, to be trusted only on an idle "
        f"machine (load now {os.getloadavg()[0]:.1f}).",
        file=sys.stderr,
    )


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:]), indent=2))
