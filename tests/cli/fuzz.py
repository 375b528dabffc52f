"""Every command with every nasty input: the commands and their arguments come from the parsers themselves.

`BASE` says how a command is called so that it works; one argument after the other is then given something nasty. A
command that is not in it is tried all the same, with required arguments that are all nasty.
"""

import argparse
import contextlib
import json
import os
import random
import selectors
import shutil
import stat
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from subquest.cli import COMMANDS, _parser

from . import nasty

MODEL = {"model": "scripted:script.jsonl", "index": "docs.sq"}
RUN = {**MODEL, "datasets": ["toy.jsonl"], "out": "out"}
ADAPTER = {"source": "peft", "base": "base", "target": "out.gguf"}
BASE: dict[str, dict[str, Any]] = {
    "ask": {**MODEL, "question": "Where was the designer born?", "quiet": True},
    "index build": {"source": ["corpus.jsonl"], "out": "out"},
    "index add": {"index": "docs.sq", "source": ["corpus.jsonl"]},
    "index remove": {"index": "docs.sq", "id": ["nobody"]},
    "index embed": {"index": "docs.sq", "encoder": "m@http://127.0.0.1:9/v1"},
    "index info": {"index": "docs.sq"},
    "index verify": {"index": "docs.sq"},
    "index compact": {"index": "docs.sq"},
    "index export": {"index": "docs.sq", "out": "out.jsonl"},
    "index import": {"file": "index.jsonl", "out": "out"},
    "index copy": {"index": "docs.sq", "out": "out"},
    "search": {"query": "bridge", "index": "docs.sq"},
    "eval": RUN,
    "study": {**MODEL, "name": "study.toml", "on": "toy.jsonl", "out": "out"},
    "report": {"runs": ["run.sqlite"], "out": "out.html"},
    "data get": {"name": "popqa"},
    "data convert": {"source": "toy.jsonl", "out": "out.jsonl"},
    "world make": {"out": "out", "articles": 160, "questions": 2, "workers": 1},
    "world check": {"folder": "world"},
    "world sample": {"folder": "world"},
    "world site": {"folder": "world", "write": "out"},
    "world plans": {"source": "toy.jsonl", "out": "out.jsonl"},
    "world instruct": {"folder": "world", "model": "rules", "out": "out"},
    "world retell": {"folder": "world", "model": "scripted:script.jsonl", "out": "out"},
    "model get": {"name": "smollm2"},
    "model adapter convert": ADAPTER,
    "model adapter mix": {**ADAPTER, "second": "peft.gguf", "share": 0.5},
    "runs list": {"folder": "."},
    "runs info": {"run": "run.sqlite"},
    "runs export": {"run": "run.sqlite", "out": "out.jsonl"},
    "runs import": {"file": "run.jsonl", "out": "out"},
    "runs verify": {"run": "run.sqlite"},
    "runs prune": {"run": "served.sqlite", "days": 30},
    "runs calibrate": {"runs": ["run.sqlite"]},
    "judge answers": {"run": "run.sqlite", "model": "rules"},
    "judge agree": {"run": "run.sqlite", "model": "scripted:script.jsonl"},
    "train": {"recipe": "recipe.toml", "estimate": 8},
    "serve": {**MODEL, "port": 0},
    "view": {"what": "trace.json", "no_open": True},
    "mcp": MODEL,
    "demo": {"out": "out", "questions": 1},
    "examples": {"folder": "out"},
    "bench": {"name": "overhead"},
}
SEEDS: dict[str, tuple[str, ...]] = {
    "config": ("settings.toml",),
    "prompts": ("prompts",),
    "engine.adapter": ("peft.gguf", "peft"),
    "queries": ("queries.jsonl",),
    "token_file": ("token.txt",),
    "runs": ("run.sqlite", "training"),
    "system": ("system.py",),
    "model": ("script.jsonl", "model.gguf", "base"),
    "judge": ("script.jsonl",),
    "source": ("corpus.jsonl", "toy.jsonl", "peft", "peft.gguf"),
    "file": ("toy.jsonl",),
    "what": ("trace.json", "run.sqlite"),
    "recipes": ("studies",),
    "set": ("dialect",),
}
"""Valid files of arguments whose value in `BASE` is none, or of which there are several kinds."""
FORMS: dict[str, tuple[str, ...]] = {
    "model": ("scripted:{}", "gguf:{}", "torch:{}", "planner=scripted:{}"),
    "judge": ("scripted:{}", "gguf:{}", "torch:{}"),
    "also_model": ("m=scripted:{}", "m=gguf:{}"),
    "also_index": ("i={}",),
    "use": ("cold={}",),
    "set": ("dialect={}", "k={}"),
    "system": ("{}:Scout",),
    "index": ("{}", "lance:{}"),
    "encoder": ("{}", "st:{}"),
}
"""How a file is named in an argument that takes more than a file."""
OUTPUTS = ("out", "trace", "html", "write", "prepare", "salvage", "target", "cache", "runs", "indexes")
"""Arguments that name what is written."""
IN_PLACE = ("index add", "index remove", "index embed", "index compact", "judge answers", "judge agree")
"""Commands that change the index or the run that they are given."""
LEFT_OUT = {"host": "names would be resolved", "ray": "a cluster would be started or waited for"}
ALLOWED_SECONDS = 60.0
"""How long a command may take here; most take some milliseconds."""


class Argument(NamedTuple):
    command: str
    option: str
    """`--out`, or nothing for a positional one."""
    dest: str
    kind: str
    """number or text."""


class Case(NamedTuple):
    argument: Argument
    nasty: str
    """What is wrong, in a word or two."""
    value: str
    path: Path | None
    """The nasty file."""

    @property
    def name(self) -> str:
        return f"{self.argument.command} {self.argument.option or self.argument.dest}: {self.nasty}"


def parsers() -> dict[str, argparse.ArgumentParser]:
    """The parser of every command, by the words that call it."""
    found: dict[str, argparse.ArgumentParser] = {}

    def walk(words: str, parser: argparse.ArgumentParser) -> None:
        below = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
        for action in below:
            for name, inner in action.choices.items():
                walk(f"{words} {name}", inner)
        if not below:
            found[words] = parser

    for name in COMMANDS:
        top = next(a for a in _parser([name])._actions if isinstance(a, argparse._SubParsersAction))
        walk(name, top.choices[name])
    return found


def arguments() -> list[Argument]:
    """Every argument with a value."""
    return [
        Argument(
            command,
            max(action.option_strings, key=len, default=""),
            action.dest,
            "number" if action.type in (int, float) else "text",
        )
        for command, parser in parsers().items()
        for action in parser._actions
        if action.nargs != 0 and not action.choices and action.dest not in LEFT_OUT
    ]


class Files:
    """A folder with a working directory of valid files and, beside it, the nasty ones, made when they are needed."""

    def __init__(self, folder: Path, fill: Any) -> None:
        self.folder, self.template, self.work = folder, folder / "template", folder / "work"
        for place in (self.template, folder / "nasty"):
            place.mkdir()
        fill(self.template)
        self._made: dict[str, dict[str, Path]] = {"special": nasty.make_special(folder / "nasty" / "special")}

    def cases(self, argument: Argument, limit: int) -> Iterator[Case]:
        if argument.kind == "number":
            yield from (Case(argument, f"number {n:.20}", n, None) for n in nasty.NUMBERS)
            return
        yield from (Case(argument, f"text {t:.20}", t, None) for t in nasty.TEXTS)
        valid = BASE.get(argument.command, {}).get(argument.dest)
        named = [v for v in (valid if isinstance(valid, list) else [valid]) if isinstance(v, str)]
        seeds = [name for name in dict.fromkeys((*named, *SEEDS.get(argument.dest, ()))) if self._is_input(name)]
        files = dict(self._made["special"])
        for suffix in dict.fromkeys(("", *(Path(seed).suffix for seed in seeds))):
            files |= {f"{name}{suffix}": p for name, p in self._kind(suffix).items()}
        for seed in seeds:
            files |= {f"{seed}/{name}": p for name, p in self._spoiled(seed, limit).items()}
        for form in FORMS.get(argument.dest, ("{}",)):
            yield from (Case(argument, f"{form} {name}", form.format(p), p) for name, p in files.items())

    def _is_input(self, name: str) -> bool:
        return name != "." and (self.template / name).exists()

    def _kind(self, suffix: str) -> dict[str, Path]:
        key = f"generic{suffix}"
        if key not in self._made:
            self._made[key] = nasty.make_generic(self.folder / "nasty" / key, suffix)
        return self._made[key]

    def _spoiled(self, seed: str, limit: int) -> dict[str, Path]:
        if seed not in self._made:
            made = nasty.make_spoiled(self.template / seed, self.folder / "nasty" / f"of-{seed}", limit)
            self._made[seed] = made
        return self._made[seed]

    def renew(self) -> None:
        """The working directory as it was."""
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.template, self.work)


def command_line(case: Case) -> list[str]:
    """The command with the nasty value in its place."""
    command, parser = case.argument.command, parsers_once()[case.argument.command]
    given = {**BASE.get(command, {}), case.argument.dest: case.value}
    if command == "search" and "queries" in given:
        given.pop("query")
    if command == "train" and case.argument.dest in ("out", "prepare"):
        given.pop("estimate")
        given["set"] = "model.path='random:llama'"
    out: list[str] = command.split()
    last: list[str] = []
    for action in parser._actions:
        value = given.get(action.dest, case.value if action.required else None)
        if value is None or isinstance(action, argparse._HelpAction):
            continue
        if action.nargs == 0:
            out += [action.option_strings[0]] if value else []
        elif action.option_strings:
            out.append(f"{max(action.option_strings, key=len)}={value}" if len(action.option_strings[0]) > 2 else "")
            if not out[-1]:
                out[-1:] = [action.option_strings[0], str(value)]
        else:
            last += [str(v) for v in value] if isinstance(value, list) else [str(value)]
    return [*out, "--", *last] if last and command != "bench" else [*out, *last]


_parsers: dict[str, argparse.ArgumentParser] = {}


def parsers_once() -> dict[str, argparse.ArgumentParser]:
    if not _parsers:
        _parsers.update(parsers())
    return _parsers


def sample(cases: list[Case], each: int, seed: int) -> list[Case]:
    """Some cases of every argument, so that every kind of nastiness comes up somewhere."""
    by_argument: dict[Argument, list[Case]] = defaultdict(list)
    for case in cases:
        by_argument[case.argument].append(case)
    chosen: list[Case] = []
    tried: dict[str, int] = defaultdict(int)
    rng = random.Random(seed)
    for found in by_argument.values():
        rng.shuffle(found)
        found.sort(key=lambda case: tried[case.nasty])  # stable: what was tried least comes first
        for case in found[:each]:
            tried[case.nasty] += 1
            chosen.append(case)
    return chosen


class Worker:
    """The process that runs the commands; it is replaced when one of them hangs or ends it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, words: list[str]) -> dict[str, Any]:
        process = self._process or self._start()
        assert process.stdin is not None
        process.stdin.write(json.dumps([list(os.fsencode(word)) for word in words]).encode() + b"\n")
        process.stdin.flush()
        reply = self._reply(process)
        if not reply:
            hung = process.poll() is None
            self.close()
            err = (self._folder / "stderr").read_text(errors="replace")
            return {"status": "hung" if hung else f"ended the interpreter: {process.returncode}", "out": "", "err": err}
        found: dict[str, Any] = json.loads(reply)
        return found

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _start(self) -> subprocess.Popen[bytes]:
        home = self._folder / "home"
        env = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("SUBQUEST", "OPENAI"))},
            "SUBQUEST_CACHE": str(home / "cache"), "HOME": str(home), "TMPDIR": str(home), "PIP_NO_INDEX": "1",
            "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        # root without privileges may not read what its permissions forbid, as any user
        ordinary = ["setpriv", "--bounding-set=-all"] if os.geteuid() == 0 and shutil.which("setpriv") else []
        self._process = subprocess.Popen(
            [*ordinary, sys.executable, str(Path(__file__).with_name("fuzz_worker.py")), str(self._folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=env,
        )
        assert self._reply(self._process, 5 * ALLOWED_SECONDS)
        return self._process

    @staticmethod
    def _reply(process: subprocess.Popen[bytes], seconds: float = ALLOWED_SECONDS) -> bytes:
        """One line; empty where the process ended or took too long."""
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            return process.stdout.readline() if selector.select(seconds) else b""


def snapshot(folder: Path) -> dict[str, tuple[int, ...]]:
    """Every file below a folder, with what changes when it is written."""
    found: dict[str, tuple[int, ...]] = {}
    waiting = [str(folder)]
    while waiting:
        with contextlib.suppress(PermissionError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                now = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(now.st_mode):
                    found[entry.path] = (now.st_mode,)
                    waiting.append(entry.path)
                elif not entry.name.endswith(("-wal", "-shm", "writer.lock")):  # SQLite's own: what is stored stays
                    found[entry.path] = (now.st_mode, now.st_size, now.st_mtime_ns, now.st_ino)
    return found
