"""The program inside the sandbox: it drops its privileges, then runs the cells it is given, one after the other.

It shares its process with the code it runs, so nothing it says is trusted: the host limits and checks every message,
and everything that protects the host was set up before this file was started. Standard library only; slow imports
wait until they are needed.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from typing import Any

CHANNELS: dict[str, int] = {}
"""Descriptors by name: commands, replies, broker, earlier."""
GIVEN, WORK = "/opt/given", "/work"
URL_LIMIT = 8000
MESSAGE = 1 << 17
"""Most bytes of one message of the broker, which begins with the number of the request."""
NAMES = 50
"""Most variables that are named when they are lost."""
ALONE = "this sandbox allows a single process (threads are allowed): the host has no control group to limit several"


def restrict(options: dict[str, Any]) -> None:
    """Unprivileged ids and hard limits for this process and its children."""
    uid = options["uid"]
    if uid:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    for name, value in (
        ("RLIMIT_AS", options["memory"]),
        ("RLIMIT_FSIZE", options["disk"]),
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
    os.nice(10)  # the host's own work comes first
    if options["alone"]:
        sys.addaudithook(_refuse_processes)


def _refuse_processes(event: str, _: Any) -> None:
    """Says why; the filter refuses in any case."""
    if event in ("os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen"):
        raise PermissionError(ALONE)


def add(names: list[str]) -> str:
    """Copy files that were given from outside into the work folder; one that does not fit becomes a link to it."""
    import shutil

    missing = []
    for name in names:
        target = os.path.join(WORK, name)
        try:
            if os.path.lexists(target):
                os.unlink(target)
            try:
                shutil.copyfile(os.path.join(GIVEN, name), target)
            except OSError:
                if os.path.lexists(target):
                    os.unlink(target)
                os.symlink(os.path.join(GIVEN, name), target)
        except OSError as error:
            missing.append(f"{name} could not be put into the work folder: {error}")
    return "\n".join(missing)


def restore(earlier: int, kept: list[str] | None, most: int) -> str:
    """Take over the files of the sandbox before this one, with their holes, links and times; says what did not work.

    `kept` are the names that stay, None for all; more than `most` files are no use to anybody.
    """
    import contextlib

    source = f"/proc/self/fd/{earlier}"
    copied: dict[int, str] = {}
    entries, failed = 0, 0
    with contextlib.suppress(OSError):  # not ours: code could not close it
        os.chmod(source, 0o700)
    for folder, folders, files in os.walk(source):
        if folder == source and kept is not None:
            folders[:] = [name for name in folders if name in kept]
            files = [name for name in files if name in kept]
        entries += len(folders) + len(files)
        if entries > most:
            return "files of earlier calls are gone: they were too many"
        for name in folders + files:
            place = os.path.join(folder, name)
            try:
                _copy(place, WORK + place[len(source) :], copied)
            except OSError:
                failed += 1
    return f"{failed} files could not be kept" if failed else ""


def _copy(source: str, target: str, copied: dict[int, str]) -> None:
    """One entry; `copied` has the new names of files by inode, because a file may have several."""
    import shutil
    import stat

    status = os.lstat(source)
    if stat.S_ISLNK(status.st_mode):
        os.symlink(os.readlink(source), target)
    elif stat.S_ISDIR(status.st_mode):
        os.chmod(source, 0o700)
        os.mkdir(target)
    elif status.st_ino in copied:
        os.link(copied[status.st_ino], target)
    elif stat.S_ISREG(status.st_mode):
        os.chmod(source, stat.S_IMODE(status.st_mode) | 0o600)
        with open(source, "rb") as old, open(target, "xb") as new:
            new.truncate(status.st_size)
            at = 0
            while at < status.st_size:
                try:
                    at = os.lseek(old.fileno(), at, os.SEEK_DATA)
                except OSError:  # a hole up to the end
                    break
                part = os.pread(old.fileno(), min(1 << 20, os.lseek(old.fileno(), at, os.SEEK_HOLE) - at), at)
                at += os.pwrite(new.fileno(), part, at)
        shutil.copystat(source, target)
        copied[status.st_ino] = target


def keep(names: list[str]) -> str:
    """Remove what is not named from the work folder, and temporary files, after a call that wrote too many."""
    import shutil

    os.chdir(WORK)
    kept = {os.path.join(WORK, name) for name in names}
    for entry in (*os.scandir(WORK), *os.scandir("/tmp"), *os.scandir("/dev/shm")):
        if entry.path not in kept:
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)
    return ""


def reap() -> None:
    """Wait for children of earlier calls, which have all ended: until then they count to the limit of processes.

    Objects of the code that stand for children look first, so that they know how the children ended.
    """
    import contextlib

    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return
    with contextlib.suppress(Exception):  # the code may have changed the modules
        if "multiprocessing.process" in sys.modules:
            sys.modules["multiprocessing.process"].active_children()
        if "subprocess" in sys.modules:
            import gc

            kind = sys.modules["subprocess"].Popen
            for child in [found for found in gc.get_objects() if issubclass(type(found), kind)]:
                child.poll()
    with contextlib.suppress(ChildProcessError):  # none is left
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


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


_numbers = iter(range(1, 1 << 62))


def fetch(url: str, params: Any = None, **ignored: Any) -> Response:
    """A page or file of the web, fetched outside the sandbox: `.text`, `.content`, `.json()`, `.save(path)`."""
    if params:
        from urllib.parse import urlencode

        url = f"{url}{'&' if '?' in url else '?'}{urlencode(params)}"
    if len(url) > URL_LIMIT:
        raise OSError(f"the URL has {len(url)} characters; at most {URL_LIMIT} are allowed")
    broker, number = CHANNELS["broker"], next(_numbers)
    os.write(broker, json.dumps({"number": number, "url": str(url)}).encode())
    header: dict[str, Any] = {}
    parts: list[bytes] = []
    while not header or sum(map(len, parts)) < header["length"]:
        message = os.read(broker, MESSAGE)
        if not message:
            raise OSError("the connection to the broker was lost")
        if int.from_bytes(message[:8], "big") != number:
            continue  # for a call that was interrupted
        if header:
            parts.append(message[8:])
        else:
            header = json.loads(message[8:])
    if "error" in header:
        raise OSError(header["error"])
    return Response(header, b"".join(parts))


def _send(descriptor: int, message: dict[str, Any]) -> None:
    data = json.dumps(message).encode() + b"\n"
    while data:
        data = data[os.write(descriptor, data) :]


def run(code: str, space: dict[str, Any]) -> str:
    """Run one cell; the value of a last expression is printed, as in a notebook. Returns a traceback or nothing.

    Code that prints nothing at all and ends by setting a variable prints that variable: who wrote it wants to know.
    """
    import ast

    try:
        tree = ast.parse(code, "<code>")
        last = tree.body[-1] if tree.body else None
        prints = any(map(_prints, ast.walk(tree)))
        if isinstance(last, ast.Expr):
            tree.body.pop()
        exec(compile(tree, "<code>", "exec"), space)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<code>", "eval"), space)
            if value is not None:
                print(value if isinstance(value, str) else repr(value))
        elif name := "" if prints else _set_by(last):
            print(f"{name} = {space[name]!r}")
    except SystemExit:
        return ""
    except MemoryError:
        return "MemoryError: the code needs more memory than it may have"
    except BaseException as error:
        import linecache
        import traceback

        linecache.cache["<code>"] = (len(code), None, code.splitlines(True), "<code>")
        found = traceback.TracebackException.from_exception(error)
        found.stack[:] = [frame for frame in found.stack if frame.filename != __file__]
        return "".join(found.format())[-8000:]
    return ""


def _prints(node: ast.AST) -> bool:
    """Whether this is a call of `print` or of a `write` method."""
    called = getattr(node, "func", None)
    return getattr(called, "id", "") == "print" or getattr(called, "attr", "") in ("write", "writelines")


def _set_by(statement: ast.stmt | None) -> str:
    """The variable that an assignment sets, if it is a single name."""
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    return getattr(targets[-1], "id", "") if getattr(statement, "value", None) is not None else ""


def _names(space: dict[str, Any]) -> list[str]:
    """The latest variables of the code, to be named if they are lost."""
    own = [
        name[:40]
        for name, value in list(space.items())
        if isinstance(name, str) and not name.startswith("_") and value is not fetch and type(value) is not type(os)
    ]
    return own[-NAMES:]


def main() -> None:
    import types

    options = json.loads(sys.argv.pop())
    CHANNELS.update(options["channels"])
    restrict(options)
    os.chdir(WORK)
    sys.path.append("/opt/packages")
    requests = types.ModuleType("requests")
    requests.get = fetch  # type: ignore[attr-defined]
    sys.modules["requests"] = requests
    space = {"__name__": "__main__", "fetch": fetch}
    own = os.getpid()
    running = False

    def interrupt(*_: object) -> None:
        if running and os.getpid() == own:
            raise KeyboardInterrupt

    def carry_out(do: str, **given: Any) -> str:
        reap()
        if do == "restore":
            try:
                return restore(CHANNELS["earlier"], given["names"], options["files"])
            finally:
                os.close(CHANNELS["earlier"])
        if do == "keep":
            return keep(given["names"])
        return add(given["add"]) or run(given["code"], space)

    lines = os.fdopen(CHANNELS["commands"], "rb", closefd=False)
    for line in lines:
        command = json.loads(line)
        signal.signal(signal.SIGINT, interrupt)
        running = command["do"] == "run"
        try:
            error = carry_out(**command)
        except BaseException as failure:
            error = repr(failure)
        running = False
        if os.getpid() != own:
            os._exit(0)
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except Exception as failure:
            error = error or repr(failure)
        _send(CHANNELS["replies"], {"error": error, "names": _names(space)})


if __name__ == "__main__":
    main()
