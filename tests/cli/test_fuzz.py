"""No input makes a command fail without a clear line: every command × every nasty input.

A sample of the cases; `make fuzz` (SUBQUEST_FUZZ=all) tries them all, and SUBQUEST_FUZZ=N another sample.
"""

import json
import os
import re
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from subquest import Index
from subquest.c_libraries import SEARCH
from subquest.cli import main
from subquest.engine.adapter import Lora, Shape, write_gguf, write_peft
from subquest.runs import RunStore

from ..systems.fakes import DOCUMENTS
from . import fuzz
from .conftest import SCRIPT
from .fuzz import BASE, IN_PLACE, OUTPUTS, Case, Files, Worker

WHICH = os.environ.get("SUBQUEST_FUZZ", "0")
EACH = 2
"""Cases of each argument in a sample."""
QUESTION = {
    "id": "q",
    "question": "Where was the designer of the Orvane Bridge born?",
    "answers": ["Kestel"],
    "hops": 2,
    "decomposition": [{"question": "Who designed the Orvane Bridge?", "answer": "Mila Torrun", "support": "Orvane"}],
}
RECIPE = """name = "small"
kind = "rl"
system = "coda"
[model]
path = "smollm2"
rank = 4
alpha = 8.0
[[data]]
questions = "world:seed=1,articles=160,questions=8"
weight = 1.0
[rollout]
questions = 2
group = 2
temperature = 1.0
max_tokens = 8
[optimiser]
steps = 1
learning_rate = 2e-4
betas = [0.9, 0.95]
[guards]
cut_turns = 2.0
"""
STUDY = """title = "A small study"
metrics = ["em", "f1"]
filter = ["hops>=0"]
[[source]]
name = "toy"
dataset = "toy.jsonl"
sample = 1
[[variant]]
name = "CoDA"
system = "coda"
settings = { k = 2 }
[[number]]
variant = "CoDA"
source = "toy"
em = 0.5
"""
SETTINGS = """model = "scripted:script.jsonl"
system = "coda"
index = "docs.sq"
[search]
k = 3
mode = "bm25"
[sampling]
temperature = 0.5
[limits]
calls = 10
seconds = 60.0
[tools]
egress = "private"
"""
SYSTEM = """from subquest import Answer, System
class Scout(System):
    name = "scout"
    roles = ("scout",)
    async def answer(self, run):
        return Answer("Kestel")
"""


def fill(folder: Path) -> None:
    """The valid files that `BASE` and `SEEDS` name."""
    here = Path.cwd()
    os.chdir(folder)
    try:
        _fill()
    finally:
        os.chdir(here)


def _fill() -> None:
    Index.build("docs.sq", DOCUMENTS).close()
    RunStore.create("served.sqlite", settings={"kind": "server"}).close()
    lines = {
        "script.jsonl": [{"role": role, "reply": reply} for role, reply in SCRIPT],
        "toy.jsonl": [QUESTION],
        "corpus.jsonl": [{"id": d.id, "title": d.title, "text": d.text, "meta": {"year": 1}} for d in DOCUMENTS],
        "queries.jsonl": [{"id": "1", "query": "bridge"}],
    }
    for name, rows in lines.items():
        Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, text in {
        "recipe.toml": RECIPE, "study.toml": STUDY, "settings.toml": SETTINGS, "system.py": SYSTEM,
        "token.txt": "a-long-secret-token\n",
    }.items():  # fmt: skip
        Path(name).write_text(text)
    Path("studies").mkdir()
    shutil.copy("study.toml", "studies")
    Path("prompts").mkdir()
    for role in ("planner", "executor"):
        Path(f"prompts/{role}.md").write_text("Answer.\n--- user\nQuestion: $question $task\n")
    Path("dialect").mkdir()
    Path("dialect/dialect.toml").write_text('observation = "<i>$documents</i>"\n')
    Path("base").mkdir()
    config = {"num_attention_heads": 9, "num_key_value_heads": 3, "model_type": "llama", "hidden_size": 576}
    Path("base/config.json").write_text(json.dumps(config))
    lora = Lora({"model.layers.0.self_attn.q_proj": (np.ones((2, 576), "f4"), np.ones((576, 2), "f4"))}, 4.0)
    write_peft(lora, Path("peft"))
    write_gguf(lora, Path("peft.gguf"), Shape("llama", 9, 3))
    shutil.copy("peft.gguf", "model.gguf")
    shutil.copytree(Path(__file__).parents[1] / "train" / "run-0.1", "training")
    ask = ["--model", "scripted:script.jsonl", "--index", "docs.sq"]
    for command in (
        ["eval", "toy.jsonl", *ask, "--out", "run.sqlite"],
        ["ask", str(QUESTION["question"]), *ask, "--quiet", "--trace", "trace.json"],
        ["runs", "export", "run.sqlite", "--out", "run.jsonl"],
        ["index", "export", "docs.sq", "--out", "index.jsonl", "--vectors"],
        ["world", "make", "--articles", "160", "--questions", "2", "--out", "world", "--workers", "1"],
    ):
        assert main(command) == 0, command


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("fuzz"), fill)


def cases(files: Files) -> list[Case]:
    found = [case for argument in fuzz.arguments() for case in files.cases(argument, 60 if WHICH == "all" else 12)]
    if only := os.environ.get("SUBQUEST_FUZZ_ONLY"):
        found = [case for case in found if re.search(only, case.name)]
    return found if WHICH == "all" else fuzz.sample(found, EACH, int(WHICH))


def test_how_commands_are_called_is_up_to_date() -> None:
    """`BASE` and the rest name arguments that there are."""
    parsers = fuzz.parsers()
    for command, given in BASE.items():
        known = {action.dest for action in parsers[command]._actions}
        assert not given.keys() - known, command
    everywhere = {action.dest for parser in parsers.values() for action in parser._actions}
    assert not {*fuzz.SEEDS, *fuzz.FORMS, *OUTPUTS, *fuzz.LEFT_OUT} - everywhere


@pytest.mark.slow
def test_a_command_says_in_one_line_what_is_wrong(files: Files) -> None:
    chosen = cases(files)
    if (compiled := SEARCH.cached.parent).is_dir():  # so that no command compiles C code anew
        shutil.copytree(compiled, files.folder / "home" / "cache" / compiled.name)
    (files.folder / "home").mkdir(exist_ok=True)
    files.renew()
    bad: list[str] = []
    worker = Worker(files.folder)
    before = {place: fuzz.snapshot(place) for place in (files.folder / "nasty").iterdir()}
    clean = fuzz.snapshot(files.work)
    try:
        for case in chosen:
            words = fuzz.command_line(case)
            found = worker.run(words)
            problems = _problems(case, found)
            now = fuzz.snapshot(files.work)
            if now != clean:
                changed = _outside(files.work, now.items() ^ clean.items())
                if found["status"] == 2 and changed:
                    problems.append(f"it was refused, and wrote {changed}")
                files.renew()
                clean = fuzz.snapshot(files.work)
            for place in before.keys() & {*case.path.parents} if case.path is not None else ():
                after = fuzz.snapshot(place)
                if after == before[place]:
                    continue
                changed = sorted({p for p, _ in after.items() ^ before[place].items()})
                if case.argument.dest not in OUTPUTS and case.argument.command not in IN_PLACE:
                    problems.append(f"it changed its input {changed}")
                _restore(changed)
                before[place] = fuzz.snapshot(place)
            if problems:
                shown = " ".join(word if len(word) < 200 else f"{word[:100]}…" for word in words)
                text = f"{case.name}\n    subquest {shown}\n    " + "\n    ".join(problems)
                bad.append(text.encode(errors="backslashreplace").decode())  # pytest-xdist sends no lone surrogates
                if log := os.environ.get("SUBQUEST_FUZZ_LOG"):
                    with open(log, "a", errors="replace") as file:
                        file.write(bad[-1] + "\n")
        for place, was in before.items():
            if changed := sorted({p for p, _ in fuzz.snapshot(place).items() ^ was.items()}):
                bad.append(f"a command that was not given {changed} changed it")
    finally:
        worker.close()
    assert not bad, f"{len(bad)} of {len(chosen)} cases:\n" + "\n".join(bad[:40])


def _problems(case: Case, found: dict[str, Any]) -> list[str]:
    """What is wrong with how a command ended."""
    status, err = found["status"], found["err"]
    shown = f"status {status}: {err.strip()[-700:]}"
    if status not in (0, 1, 2):
        return [shown]
    if "Traceback" in err + found["out"] or "an error in Subquest" in err:
        return [shown]
    if status != 2:
        return []
    lines = [line for line in err.splitlines() if line.strip()]
    if not lines or not lines[-1].startswith("subquest"):
        return [f"the last line does not say what is wrong; {shown}"]
    names = {case.argument.option, case.argument.dest.rpartition(".")[2], case.argument.dest.upper()}
    if case.path is not None:
        names |= {_printable(part) for part in case.path.parts[-2:]}
    names |= {repr(case.value)[:60], case.argument.dest.partition("_")[0]}
    names |= {_printable(case.value)[:60], case.value.partition(":")[0], case.value.partition("=")[0]}
    if not case.value.strip() or "is not on this machine yet" in lines[-1]:  # no name to name; no model to run
        return []
    if "scored answers of a kind" in lines[-1]:  # `run.sqlite` has too few for `runs calibrate`, whatever else is given
        return []
    if not any(name and name in _printable(lines[-1]) for name in names):
        return [f"the message does not name what is wrong; {shown}"]
    return []


def _printable(text: str) -> str:
    text = text.encode(errors="backslashreplace").decode()
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _outside(work: Path, changed: Iterable[tuple[str, Any]]) -> list[str]:
    """What changed apart from the command's own output, which `BASE` calls `out` or `out.jsonl`."""
    names = {str(Path(name).relative_to(work)) for name, _ in changed}
    return sorted(name for name in names if not name.startswith("out"))


def _restore(changed: list[str]) -> None:
    """Outputs that were written among the nasty files go away again."""
    for name in changed:
        path = Path(name)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        elif path.exists() and stat.S_ISREG(path.lstat().st_mode):
            path.unlink()
