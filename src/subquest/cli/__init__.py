"""The command line. Each sub-command is a module of this package with `configure(parser)` and `run(args)`.

Exit status: 0 done, 1 failed, 2 wrong usage. Only the module of the given command is imported, so `--help` is fast.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from ..masking import mask_output, public

COMMANDS: dict[str, str] = {
    "demo": "a made-up world and questions about it, answered offline",
    "ask": "answer one question and show how",
    "index": "build and maintain a search index",
    "search": "search an index",
    "eval": "evaluate systems on question sets, resumable",
    "study": "run an experiment of the papers on any model, its numbers beside theirs",
    "report": "tables, plots and comparisons of runs",
    "data": "list, fetch and convert question sets",
    "world": "make and check fictional worlds: corpus, questions, gold plans",
    "model": "fetch and inspect models and adapters",
    "runs": "list, export, import and verify stored runs",
    "judge": "judge answers with a model, and compare judges",
    "train": "train a model by a recipe, resumable",
    "serve": "agents, runs and indexes over HTTP, with a page to ask and to look",
    "view": "look into stored runs and traces in the browser",
    "mcp": "search and ask as tools for other agents (MCP)",
    "bench": "run a benchmark behind a speed claim",
    "doctor": "what is installed, what works, what is missing",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")  # a character the terminal lacks must not end a command
    mask_output()
    parser = _parser(arguments)
    try:
        args = parser.parse_args(arguments)
    except SystemExit as stop:  # argparse has printed its message
        return int(stop.code or 0)
    if not args.command:
        parser.print_help()
        return 0
    from ..errors import SubquestError, UsageError

    try:
        return int(_module(args.command).run(args))
    except UsageError as error:
        return _fail(error, 2)
    except SubquestError as error:
        return _fail(error, 1)
    except OSError as error:
        if isinstance(error, BrokenPipeError):  # whoever read our output is gone: no message
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        named = error.filename and error.strerror
        return _fail(f"{error.filename}: {error.strerror}" if named else str(error) or type(error).__name__, 1)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


class _Parser(argparse.ArgumentParser):
    """Reports mistakes without the secrets in what was typed."""

    def error(self, message: str) -> NoReturn:
        super().error(public(message))


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    from .._version import __version__

    parser = _Parser(prog="subquest", description="Hard questions answered by decoupled planning and execution.")
    parser.add_argument("--version", action="version", version=f"subquest {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    wanted = next((a for a in arguments if not a.startswith("-")), "")
    for name, summary in COMMANDS.items():
        sub = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        if name == wanted:
            _module(name).configure(sub)
    return parser


def _module(name: str) -> Any:
    return importlib.import_module(f".{name}", __name__)


def _fail(error: Exception | str, status: int) -> int:
    # a message may quote a server or a file, and with it characters that control the terminal
    message = "".join(c if c.isprintable() or c == "\n" else " " for c in public(str(error)))
    print(f"subquest: {message}", file=sys.stderr)
    return status
