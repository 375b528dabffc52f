"""The command line. Each sub-command is a module of this package with `configure(parser)` and `run(args)`.

Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted. Whatever goes wrong is one line on standard error, and
`--debug` shows where it happened. Only the module of the given command is imported, so `--help` is fast.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

from ..masking import mask_output, public

COMMANDS: dict[str, str] = {
    "demo": "a made-up world and questions about it, answered offline",
    "examples": "the tutorials' sample documents and recipes, written into a folder",
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
_WRONG_NAME = (
    errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP, errno.EEXIST
)  # fmt: skip
"""What the system says where a file was named that is not there, is no file, or is not the user's."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    _open_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    mask_output()
    debug = "--debug" in arguments
    try:
        status = _run(arguments)
        return status if _output_works() else _fail("cannot write to standard output; is the disk full?", 1, debug)
    except KeyboardInterrupt:
        return _fail("interrupted", 130, debug)
    except BrokenPipeError:  # whoever read our output is gone: no message
        _drop_output()
        return 1
    except Exception as error:
        return _fail(*_described(error), debug)


def _run(arguments: Sequence[str]) -> int:
    try:
        parser = _parser(arguments)
        args = parser.parse_args(arguments)
        if not args.command:
            parser.print_help()
            return 0
        return int(_module(args.command).run(args))
    except SystemExit as stop:  # argparse has printed its message, also that of a benchmark
        return int(stop.code or 0)


def _described(error: Exception) -> tuple[str, int]:
    """An error in one line, and the exit status."""
    from ..errors import MissingDependency, SubquestError, UsageError

    if isinstance(error, ModuleNotFoundError) and (extra := _extra_with(str(error.name))):
        error = MissingDependency(str(error.name), extra)
    if isinstance(error, SubquestError):
        return str(error), 2 if isinstance(error, UsageError) else 1
    if isinstance(error, OSError):
        if error.filename and error.strerror:
            return f"{error.filename}: {error.strerror}", 2 if error.errno in _WRONG_NAME else 1
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return f"cannot write to standard output or a file: {error.strerror}", 1
        return str(error) or type(error).__name__, 1
    if isinstance(error, MemoryError):
        return "out of memory", 1
    reason = " ".join(str(error).split())
    kind = type(error).__name__ + (f": {reason:.300}" if reason else "")
    return f"an error in Subquest ({kind}); --debug shows where, please report it", 1


def _extra_with(module: str) -> str:
    """One of our extras that brings a module; empty if none does."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        needed = requires("subquest") or []
    except PackageNotFoundError:  # a source tree on the path
        return ""
    package = module.partition(".")[0].replace("_", "-")
    pattern = rf"{re.escape(package)}\b[^;]*; extra == ['\"](?!all\b)([\w-]+)"
    return next((found[1] for line in needed if (found := re.match(pattern, line, re.IGNORECASE))), "")


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
    _add_debug(parser)
    return parser


def _add_debug(parser: argparse.ArgumentParser) -> None:
    """`--debug` may be given before a command, after it and after an action."""
    parser.add_argument("--debug", action="store_true", help="show where an error happened")
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                _add_debug(sub)


def _module(name: str) -> Any:
    return importlib.import_module(f".{name}", __name__)


def _fail(message: str, status: int, debug: bool) -> int:
    with suppress(OSError):  # standard error may be full or closed as well
        if debug:
            import traceback

            print(public(traceback.format_exc()), file=sys.stderr)
        # a message may quote a server or a file, and with it characters that control the terminal
        shown = "".join(c if c.isprintable() else " " if c.isspace() else ascii(c)[1:-1] for c in public(message))
        print(f"subquest: {shown}" if status != 130 else shown, file=sys.stderr)
    with suppress(BrokenPipeError):
        if _output_works():
            return status
    _drop_output()
    return status


def _open_streams() -> None:
    """Standard streams that can be written: closed ones lead nowhere, and no character ends a command."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed; its number would go to the next file that is opened
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 (as long as the process lives)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def _output_works() -> bool:
    """Whether what was printed can be written; if not, it is dropped, so that leaving Python does not fail over it."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except (OSError, ValueError):
        _drop_output()
        return False
    return True


def _drop_output() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with suppress(OSError, ValueError):
        os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
