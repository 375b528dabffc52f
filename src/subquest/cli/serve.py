"""`subquest serve`: agents, runs and indexes over HTTP, with a page to ask and to browse."""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import MissingDependency, UsageError
from ..input_file import read_text
from .agent_options import add_agent_options, config_from, spec_from

if TYPE_CHECKING:
    from ..serve.agents import Agents
    from ..serve.settings import Settings


def configure(parser: argparse.ArgumentParser) -> None:
    add_server_options(parser)
    add_agent_options(parser)
    add_library_options(parser)
    parser.add_argument(
        "--calibration",
        metavar="FILE",
        help="of `subquest runs calibrate`: answers say in words how likely they are right",
    )
    limits = parser.add_argument_group("limits of the server")
    limits.add_argument("--running", type=int, default=4, metavar="N", help="episodes at a time (default: 4)")
    limits.add_argument("--queued", type=int, default=32, metavar="N", help="questions that may wait (default: 32)")
    limits.add_argument(
        "--asks-per-minute", type=int, default=60, metavar="N", help="questions of one client (default: 60)"
    )
    limits.add_argument("--grace", type=float, default=10.0, metavar="S", help="seconds to finish when asked to stop")
    limits.add_argument(
        "--stall", type=float, default=10.0, metavar="S", help="log all stacks if nothing moves so long (0: never)"
    )
    limits.add_argument(
        "--keep-days",
        type=float,
        metavar="N",
        help="at the start, remove conversations without an answer in the last N days (default: keep all)",
    )
    limits.add_argument("--read-only", action="store_true", help="accept no documents")
    limits.add_argument("--no-model-form", action="store_true", help="the model cannot be set on the page")
    limits.add_argument(
        "--admin-token-file",
        metavar="FILE",
        type=Path,
        help="contains the token of those who may set the model on the page; SUBQUEST_ADMIN_TOKEN does as well",
    )


def add_server_options(parser: argparse.ArgumentParser) -> None:
    server = parser.add_argument_group("server")
    server.add_argument("--host", default="127.0.0.1", help="address to serve on (default: 127.0.0.1, this machine)")
    server.add_argument("--port", type=int, default=8420, help="0 for any free one (default: 8420)")
    server.add_argument(
        "--token-file",
        metavar="FILE",
        type=Path,
        help="contains the token that clients must send; SUBQUEST_TOKEN does as well",
    )
    server.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help="a name by which the server is reached"
    )
    server.add_argument(
        "--proxy",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="a reverse proxy whose X-Forwarded-For is believed; repeatable (default: none)",
    )


def add_library_options(parser: argparse.ArgumentParser) -> None:
    library = parser.add_argument_group("what is offered")
    library.add_argument("--runs", metavar="FOLDER", help="stored runs (default: runs)")
    library.add_argument("--indexes", metavar="FOLDER", type=Path, default=Path("indexes"), help="more indexes")
    library.add_argument(
        "--also-index", action="append", default=[], metavar="NAME=PATH", help="another index beside --index"
    )
    library.add_argument(
        "--also-model", action="append", default=[], metavar="NAME=MODEL", help="another model beside --model"
    )


def run(args: argparse.Namespace) -> int:
    try:
        from ..serve.app import bind
    except ImportError as error:
        raise MissingDependency(f"the server ({error.name})", "serve") from None
    settings = settings_from_args(args)
    return serve_until_stopped(settings, lambda: agents_for(args, settings), bind(settings), quiet=False)


def serve_until_stopped(
    settings: Settings, opened: Any, listening: socket.socket, *, quiet: bool, path: str = ""
) -> int:
    """Serve the agents that the context manager opens; prints the address once requests are answered."""
    from ..serve.app import Server, address, serving

    async def main() -> None:
        async with opened() as agents, serving(settings, agents) as app:
            listening.listen(1024)
            print(f"Subquest is at {address(listening)}{path}", file=sys.stderr, flush=True)
            with app.state.subquest.watch.watching():
                await Server(app, quiet=quiet).serve([listening])

    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(main())
    finally:
        listening.close()
    return 0


def _loop_factory() -> Any:
    """uvloop where it is installed (it serves more requests per second), otherwise asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def settings_from_args(args: argparse.Namespace) -> Settings:
    from ..assemble.agent import model_of
    from ..metrics.confidence import own_calibration, read_calibrations
    from ..serve.settings import Settings

    config = config_from(args)
    calibration, model = config.calibration, model_of(config)
    for name in ("running", "queued", "asks_per_minute"):
        if getattr(args, name) < 1:
            raise UsageError(f"--{name.replace('_', '-')} must be 1 or more")
    if args.keep_days is not None and not args.keep_days > 0:
        raise UsageError("--keep-days must be above 0")
    for name in ("grace", "stall"):
        if not 0 <= getattr(args, name) <= 86_400:
            raise UsageError(f"--{name} must be a number of seconds, from 0 to 86400")
    return Settings(
        runs=runs_folder(args),
        indexes=args.indexes,
        host=args.host,
        port=args.port,
        token=_token("SUBQUEST_TOKEN", "--token-file", args.token_file),
        admin_token=_token("SUBQUEST_ADMIN_TOKEN", "--admin-token-file", args.admin_token_file),
        model_form=not args.no_model_form,
        allowed_hosts=tuple(args.allow_host),
        proxies=tuple(args.proxy),
        calibrations=read_calibrations(calibration) if calibration else own_calibration(model, config.engine.adapter),
        running=args.running,
        queued=args.queued,
        asks_per_minute=args.asks_per_minute,
        grace=args.grace,
        stall=args.stall,
        keep_days=args.keep_days,
        read_only=args.read_only,
    )


def _token(variable: str, option: str, file: Path | None) -> str:
    if file is None:
        return os.environ.get(variable, "")
    token = read_text(file, option).strip()
    if not token:
        raise UsageError(f"{option} {file}: it is empty")
    return token


def runs_folder(args: argparse.Namespace) -> Path:
    folder = Path(args.runs or config_from(args).runs or "runs")
    if folder.exists() and not folder.is_dir():
        raise UsageError(
            f"--runs {folder}: it is a file; name a folder "
            f"(one run is shown by: subquest view {shlex.quote(str(folder))})"
        )
    return folder


@asynccontextmanager
async def agents_for(args: argparse.Namespace, settings: Settings) -> AsyncIterator[Agents]:
    """The systems, models and indexes that the options name."""
    from ..serve.agents import open_agents

    spec = spec_from(args)
    first = {_index_name(spec.index): spec.index} if spec.index else {}
    more_models = pairs("--also-model", args.also_model, ["default", "page"])
    more_indexes = pairs("--also-index", args.also_index, list(first))
    unchosen = not config_from(args).model
    places = {**first, **dict(more_indexes)}
    async with open_agents(spec, dict(more_models), places, settings, model_optional=unchosen) as agents:
        yield agents


def _index_name(place: str) -> str:
    return "remote" if "://" in place else Path(place).name.removesuffix(".sq") or "default"


def pairs(option: str, given: Sequence[str], taken: Sequence[str]) -> list[tuple[str, str]]:
    """NAME=VALUE options as pairs; `taken` are names that are in use already."""
    out: list[tuple[str, str]] = []
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not name or not value:
            raise UsageError(f"{option} {pair!r}: write NAME=VALUE")
        if "/" in name or not name.isprintable():
            raise UsageError(f"{option} {pair!r}: the name is part of addresses: it must not contain a slash")
        if name in (*taken, *(other for other, _ in out)):
            raise UsageError(f"{option} {pair!r}: the name {name!r} is taken; choose another")
        out.append((name, value))
    return out
