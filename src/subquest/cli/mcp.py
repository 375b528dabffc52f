"""`subquest mcp`: search and ask as tools for other agents, over standard input and output or over HTTP."""

from __future__ import annotations

import argparse
import asyncio
import socket
from pathlib import Path

from ..errors import MissingDependency, UsageError
from .agent_options import add_agent_options
from .serve import add_library_options, agents_for, runs_folder


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--http", type=int, metavar="PORT", help="serve http://127.0.0.1:PORT/mcp, not standard input")
    add_agent_options(parser)
    add_library_options(parser)


def run(args: argparse.Namespace) -> int:
    try:
        from ..serve.mcp import make_server
        from ..serve.run_library import RunLibrary
        from ..serve.settings import Settings
    except ImportError as error:
        raise MissingDependency(f"MCP ({error.name})", "mcp") from None
    if args.http is not None and not 0 < args.http < 65536:
        raise UsageError(f"--http {args.http}: a port is a number from 1 to 65535")
    if args.http is not None:
        _check_free(args.http)
    settings = Settings(runs=runs_folder(args), indexes=Path(args.indexes), read_only=True)

    async def main() -> None:
        async with agents_for(args, settings) as agents:
            server = make_server(agents, RunLibrary(settings.runs))
            if args.http is None:
                await server.run_stdio_async()
            else:
                await server.run_streamable_http_async(host="127.0.0.1", port=args.http)

    asyncio.run(main())
    return 0


def _check_free(port: int) -> None:
    """Refuse a port that is in use before a model is loaded."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise UsageError(f"--http: cannot serve on 127.0.0.1:{port}: {error.strerror}; try another port") from None
