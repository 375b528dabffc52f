"""Files and text from outside: whatever is wrong with them becomes one line that names them.

Everything here raises DataError, or the `error` that is given: for what cannot be opened, is no file, is no text, or is
not the JSON or TOML that it should be, be it nested too deeply or full of digits.
"""

from __future__ import annotations

import json
import math
import os
import stat
import tomllib
from pathlib import Path
from typing import Any

from .errors import DataError, UsageError

_SPECIAL = {
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}
_OPEN_ALREADY = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
"""Pipes that a shell has opened: reading them ends, unlike a named pipe that nobody writes into."""


def check_input(path: str | Path, what: str = "", *, error: type[UsageError] = DataError) -> Path:
    """The path, if it names a file that can be opened; `what` is the kind of file, as `the recipe`."""
    named = f"cannot read {what + ' ' if what else ''}{path}"
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
        readable = os.access(path, os.R_OK)
    except OSError as failure:
        raise error(f"{named}: {failure.strerror}") from None
    except ValueError:  # a NUL byte, or half of a surrogate pair
        raise error(f"cannot read {what or 'a file'} {str(path)!r}: this cannot be a file's name") from None
    if (special := _SPECIAL.get(kind)) and not (kind != stat.S_IFDIR and str(path).startswith(_OPEN_ALREADY)):
        raise error(f"{named}: it is {special}; name a file")
    if not readable:
        raise error(f"{named}: no permission to read it")
    return Path(path)


def read_text(path: str | Path, what: str = "", *, error: type[UsageError] = DataError) -> str:
    """The text of a UTF-8 file, without a byte-order mark."""
    path = check_input(path, what, error=error)
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as failure:
        line = failure.object[: failure.start].count(b"\n") + 1
        raise error(f"{path}:{line}: not UTF-8 text; save it as UTF-8") from None
    except OSError as failure:
        raise error(f"cannot read {what + ' ' if what else ''}{path}: {failure.strerror}") from None


def read_json(path: str | Path, what: str = "") -> Any:
    """The JSON document in a file."""
    return parse_json(read_text(path, what), str(path))


def read_toml(
    path: str | Path, what: str = "", *, nan: bool = True, error: type[UsageError] = DataError
) -> dict[str, Any]:
    """The TOML document in a file; without `nan`, every number in it is one."""
    text = read_text(path, what, error=error)
    try:
        return tomllib.loads(text, parse_float=float if nan else _number)
    except RecursionError:
        raise error(f"{path}: nested too deeply") from None
    except ValueError as failure:  # also a number of more digits than Python reads
        raise error(f"{path}: not TOML: {_too_long(failure) or failure}") from None


def parse_json(text: str | bytes, where: str) -> Any:
    """A JSON document; `where` begins the message if it is none."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}" if error.lineno > 1 else f"column {error.colno}"
        raise DataError(f"{where}: not JSON: {error.msg} at {place}") from None
    except UnicodeDecodeError:
        raise DataError(f"{where}: not UTF-8 text") from None
    except RecursionError:
        raise DataError(f"{where}: not JSON that can be read: nested too deeply") from None
    except ValueError as error:
        raise DataError(f"{where}: not JSON that can be read: {_too_long(error) or error}") from None


def is_text(text: str) -> bool:
    """Whether it can be written as UTF-8: JSON can name halves of surrogate pairs."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _number(text: str) -> float:
    if math.isnan(value := float(text)):
        raise ValueError("nan is not a number")
    return value


def _too_long(error: ValueError) -> str:
    return "a number has too many digits" if "integer string conversion" in str(error) else ""
