"""Runs the commands of a page as a reader would: one after the other, in one folder, with an endpoint of their own."""

from __future__ import annotations

import functools
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from subquest.cli import main

from .commands import ROOT, Command, commands, reason_not_to_run, words

_ADDRESS = re.compile(r"(?:openai:\w+@)?http://localhost:\d+/v1(?:#[\w:.-]+)?|openai:NAME(?:@URL)?|(?<=--model )…")
_SERVES = re.compile(r"subquest (serve|mcp --http|view (?!.*--html)|world site)\b")


def run_page(page: Path, url: str, capsys: pytest.CaptureFixture[str]) -> Iterator[tuple[Command, str]]:
    """Runs each command in the working folder and yields it with what it printed. A failure ends the test."""
    for command in commands(page):
        if reason_not_to_run(command):
            continue
        arguments = words(_ADDRESS.sub(url, command.text))[1:]
        if _SERVES.match(" ".join(["subquest", *arguments])):
            yield command, served(arguments)
            continue
        capsys.readouterr()
        status = main(arguments)
        out, err = capsys.readouterr()
        assert status == 0, f"{command.page}:{command.line}: {command.text}\n{out[-1000:]}\n{err[-1000:]}"
        yield command, out


def served(arguments: list[str]) -> str:
    """What a command that serves says when it is ready; then it is asked to stop."""
    if "--port" in arguments:
        arguments[arguments.index("--port") + 1] = "0"
    elif arguments[0] != "mcp":
        arguments = [*arguments, "--port", "0"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1", "BROWSER": "true"}
    with subprocess.Popen(
        [sys.executable, "-m", "subquest", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        # a test run in the background ignores SIGINT, and its children would too
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdout is not None
        said = ""
        for line in process.stdout:
            said += line
            if "http://127.0.0.1" in line:
                process.send_signal(signal.SIGINT)
                break
        said += process.stdout.read()
        assert process.wait(60) in (0, 130), f"subquest {' '.join(arguments)}\n{said}"
    return said
