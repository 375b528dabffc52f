"""The program inside the sandbox: it drops its privileges, then runs the cells it is given, one after the other.

It shares its process with the code it runs, so nothing it says is trusted: the host limits and checks every message,
and everything that protects the host was set up before this file was started. Standard library only; slow imports
wait until they are needed.
"""

from __future__ import annotations

import json
import os
import resource
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CHANNELS: dict[str, int] = {}
"""Descriptors by name: commands, replies, broker."""
FETCH_LIMIT = 64 << 20


def restrict(options: dict[str, Any]) -> None:
    """Unprivileged ids and hard limits for this process and its children."""
    uid = options["uid"]
    if uid:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    memory, disk = options["memory"], options["disk"]
    for name, value in (
        ("RLIMIT_AS", memory),
        ("RLIMIT_FSIZE", disk),
        ("RLIMIT_CPU", options["cpu"]),
        ("RLIMIT_NPROC", options["processes"]),
        ("RLIMIT_NOFILE", 128),
        ("RLIMIT_CORE", 0),
        ("RLIMIT_MEMLOCK", 0),
        ("RLIMIT_MSGQUEUE", 0),
        ("RLIMIT_SIGPENDING", 256),
    ):
        limit = getattr(resource, name, None)
        if limit is not None:
            resource.setrlimit(limit, (value, value))


class Response:
    """What `fetch` returns."""

    def __init__(self, header: dict[str, Any], content: bytes) -> None:
        self.status = self.status_code = header["status"]
        self.url = header["url"]
        self.headers = {"content-type": header["content_type"]}
        self.content = content

    @property
    def ok(self) -> bool:
        return bool(self.status < 400)

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace")

    def json(self) -> Any:
        return json.loads(self.content)

    def save(self, path: str) -> str:
        with open(path, "wb") as file:
            file.write(self.content)
        return path

    def raise_for_status(self) -> None:
        if self.status >= 400:
            raise OSError(f"{self.url} answered with status {self.status}")


def fetch(url: str, params: Any = None, **ignored: Any) -> Response:
    """A page or file of the web, fetched outside the sandbox: `.text`, `.content`, `.json()`, `.save(path)`."""
    if params:
        from urllib.parse import urlencode

        url = f"{url}{'&' if '?' in url else '?'}{urlencode(params)}"
    broker = CHANNELS["broker"]
    _send(broker, {"url": str(url)})
    header = json.loads(_line(broker))
    if "error" in header:
        raise OSError(header["error"])
    parts, left = [], min(header["length"], FETCH_LIMIT)
    while left:
        part = os.read(broker, min(left, 1 << 20))
        if not part:
            raise OSError("the connection to the broker was lost")
        parts.append(part)
        left -= len(part)
    return Response(header, b"".join(parts))


def _send(descriptor: int, message: dict[str, Any]) -> None:
    data = json.dumps(message).encode() + b"\n"
    while data:
        data = data[os.write(descriptor, data) :]


def _line(descriptor: int) -> bytes:
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(descriptor, 1)
        if not byte:
            raise OSError("the connection to the broker was lost")
        line += byte
    return bytes(line)


def run(code: str, space: dict[str, Any]) -> str:
    """Run one cell; the value of a last expression is printed, as in a notebook. Returns a traceback or nothing."""
    import ast

    try:
        tree = ast.parse(code, "<code>")
        last = tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr):
            tree.body.pop()
        exec(compile(tree, "<code>", "exec"), space)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<code>", "eval"), space)
            if value is not None:
                print(value if isinstance(value, str) else repr(value))
    except SystemExit:
        return ""
    except MemoryError:
        return "MemoryError: the code needs more memory than it may have"
    except BaseException as error:
        import linecache
        import traceback

        linecache.cache["<code>"] = (len(code), None, code.splitlines(True), "<code>")
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        return "".join(traceback.format_exception(type(error), error, trace))[-8000:]
    return ""


def main() -> None:
    import types

    options = json.loads(sys.argv.pop())
    CHANNELS.update(options["channels"])
    restrict(options)
    os.chdir("/work")
    sys.path.append("/opt/packages")
    requests = types.ModuleType("requests")
    requests.get = fetch  # type: ignore[attr-defined]
    sys.modules["requests"] = requests
    space = {"__name__": "__main__", "fetch": fetch}
    own = os.getpid()
    lines = os.fdopen(CHANNELS["commands"], "rb", closefd=False)
    for line in lines:
        error = run(json.loads(line), space)
        if os.getpid() != own:
            os._exit(0)
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except Exception as failure:
            error = error or repr(failure)
        _send(CHANNELS["replies"], {"error": error})


if __name__ == "__main__":
    main()
