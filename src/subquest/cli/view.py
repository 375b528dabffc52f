"""`subquest view`: show stored runs and traces in the browser."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from ..errors import DataError, MissingDependency, UsageError
from ..input_file import read_json
from ..output_file import check_output, complete_file

if TYPE_CHECKING:
    from ..serve.agents import Agents


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what", type=Path, help="a trace (JSON, of `ask --trace`), a run, or a folder of runs", metavar="PATH"
    )
    parser.add_argument("--html", metavar="FILE", type=Path, help="write a trace as one HTML file and serve nothing")
    parser.add_argument("--port", type=int, default=0, help="port to serve on (default: any free one)")
    parser.add_argument("--no-open", action="store_true", help="do not open the browser")


def run(args: argparse.Namespace) -> int:
    from ..codec import checked
    from ..record import Episode

    if not args.what.exists():
        raise UsageError(f"there is no {args.what}")
    if args.html:
        check_output(args.html, "html", source=args.what)
    if args.what.suffix == ".json":
        episode = checked(Episode, read_json(args.what, "the trace"), f"{args.what} is not a trace", error=DataError)
        if args.html:
            try:
                from ..serve.episode_view import as_html
            except ImportError as error:
                raise MissingDependency(f"the page ({error.name})", "serve") from None
            with complete_file(args.html) as scratch:
                scratch.write_text(as_html(episode), encoding="utf-8")
            return 0
        with tempfile.TemporaryDirectory() as folder:
            from ..runs import RunStore

            with RunStore.create(Path(folder) / "trace.sqlite") as store:
                store.add_episode(episode).wait()
            return _serve(args, Path(folder), f"#/runs/trace/{episode.id}")
    if args.html:
        raise UsageError("--html writes one trace: give the JSON file of `subquest ask --trace`")
    from ..runs import RunStore, run_path, runs_in

    file = run_path(args.what).resolve()
    if file.is_file():
        RunStore.open(file).close()  # says what is wrong with it, if anything is
        around = file.parent if args.what.is_file() else file.parent.parent
        (name,) = (name for name, path in runs_in(around).items() if path == file)
        return _serve(args, around, f"#/runs/{quote(name)}")
    return _serve(args, args.what, "#/runs")


def _serve(args: argparse.Namespace, folder: Path, place: str) -> int:
    import threading
    import webbrowser

    try:
        from ..serve.app import address, bind
        from ..serve.settings import Settings
    except ImportError as error:
        raise MissingDependency(f"the server ({error.name})", "serve") from None
    from .serve import serve_until_stopped

    with tempfile.TemporaryDirectory() as own:
        settings = Settings(runs=folder, indexes=Path(own), port=args.port, read_only=True, asks=False)
        listening = bind(settings)
        url = f"{address(listening)}/{place}"
        if not args.no_open:
            timer = threading.Timer(0.5, webbrowser.open, [url])
            timer.daemon = True
            timer.start()
        return serve_until_stopped(settings, lambda: _nobody(settings.indexes), listening, quiet=True, path=f"/{place}")


@asynccontextmanager
async def _nobody(indexes: Path) -> AsyncIterator[Agents]:
    """No agents: this server shows what is stored and answers no questions."""
    from ..assemble import AgentSpec
    from ..serve.agents import Agents
    from ..serve.indexes import Indexes

    yield Agents(AgentSpec(), [], {}, Indexes({}, indexes, read_only=True))
