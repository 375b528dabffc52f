"""Nasty inputs: files that are wrong whatever they should be, and valid files with one thing wrong."""

import itertools
import json
import os
import random
import re
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

DEEP = 100_000
WRONG: dict[str, str] = {
    "null": "null",
    "number": "7",
    "negative": "-1",
    "digits": "9" * 6000,
    "float": "1.5",
    "nan": "NaN",
    "infinity": "-Infinity",
    "huge-float": "1e999",
    "text": '"text"',
    "empty-text": '""',
    "surrogate": r'"\ud800"',
    "nul-text": r'"a\u0000b"',
    "flag": "true",
    "list": "[]",
    "lists": '[[1], {"a": [null]}]',
    "object": "{}",
    "objects": '{"a": {"b": 1}, "": null}',
    "twice": '{"id": 1, "id": "b", "reply": 1, "reply": []}',
    "deep": "[" * DEEP,
    "deep-closed": "[" * DEEP + "]" * DEEP,
    "deep-object": '{"a":' * DEEP,
}
"""JSON values, of which hardly any is what a place needs."""
CONTENTS: dict[str, bytes] = {
    **{f"json-{name}": text.encode() for name, text in WRONG.items()},
    "empty": b"",
    "blank": b"\n \r\n\t\n",
    "nul": bytes(512),
    "latin-1": "Stra\xdfe, caf\xe9\n".encode("latin-1") * 50,
    "utf-16": '{"id": "1", "question": "Who?"}\n'.encode("utf-16"),
    "half-character": '{"id": "é'.encode()[:-1],
    "bom": b'\xef\xbb\xbf{"id": "1"}\n',
    "line": b"a" * (2 << 20),
    "random": random.Random(1).randbytes(4096),
    "sqlite": b"SQLite format 3\0" + bytes(84),
    "gguf": b"GGUF\x03\0\0\0" + b"\xff" * 40,
    "gguf-short": b"GGUF",
    "safetensors": b"\xff\xff\xff\xff\xff\xff\xff\x7f{}",
    "gzip": b"\x1f\x8b\x08\0\0\0\0\0",
    "zip": b"PK\x03\x04" + bytes(30),
    "parquet": b"PAR1" + bytes(20) + b"PAR1",
    "pdf": b"%PDF-1.7\n%broken",
    "toml-deep": b"a = " + b"[" * DEEP,
    "toml-table": b"[" + b"a." * 5000 + b"a]\n",
    "toml-digits": b"system = " + b"9" * 6000,
    "toml-twice": b"a = 1\na = 2\n",
    "python": b"import nothing_of_this_name\n",
    "python-broken": b"def (:\n",
    "python-raises": b"raise ZeroDivisionError('at import')\n",
}
"""Files that are wrong wherever they are given, or empty."""
NUMBERS = ("nan", "inf", "-inf", "-1", "0", "1e999", "9" * 6000, "1.5", "", " ", "٣", "0x10", str(1 << 63), "true")
TEXTS = (
    "", " ", "\x1b[31mred", "\udcff", "x" * 100_000, "=", "a=b", "a.b=c", "..", "/", ",", "%s{}$x", ":", "a\nb",
    "scripted:", "gguf:", "torch:", "openai:", "http://", "http://[::1", "http://127.0.0.1:99999/v1#m", "lance:",
    "postgres://127.0.0.1:9/x", "qdrant+http://", "world:seed=x", "world:", "file:///etc/passwd", "-1", "no.py:Class",
)  # fmt: skip


def make_special(folder: Path) -> dict[str, Path]:
    """What is no readable file, by name."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {name: folder / name for name in ("folder", "pipe", "socket", "circle", "dangling", "unreadable", "closed")}
    found["folder"].mkdir()
    os.mkfifo(found["pipe"])
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(folder)  # the name of a socket may not be long
        server.bind("socket")
        os.chdir(here)
    found["circle"].symlink_to("circle")
    found["dangling"].symlink_to("nowhere")
    found["unreadable"].write_text("{}")
    found["unreadable"].chmod(0)
    found["closed"].mkdir()
    found["closed"].chmod(0)
    found["missing"] = folder / "missing.jsonl"
    found["in-a-file"] = folder / "unreadable" / "missing.jsonl"
    found["long"] = folder / ("long" * 200)
    found["escape"] = folder / "\x1b[31mred\n.jsonl"
    found["bytes"] = folder / os.fsdecode(b"caf\xe9.jsonl")
    for name in ("escape", "bytes"):
        found[name].write_text("{")
    return found


def make_generic(folder: Path, suffix: str) -> dict[str, Path]:
    """Every wrong content under a name with this ending."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {name: folder / f"{name}{suffix}" for name in CONTENTS}
    for name, path in found.items():
        path.write_bytes(CONTENTS[name])
    return found


def make_spoiled(valid: Path, folder: Path, limit: int = 40) -> dict[str, Path]:
    """Copies of a valid file or folder, each with one thing wrong."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [valid] if valid.is_file() else sorted(f for f in valid.rglob("*") if f.is_file())
    found: dict[str, Path] = {}
    numbers = itertools.count()
    for file in files:
        for name, content in spoiled(file.read_bytes(), file.suffix, limit):
            place = folder / f"{next(numbers)}-{valid.name}"
            _copy(valid, place)
            (place if valid.is_file() else place / file.relative_to(valid)).write_bytes(content)
            found[f"{file.name}-{name}"] = place
        if valid.is_dir():
            for name, change in (("gone", Path.unlink), ("folder", _as_folder), ("unreadable", _unreadable)):
                place = folder / f"{next(numbers)}-{valid.name}"
                _copy(valid, place)
                change(place / file.relative_to(valid))
                found[f"{file.name}-{name}"] = place
    return found


def _copy(valid: Path, place: Path) -> None:
    if valid.is_dir():
        shutil.copytree(valid, place)
    else:
        shutil.copyfile(valid, place)


def _as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _unreadable(path: Path) -> None:
    path.chmod(0)


def spoiled(content: bytes, suffix: str, limit: int) -> Iterator[tuple[str, bytes]]:
    """A valid content with one thing wrong: bytes first, then values where it is JSON or TOML."""
    middle = len(content) // 2
    yield "cut", content[:middle]
    yield "one-byte-short", content[:-1]
    yield "nul", content[:middle] + bytes(4) + content[middle:]
    yield "not-utf-8", content[:middle] + b"\xff\xfe" + content[middle:]
    yield "flipped", bytes(b ^ 0x55 if i % 97 == 13 else b for i, b in enumerate(content[:20_000])) + content[20_000:]
    yield "twice", content + content
    yield "more", content + b"\n{"
    if suffix in (".jsonl", ".json", ".toml", ".md", ".py", ".txt"):
        yield "bom", b"\xef\xbb\xbf" + content
        yield "crlf", content.replace(b"\n", b"\r\n")
        yield "utf-16", content.decode().encode("utf-16")
    changes = {".jsonl": _json_lines, ".json": _json_values, ".toml": _toml_values}.get(suffix)
    if changes:
        made = list(changes(content.decode()))
        random.Random(len(content)).shuffle(made)
        yield from made[:limit]


def _json_lines(text: str) -> Iterator[tuple[str, bytes]]:
    lines = text.splitlines()
    for at in dict.fromkeys((0, len(lines) - 1)):
        for name, changed in _json_values(lines[at]):
            yield f"line{at}-{name}", "\n".join([*lines[:at], changed.decode(), *lines[at + 1 :]]).encode()


def _json_values(text: str) -> Iterator[tuple[str, bytes]]:
    """The document with one of its values, or one of its keys, replaced by each wrong value."""
    document = json.loads(text)
    mark = "\u2042"
    for name, put in _places(document):
        before = put(mark)
        written = json.dumps(document)
        put(before)
        for kind, wrong in WRONG.items():
            yield f"{name}-{kind}", written.replace(json.dumps(mark), wrong, 1).encode()
    if isinstance(document, dict):
        for key in list(document)[:10]:
            rest = {k: v for k, v in document.items() if k != key}
            yield f"without-{key}", json.dumps(rest).encode()
        yield "unknown-key", json.dumps({**document, "surprise": 1}).encode()


def _places(value: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Where values stand in a document, each with a function that puts another there and returns the old one."""
    keys = list(value)[:12] if isinstance(value, dict) else range(min(len(value), 2)) if isinstance(value, list) else ()
    for key in keys:

        def put(new: Any, key: Any = key) -> Any:
            old, value[key] = value[key], new
            return old

        yield f"{name}.{key}", put
        if depth < 3:
            yield from _places(value[key], f"{name}.{key}", depth + 1)


def _toml_values(text: str) -> Iterator[tuple[str, bytes]]:
    """The document with the value of one line replaced by each wrong value, or with the line twice."""
    toml = {k: v for k, v in WRONG.items() if k not in ("null", "nan", "infinity", "huge-float", "object", "objects")}
    toml |= {"nan": "nan", "infinity": "-inf", "table": "{ a = { b = 1 } }", "date": "2020-01-01", "bare": "bare"}
    lines = text.splitlines()
    for at, line in enumerate(lines):
        if found := re.match(r"([\w.-]+) *= *\S", line):
            for kind, wrong in toml.items():
                changed = [*lines[:at], f"{found[1]} = {wrong}", *lines[at + 1 :]]
                yield f"{found[1]}-{kind}", "\n".join(changed).encode()
            yield f"{found[1]}-twice", "\n".join([*lines[: at + 1], line, *lines[at + 1 :]]).encode()
            yield f"{found[1]}-gone", "\n".join([*lines[:at], *lines[at + 1 :]]).encode()
