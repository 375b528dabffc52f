"""An episode in the terminal: a tree that grows while it happens, or plain lines where there is no terminal."""

from __future__ import annotations

import shutil
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TextIO

from ..english import counted
from ..events import Event
from ..record import support_note
from .terminal import Paint, clipped, is_live, printable

WIDTH = 100
"""Longest text shown on one line."""
REDRAWS = 10
"""Redraws a second, at most."""
STYLES = {
    "question": "1",
    "planner": "1;36",
    "executor": "1;34",
    "search": "32",
    "refine": "2",
    "result": "1",
    "memory": "35",
    "code": "35",
    "tool": "35",
    "page": "32",
    "plan": "36",
    "error": "31",
    "retry": "33",
    "limit": "33",
    "section": "1",
    "answer": "1;32",
}
"""ANSI styles of the words that lines begin with."""
PROBLEMS = ("error", "retry")
"""Lines that are shown in full."""


@dataclass(slots=True)
class Line:
    kind: str
    text: str


@dataclass(slots=True)
class Node:
    """One role's context as it is shown."""

    role: str
    task: str
    items: list[Line | Node] = field(default_factory=list)
    turns: int = 0
    tokens: int = 0
    seconds: float | None = None
    began: float = 0.0


class EpisodeTree:
    """What has happened so far, built up event by event."""

    def __init__(self) -> None:
        self.title = ""
        self.top: list[Line | Node] = []
        self.nodes: dict[str, Node] = {}
        self.now = 0.0
        self._retried: dict[str, str] = {}
        """Why a call was tried again, by context."""

    def add(self, event: Event) -> Line | Node | None:
        """Take in an event; returns the line or node it added, if any."""
        data, node = event.data, self.nodes.get(event.trajectory)
        self.now = event.time
        if event.kind == "start":
            self.title = f"{_short(data['question'])}   [{data['system']} on {_short(data['model'], 60)}]"
            return Line("question", self.title)
        if event.kind == "open":
            return self._open(event)
        if event.kind == "turn" and node:
            node.turns += 1
            node.tokens += data["usage"].get("completion_tokens", 0)
        elif event.kind == "close" and node:
            node.seconds = event.time - node.began
        line = self._retry(event) if event.kind == "retry" else _line(event)
        if line:
            (node.items if node else self.top).append(line)
        return line

    def _retry(self, event: Event) -> Line:
        """The reason once, however often the call fails for it."""
        data = event.data
        reason = printable(f"{data['where']}: {data['message']}")
        again = self._retried.get(event.trajectory) == reason
        self._retried[event.trajectory] = reason
        return Line("retry", f"{data['where']}: failed again; waiting {data['wait']:.1f} s" if again else reason)

    def _open(self, event: Event) -> Node:
        data = event.data
        node = Node(data["role"], _short(data["task"]), began=event.time)
        parent = self.nodes.get(data["parent"] or "")
        (parent.items if parent else self.top).append(node)
        self.nodes[event.trajectory] = node
        return node

    def lines(self, paint: Paint, columns: int) -> Iterator[str]:
        """The tree as text, line by line. What went wrong is wrapped, so that it can be read to its end."""
        yield paint(self.title, STYLES["question"])

        def grow(items: list[Line | Node], indent: str) -> Iterator[str]:
            for number, item in enumerate(items, 1):
                last = number == len(items)
                stem = paint(indent + ("└── " if last else "├── "), "2")
                below = indent + ("    " if last else "│   ")
                if isinstance(item, Line):
                    width = columns - len(below) - len(item.kind) - 3
                    first, *rest = textwrap.wrap(item.text, max(width, 20)) if item.kind in PROBLEMS else [item.text]
                    yield f"{stem}{paint(item.kind, STYLES.get(item.kind, ''))}  {first}"
                    yield from (f"{paint(below, '2')}{' ' * len(item.kind)}  {more}" for more in rest)
                    continue
                seconds = self.now - item.began if item.seconds is None else item.seconds
                cost = paint(f"   {counted(item.turns, 'turn')}, {counted(item.tokens, 'token')}, {seconds:.1f} s", "2")
                yield f"{stem}{paint(item.role, STYLES.get(item.role, '1'))}  {item.task}{cost}"
                yield from grow(item.items, below)

        yield from grow(self.top, "")


def _line(event: Event) -> Line | None:
    data: Mapping[str, Any] = event.data
    match event.kind:
        case "documents":
            titles = " · ".join(hit["title"] or hit["id"] for hit in data["hits"]) or "nothing found"
            return Line("search", _short(f"{data['query']}  →  {titles}"))
        case "plan" if len(data["steps"]) > 1:
            return Line("plan", _short(" | ".join(data["steps"])))
        case "refine":
            return Line("refine", _short(data["text"]))
        case "result":
            return Line("result", _short(data["result"]) + ("  (forced)" if data.get("forced") else ""))
        case "section":
            return Line("section", _short(data["text"]))
        case "answer":
            notes = ["forced"] if data["forced"] and data["answer"] else []
            notes += [f"confidence {data['confidence']:.2f}"] if data["confidence"] is not None else []
            notes += filter(None, [support_note(data.get("supported"), bool(data.get("parts_supported")))])
            return Line("answer", _short(data["answer"] or "(none)") + (f"  ({', '.join(notes)})" if notes else ""))
        case "error":
            return Line("error", printable(f"{data['where']}: {data['message']}"))
        case "limit":
            return Line("limit", _short(f"{data['what']}: {data['message']}"))
        case "code" if data.get("tool"):
            return Line("tool", _short(f"{data['source']} → {data['output'] or data['error'] or '(nothing)'}"))
        case "memory" | "code" | "page":
            text = str(data.get("text") or data.get("title") or data.get("source") or "")
            return Line(event.kind, _short(text)) if text.strip() else None
        case _:
            return None


def _short(text: str, width: int = WIDTH) -> str:
    line = printable(text)
    return line if len(line) <= width else line[: width - 1] + "…"


class LiveTree:
    """The tree on a terminal, redrawn as it grows. Use as a context manager and pass `add` as the listener."""

    def __init__(self, stream: TextIO) -> None:
        self.tree = EpisodeTree()
        self._stream = stream
        self._paint = Paint(stream)
        self._drawn = 0
        self._last = 0.0

    def __enter__(self) -> LiveTree:
        return self

    def __exit__(self, *error: Any) -> None:
        self._draw(whole=True)

    def add(self, event: Event) -> None:
        self.tree.add(event)
        if time.monotonic() - self._last > 1 / REDRAWS:
            self._draw()

    def _draw(self, *, whole: bool = False) -> None:
        """Write the tree over the last one. While it grows, only as much as the window holds; at the end, all of it."""
        self._last = time.monotonic()
        columns, rows = shutil.get_terminal_size()
        lines = [clipped(line, columns) for line in self.tree.lines(self._paint, columns)]
        shown = lines if whole else lines[-(rows - 1) :]
        back = f"\x1b[{self._drawn}F\x1b[J" if self._drawn else ""
        self._stream.write(back + "".join(f"{line}\n" for line in shown))
        self._stream.flush()
        self._drawn = len(shown)


class PlainLines:
    """The same, line by line, for pipes and logs."""

    def __init__(self, stream: TextIO) -> None:
        self.tree = EpisodeTree()
        self._stream = stream

    def __enter__(self) -> PlainLines:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stream.flush()

    def add(self, event: Event) -> None:
        item = self.tree.add(event)
        if item is None:
            return
        depth = event.trajectory.count(".") + 1 if event.trajectory else 0
        text = f"{item.kind}: {item.text}" if isinstance(item, Line) else f"{item.role}: {item.task}"
        print(f"{'  ' * (depth + isinstance(item, Line))}{text}", file=self._stream, flush=True)


def display(stream: TextIO | None = None) -> LiveTree | PlainLines:
    """The live tree on a terminal, plain lines elsewhere."""
    stream = stream or sys.stderr
    return LiveTree(stream) if is_live(stream) else PlainLines(stream)
