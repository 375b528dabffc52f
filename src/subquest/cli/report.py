"""`subquest report RUN...`: one page with tables, charts and traces, or the table for a paper or a program.

Runs of `subquest train` are drawn as curves instead.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from ..errors import UsageError
from ..output_file import Kind, check_output, complete_file


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", nargs="+", metavar="RUN", help="runs of `subquest eval`, or of `subquest train`, files or folders"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="where to write (default: report.html, curves.svg; tables: stdout)"
    )
    parser.add_argument(
        "--metric", metavar="NAME", help="what is compared and drawn (default: em); of training runs NAME,NAME,..."
    )
    parser.add_argument("--baseline", metavar="SYSTEM", help="compare with this system (default: the best of each set)")
    parser.add_argument("--traces", type=int, default=8, metavar="N", help="wrong answers in full, a system and set")
    parser.add_argument("--title", default="", help="title of the page")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="the table as one JSON document")
    form.add_argument("--markdown", action="store_true", help="the table in Markdown")
    form.add_argument("--latex", action="store_true", help="the table in LaTeX (booktabs)")


def run(args: argparse.Namespace) -> int:
    from ..evaluate.report import is_training, latex, load, markdown, page

    if args.traces < 0:
        raise UsageError("--traces cannot be negative")
    if args.out:
        check_output(args.out, _kind(args))
    trainings = [run for run in args.runs if is_training(run)]
    if trainings and len(trainings) < len(args.runs):
        raise UsageError(f"{trainings[0]} is a training run and others are evaluations: report them apart")
    if trainings:
        return _curves(args)
    content = load(args.runs, metric=args.metric or "em", reference=args.baseline)
    _note_gaps(args.runs)
    if args.json:
        return _put(json.dumps(content.to_json()) + "\n", args.out)
    if args.markdown:
        return _put(markdown(content), args.out)
    if args.latex:
        return _put(latex(content), args.out)
    print(markdown(content))
    return _put(page(content, title=args.title, traces=args.traces), args.out or _default("report.html", "html"))


def _note_gaps(runs: Sequence[str]) -> None:
    """Name the runs that are not complete: their systems may have answered different questions."""
    from ..evaluate.run_overview import Overviews, progress
    from .terminal import printable

    for name in dict.fromkeys(runs):
        found = Overviews().get(name, Path(name))
        if found.get("status") in ("running", "stopped") and found["missing"]:
            print(f"note: {printable(name)} is not complete ({progress(found)})", file=sys.stderr)


def _default(name: str, kind: Kind) -> Path:
    check_output(Path(name), kind)
    return Path(name)


def _kind(args: argparse.Namespace) -> Kind:
    if args.json:
        return "json"
    if args.markdown or args.latex:
        return "markdown" if args.markdown else "latex"
    return "svg" if args.out.suffix == ".svg" else "html"


def _curves(args: argparse.Namespace) -> int:
    from ..evaluate.report import Curves

    if args.markdown or args.latex or args.baseline:
        raise UsageError("training runs are drawn as curves (--out FILE.svg) or printed with --json")
    curves = Curves(args.runs)
    if args.json:
        return _put(json.dumps(curves.table()) + "\n", args.out)
    metrics = args.metric.split(",") if args.metric else ()
    return _put(curves.drawn(metrics, title=args.title), args.out or _default("curves.svg", "svg"))


def _put(text: str, path: Path | None) -> int:
    """To stdout, or into a file that is replaced whole."""
    if path is None:
        sys.stdout.write(text)
        return 0
    replaced = path.exists()
    try:
        with complete_file(path) as scratch:
            scratch.write_text(text, encoding="utf-8", errors="replace")  # runs may hold lone surrogates
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    print(f"{'replaced the older' if replaced else 'written to'} {path}", file=sys.stderr)
    return 0
