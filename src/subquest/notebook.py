"""What notebooks show: an episode as its tree with quotes, and progress while one runs.

Everything is plain HTML that opens without scripts and follows the notebook's light or dark colours. Text of models and
documents is escaped. Without a kernel (plain IPython, scripts) progress shows nothing.
"""

from __future__ import annotations

import queue
import sys
import time
from collections.abc import Mapping
from concurrent.futures import Future
from html import escape
from typing import TYPE_CHECKING, Any, TypeAlias

from .citation import cite
from .english import counted

if TYPE_CHECKING:
    from .events import Event

Record: TypeAlias = Any
"""An episode or a part of it: records call this module, so it does not import them."""
LONGEST = 4000
"""Characters of one turn that are shown."""
_PAUSE = 0.2
"""Seconds between two drawings."""
_SOFT = "opacity:.7"


def episode_html(episode: Record) -> str:
    """The question, the answer, its quotes, and the contexts that led to it, each to be opened."""
    answer = escape(episode.stated_answer) or f"no answer ({escape(episode.stop_reason)})"
    notes = [episode.system, episode.model]
    if episode.confidence is not None:
        notes.append(f"confidence {episode.confidence:.2f}")
    if episode.support_note:
        notes.append(episode.support_note)
    usage = episode.usage
    notes.append(counted(usage.model_calls, "model call"))
    notes.append(counted(usage.searches, "search"))
    notes.append(f"{usage.seconds:.1f} s")
    parts = [
        f"<div style='{_SOFT}'>{escape(episode.question.question)}</div>",
        f"<div style='font-size:1.2em;font-weight:600;white-space:pre-wrap'>{answer}</div>",
        f"<div style='{_SOFT}'>{escape(' · '.join(notes))}</div>",
        *(_quote(quote, marked=quote.states_answer and len(episode.evidence) > 1) for quote in episode.evidence),
        *(f"<div>⚠ {escape(failure.where)}: {escape(failure.message)}</div>" for failure in episode.errors),
        *(_context(episode, root) for root in episode.roots),
    ]
    return f"<div class='subquest-episode'>{''.join(parts)}</div>"


def _quote(evidence: Record, *, marked: bool) -> str:
    place = ", ".join(filter(None, (evidence.title, cite(evidence.place) or evidence.id)))
    place += " (states the answer)" if marked else ""
    style = "margin:.3em 0;padding-left:.8em;border-left:3px solid currentColor"
    return (
        f"<blockquote style='{style}'>{escape(evidence.quote)}<div style='{_SOFT}'>{escape(place)}</div></blockquote>"
    )


def _context(episode: Record, trajectory: Record) -> str:
    """One role's turns and what it handed out, closed until it is opened."""
    result = f" → {escape(_line(trajectory.result))}" if trajectory.result else ""
    turns = "".join(
        f"<pre style='white-space:pre-wrap;margin:.3em 0{'' if segment.kind == 'agent' else ';' + _SOFT}'>"
        f"{escape(_cut(segment.text.strip()))}</pre>"
        for segment in trajectory.segments
        if segment.kind != "prompt" and segment.text.strip()
    )
    below = "".join(_context(episode, child) for child in episode.children(trajectory))
    head = f"<b>{escape(trajectory.role)}</b> {escape(_line(trajectory.task))}{result}"
    return f"<details style='margin-left:1em'><summary>{head}</summary>{turns}{below}</details>"


def table_html(table: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """Results by data set and system: exact match and F1 with their intervals."""
    rows = []
    for dataset, systems in table.items():
        for system, cell in systems.items():
            shown = (f"{cell['n']}", _interval(cell, "em"), _interval(cell, "f1"), f"{cell.get('seconds') or 0:.1f}")
            values = "".join(f"<td>{escape(value)}</td>" for value in (dataset, system, *shown))
            rows.append(f"<tr>{values}</tr>")
    head = "".join(f"<th>{name}</th>" for name in ("data set", "system", "n", "EM", "F1", "seconds"))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _interval(cell: Mapping[str, Any], name: str) -> str:
    if cell.get(name) is None:
        return "–"
    return f"{cell[name]:.3f} ({cell[f'{name}_low']:.3f}–{cell[f'{name}_high']:.3f})"


class Progress:
    """Progress of work in another thread, drawn by the thread that waits for it: kernels show only what that writes."""

    def __init__(self) -> None:
        self._lines: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
        self._shown: list[tuple[int, str]] = []
        self._handle: Any = None
        self._began = time.monotonic()

    def add(self, event: Event) -> None:
        """Take in an event of an episode, from any thread."""
        data = event.data
        depth = event.trajectory.count(".") + 1 if event.trajectory else 0
        match event.kind:
            case "open":
                self.say(f"{data['role']}: {data['task']}", depth)
            case "documents":
                self.say(f"search: {data['query']} → {len(data['hits'])} found", depth + 1)
            case "result":
                self.say(f"result: {data['result']}", depth + 1)
            case "error" | "retry":
                self.say(f"{event.kind}: {data['where']}: {data['message']}", depth + 1)

    def say(self, line: str, depth: int = 0) -> None:
        """A line of text, from any thread."""
        self._lines.put((depth, _line(line)))

    def watch(self, future: Future[Any]) -> None:
        """Draw until the work is done."""
        while True:
            self._draw(done=future.done())
            if future.done():
                return
            try:
                future.exception(timeout=_PAUSE)
            except TimeoutError:
                continue

    def _draw(self, *, done: bool) -> None:
        display: Any = sys.modules["IPython"].display.display
        while not self._lines.empty():
            self._shown.append(self._lines.get())
        state = "done in" if done else "running for"
        lines = "".join(f"<div style='margin-left:{depth}em'>{escape(line)}</div>" for depth, line in self._shown[-12:])
        seconds = time.monotonic() - self._began
        html = f"<div style='{_SOFT};font-size:.9em'>{'' if done else lines}{state} {seconds:.1f} s</div>"
        content = {"text/html": html, "text/plain": f"{state} {seconds:.1f} s"}
        if self._handle is None:
            self._handle = display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)


def progress() -> Progress | None:
    """Where a notebook's kernel runs, something to show progress with; None elsewhere."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return Progress() if getattr(shell, "kernel", None) is not None else None


def _line(text: str, width: int = 120) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} … ({len(text) - LONGEST:,} more characters)"
