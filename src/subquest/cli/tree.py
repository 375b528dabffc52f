"""An episode in the terminal: a tree that grows while it happens, or plain lines where there is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

from ..events import Event

if TYPE_CHECKING:
    from rich.tree import Tree as RichTree

WIDTH = 100
"""Longest text shown on one line."""
STYLES = {
    "question": "bold",
    "planner": "bold cyan",
    "executor": "bold blue",
    "search": "green",
    "refine": "dim",
    "result": "bold",
    "memory": "magenta",
    "code": "magenta",
    "page": "green",
    "plan": "cyan",
    "error": "red",
    "retry": "yellow",
    "limit": "yellow",
    "answer": "bold green",
}


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
        line = _line(event)
        if line:
            (node.items if node else self.top).append(line)
        return line

    def _open(self, event: Event) -> Node:
        data = event.data
        node = Node(data["role"], _short(data["task"]), began=event.time)
        parent = self.nodes.get(data["parent"] or "")
        (parent.items if parent else self.top).append(node)
        self.nodes[event.trajectory] = node
        return node

    def render(self) -> RichTree:
        from rich.text import Text
        from rich.tree import Tree

        root = Tree(Text(self.title, STYLES["question"]), guide_style="dim")

        def grow(branch: Tree, items: list[Line | Node]) -> None:
            for item in items:
                if isinstance(item, Line):
                    branch.add(Text.assemble((f"{item.kind}  ", STYLES.get(item.kind, "")), item.text))
                    continue
                seconds = self.now - item.began if item.seconds is None else item.seconds
                cost = f"   {item.turns} turns, {item.tokens} tokens, {seconds:.1f} s"
                label = Text.assemble((f"{item.role}  ", STYLES.get(item.role, "bold")), item.task, (cost, "dim"))
                grow(branch.add(label), item.items)

        grow(root, self.top)
        return root


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
        case "answer":
            notes = ["forced"] if data["forced"] else []
            notes += [f"confidence {data['confidence']:.2f}"] if data["confidence"] is not None else []
            return Line("answer", _short(data["answer"] or "(none)") + (f"  ({', '.join(notes)})" if notes else ""))
        case "error" | "retry":
            return Line(event.kind, _short(f"{data['where']}: {data['message']}"))
        case "limit":
            return Line("limit", _short(f"{data['what']}: {data['message']}"))
        case "memory" | "code" | "page":
            return Line(event.kind, _short(str(data.get("text") or data.get("title") or data.get("source") or "")))
        case _:
            return None


def _short(text: str, width: int = WIDTH) -> str:
    """One line without control characters, so that no document can drive the terminal."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= width else line[: width - 1] + "…"


class LiveTree:
    """The tree on a terminal, redrawn as it grows. Use as a context manager and pass `add` as the listener."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live

        self.tree = EpisodeTree()
        self._live = Live(
            get_renderable=self.tree.render,
            console=Console(file=stream),
            refresh_per_second=8,
            vertical_overflow="visible",
        )

    def __enter__(self) -> LiveTree:
        self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._live.__exit__(*error)

    def add(self, event: Event) -> None:
        self.tree.add(event)


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
    return LiveTree(stream) if stream.isatty() else PlainLines(stream)
