"""The first answer of `subquest ask` on a machine that has not read the roles' prompts yet, and on one that has.

    python benchmarks/first_answer.py [--model embedded] [--system coda] [--rounds 2]

Every answer comes from a process of its own, cold and warm in turn; a cold one finds an empty `prompts` folder. Both
write the same text. `seconds` is the best wall-clock time of the rounds, `cpu` the least computing time of all threads,
which other work on the machine disturbs less.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

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
    from subquest.models import cache_folder

    figures: dict[str, dict[str, float]] = {}
    answers: set[str] = set()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "cache").mkdir()
        (folder / "cache" / "models").symlink_to(cache_folder() / "models")
        (folder / "docs").mkdir()
        for file, text in DOCUMENTS.items():
            (folder / "docs" / file).write_text(text, encoding="utf-8")
        _subquest(folder, "index", "build", "docs", "--out", "docs.sq")
        ask = ["ask", QUESTION, "--index", "docs.sq", "--model", args.model, "--system", args.system, "--json"]
        _subquest(folder, *ask)  # files in the page cache, derived weights made
        for _ in range(args.rounds):
            for case in ("cold", "warm"):
                if case == "cold":
                    shutil.rmtree(folder / "cache" / "prompts", ignore_errors=True)
                seconds, cpu, out = _subquest(folder, *ask)
                answers.add(str(json.loads(out)["answer"]))
                best = figures.setdefault(case, {"seconds": seconds, "cpu": cpu})
                figures[case] = {"seconds": min(best["seconds"], seconds), "cpu": min(best["cpu"], cpu)}
                print(case, f"{seconds:.1f} s, {cpu:.1f} s of computing", file=sys.stderr, flush=True)
    ratios = {f"cold / warm, {what}": figures["cold"][what] / figures["warm"][what] for what in ("seconds", "cpu")}
    return {"name": "first-answer", "figures": figures | {"same_answer": len(answers) == 1}, "ratios": ratios}


def _subquest(folder: Path, *arguments: str) -> tuple[float, float, str]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "subquest", *arguments],
        cwd=folder,
        env=os.environ | {"SUBQUEST_CACHE": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, cpu, done.stdout


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:]), indent=2))
