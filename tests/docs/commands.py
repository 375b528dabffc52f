"""The commands that the documentation shows, and how the tests run them.

A command is a line of an indented block, or of a fenced block without a language, that begins with a program. Each one
is run, in the order of its page, unless `NOT_RUN` gives the reason why not. Then it is at least checked: `subquest` and
benchmarks take its options, recipes their changes; make targets and extras exist. A test that a reason names calls it.
"""

from __future__ import annotations

import re
import shlex
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))

_PROGRAMS = "subquest|make|pip|python3?|torchrun|docker|export|curl|hf|git|apt-get|tensorboard|ray|vllm|chrt|pytest"
_VARIABLES = r"(?:[A-Z_]+=(?:\$\([^)]*\)|\S+) )*"
_COMMAND = re.compile(rf"(?:\$ )?({_VARIABLES}(?:{_PROGRAMS}) .*|make|subquest)")
_FENCE = re.compile(r"^ *```(\w*)")
_COMMENT = re.compile(r"\s+# .*")
_INLINE = re.compile(r"`(subquest [^`]+)`")
"""`RUN…` and `[--out FILE]` are how a text speaks of arguments; a block shows what can be typed."""


class Command(NamedTuple):
    page: str
    line: int
    text: str


def commands(page: Path) -> list[Command]:
    """The commands of a page's blocks, each on one line and without its comment."""
    found: list[Command] = []
    fence: str | None = None
    joined, start = "", 0
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if mark := _FENCE.match(line):
            fence = mark[1] if fence is None else None
            continue
        if fence not in (None, "", "sh", "bash", "console") or (fence is None and not line.startswith("    ")):
            continue
        text = _COMMENT.sub("", line).strip()
        if not joined:
            match = _COMMAND.fullmatch(text)
            text, start = (match[1] if match else ""), number
        joined = f"{joined.removesuffix(chr(92))}{text}"
        if not joined.endswith("\\"):
            name = str(page.relative_to(ROOT))
            found += [Command(name, start, part.strip()) for part in joined.split(" && ") if part]
            joined = ""
    return found


def mentions(page: Path) -> list[Command]:
    """Commands inside the text, such as `subquest report RUN`, that have arguments."""
    text = page.read_text(encoding="utf-8")
    name = str(page.relative_to(ROOT))
    return [
        Command(name, text[: match.start()].count("\n") + 1, re.sub(r"\bN\b", "1", " ".join(match[1].split())))
        for match in _INLINE.finditer(re.sub(r"```.*?```", lambda block: "\n" * block[0].count("\n"), text, flags=re.S))
    ]


NOT_RUN = {
    "make *": "installs, or runs this very test suite; the target is checked",
    "pip install *": "changes the environment; the extras are checked",
    "python3 -m venv *": "changes the environment",
    "source *": "changes the environment",
    "apt-get install *": "needs root and a network",
    "hf download *": "needs the Hugging Face hub",
    "*docker compose up": "needs a container engine",
    "export *": "sets a variable for the next command",
    "torchrun *": "needs eight GPUs; tests/train/test_distributed.py runs two processes",
    "python -m verl.*": "needs verl and eight GPUs; tests/train/test_verl.py",
    "*python3 benchmarks/*": "minutes of an idle machine",
    "subquest bench *": "minutes of an idle machine; tests/test_benchmark_*.py run small ones",
    "subquest study claims* --*": "hours of a GPU; tests/study/test_claims_pages.py runs them on a tiny model",
    "subquest * --system scout/*": "tests/test_contributing.py",
    "subquest train scout/*": "tests/test_contributing.py",
    "subquest ask * --system notes.py:Notes *": "tests/systems/test_docs_example.py",
    "subquest * --tools *": "tests/tools/test_docs_tools.py runs it with the page's own files",
    "subquest train recipes/first-run.toml --out runs/first": "docs/tutorials/train.md runs it",
    "subquest report runs/first --out curves.svg": "docs/tutorials/train.md runs it",
    "subquest train RECIPE.toml *": "stands for any recipe; tests/train/test_traces.py",
    "subquest train recipes/qwen-1.5b/*": "needs a GPU",
    "subquest train recipes/qwen-0.5b/*": "needs a GPU",
    "*vllm serve *": "needs vLLM; tests/train/test_served_rollouts.py speaks its protocol",
    "subquest model card *": "needs two trainings; tests/train/test_model_card.py",
    "subquest model adapter *": "needs trained adapters; tests/engine_embedded/test_adapter.py",
    "subquest ask * --adapter *": "needs a trained adapter; tests/engine_embedded/test_adapter.py",
    "subquest eval * --model embedded *": "minutes of computing; docs/tutorials/compare-systems.md runs it smaller",
    "subquest runs calibrate *": "needs hundreds of answers; tests/cli/test_ask.py",
    "subquest ask * --calibration *": "needs a calibration; tests/cli/test_ask.py",
    "subquest world retell *": "needs a teacher model; tests/paperwork/test_retelling.py",
    "subquest world instruct *": "needs a teacher model; tests/cli/test_world.py",
    "subquest data questions *": "needs a model that writes; tests/question_writing/test_dataset.py",
    "subquest eval questions/dev *": "needs the questions above it; tests/question_writing/test_dataset.py",
    "subquest data organisations *": "needs a teacher model; tests/paperwork/test_dataset.py",
    "subquest train recipes/* --prepare *": "minutes; tests/train/test_traces.py",
    "subquest train recipes/*-small*.toml *": "needs a GPU; tests/train/test_recipe.py runs the recipes of size smoke",
    "subquest train recipes/claims/*": "needs a GPU",
    "subquest model get qwen-1.5b": "needs a network; tests/engine_embedded/test_models.py",
    "subquest data get *": "needs a network; tests/data/test_fetch.py",
    "subquest ask * --model qwen-1.5b": "needs a model of 1.1 GB",
    "subquest eval * --model qwen-1.5b *": "needs a model of 1.1 GB",
    "subquest eval * --model torch:qwen-1.5b *": "needs a GPU",
    "subquest model adapter mix runs/*": "needs the results of the trainings above it",
    "subquest report runs/coda-peco-small *": "needs the results of the trainings above it",
    "subquest world make * --articles 3000000 *": "minutes, and 3 GB",
    "subquest index build ../shared/*": "these documents are not part of the project",
    "subquest index build *wiki18*": "needs the 21 million passages; tests/retrieval/test_ingest.py",
    "subquest index * --ray *": "needs a cluster; tests/retrieval/test_ray_encoders.py",
    "subquest * postgres:*": "needs a database; tests/docs/test_pages.py runs it on one",
    "subquest index import * --out qdrant*": "needs a Qdrant server; tests/retrieval/test_transfer.py",
    "SEARXNG_URL=*": "needs a search engine; tests/hira/test_cli.py",
}
"""Commands that are not run, by pattern, and why."""


def reason_not_to_run(command: Command) -> str | None:
    """Why a command is not run on its page; a page that the reason names is the one that runs it."""
    reasons = (reason for pattern, reason in NOT_RUN.items() if fnmatchcase(command.text, pattern))
    return next((reason for reason in reasons if command.page not in reason), None)


def words(text: str) -> list[str]:
    """The words of a command, without variables before it and without an ellipsis behind it."""
    found = shlex.split(re.sub(f"^{_VARIABLES}", "", text))
    return found[:-1] if found[-1:] == ["…"] and not found[-2].startswith("-") else found
