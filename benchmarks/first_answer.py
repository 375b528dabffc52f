"""The first answer of `subquest ask` on a machine that has not read the roles' prompts yet, and on one that has.

    python benchmarks/first_answer.py [--model embedded] [--system coda] [--rounds 2]

Every answer comes from a process of its own, cold and warm in turn; a cold one finds an empty `prompts` folder. Both
write the same text. `seconds` is the best wall-clock time of the rounds, `cpu` the least computing time of all threads,
which other work on the machine disturbs less.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from _asking import desk

QUESTION = "Where was the designer of the Orvane Bridge born?"
DOCUMENTS = {
    "bridge.md": "# Orvane Bridge\n\nThe Orvane Bridge crosses the river Tamm. It was designed by Ilse Marrow.\n",
    "marrow.md": "# Ilse Marrow\n\nIlse Marrow was an engineer. She was born in Kestel in 1871.\n",
}


def main(argv: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="subquest bench first-answer", description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--system", default="coda")
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args(argv)
    figures: dict[str, dict[str, float]] = {}
    answers: set[str] = set()
    with desk() as place:
        (place.folder / "docs").mkdir()
        for file, text in DOCUMENTS.items():
            (place.folder / "docs" / file).write_text(text, encoding="utf-8")
        place.run("index", "build", "docs", "--out", "docs.sq")
        ask = ["ask", QUESTION, "--index", "docs.sq", "--model", args.model, "--system", args.system, "--json"]
        place.run(*ask)  # files in the page cache, derived weights made
        for _ in range(args.rounds):
            for case in ("cold", "warm"):
                if case == "cold":
                    place.forget_prompts()
                seconds, cpu, out = place.run(*ask)
                answers.add(str(json.loads(out)["answer"]))
                best = figures.setdefault(case, {"seconds": seconds, "cpu": cpu})
                figures[case] = {"seconds": min(best["seconds"], seconds), "cpu": min(best["cpu"], cpu)}
                print(case, f"{seconds:.1f} s, {cpu:.1f} s of computing", file=sys.stderr, flush=True)
    ratios = {f"cold / warm, {what}": figures["cold"][what] / figures["warm"][what] for what in ("seconds", "cpu")}
    return {"name": "first-answer", "figures": figures | {"same_answer": len(answers) == 1}, "ratios": ratios}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:]), indent=2))
