"""Runs as JSON lines, without loss: to move them, to read them with other tools, to keep them for long.

The first line says what the file is; each other line is one of

    {"type": "question", "question": {…}}                                a question, asked or to be asked
    {"type": "episode", "attempt": 0, "added": 1.7e9, "episode": {…}}    a finished episode with its events
    {"type": "events", "episode": "id", "events": […]}                   the stream of an interrupted episode
    {"type": "scores", "episode": "id", "scores": {…}}
    {"type": "metrics", "step": 1, "metrics": {…}}
"""

from __future__ import annotations

import itertools
import json
import os
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from operator import methodcaller
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from ..codec import from_dict, to_dict
from ..errors import DataError, SubquestError, UsageError
from ..events import Event
from ..record import Episode, Question
from .ledger import Write
from .reader import Reader
from .receipt import Receipt
from .schema import SCHEMA_VERSION, create_file, run_path
from .writer import Writer

_IN_FLIGHT = 256
"""Writes that wait for the disk together during an import."""


class Entry(NamedTuple):
    """A line of the exchange format, and where it came from, for messages."""

    place: str
    data: Mapping[str, Any]


def export_run(run: Reader, file: TextIO) -> int:
    """Write the run as JSON lines; returns the number of episodes."""
    episodes = 0
    for _, data in run_entries(run):
        file.write(_line(data) + "\n")
        episodes += data["type"] == "episode"
    return episodes


def import_run(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> int:
    """Make a run from JSON lines; returns the number of episodes. Where a line is wrong, no run is made."""
    path = Path(source)
    try:
        with path.open(encoding="utf-8") as file:
            entries = (_parsed(f"{path}:{n}", line) for n, line in enumerate(file, 1) if line.strip())
            return write_entries(entries, run_path(target))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not text in UTF-8: {error.reason}") from None


def run_entries(run: Reader) -> Iterator[Entry]:
    """The whole run, in the order it was written."""
    place = str(run.path)
    yield Entry(place, {"type": "run", "format": SCHEMA_VERSION, **run.meta()})
    for question in run.questions():
        yield Entry(place, {"type": "question", "question": to_dict(question)})
    for summary, episode in zip(run.summaries(), run.episodes(), strict=False):
        yield Entry(place, episode_entry(episode, summary.attempt, summary.added))
    for episode_id in run.interrupted():
        yield Entry(place, events_entry(episode_id, run.events(episode_id)))
    for episode_id, scores in itertools.groupby(run.scores(), lambda score: score.episode):
        yield Entry(place, {"type": "scores", "episode": episode_id, "scores": {s.metric: s.value for s in scores}})
    for step, metrics in itertools.groupby(run.metrics(), lambda metric: metric.step):
        yield Entry(place, {"type": "metrics", "step": step, "metrics": {m.name: m.value for m in metrics}})


def episode_entry(episode: Episode, attempt: int, added: float) -> dict[str, Any]:
    return {"type": "episode", "attempt": attempt, "added": added, "episode": to_dict(episode)}


def events_entry(episode_id: str, events: Iterable[Event]) -> dict[str, Any]:
    return {"type": "events", "episode": episode_id, "events": [to_dict(e) for e in events]}


def write_entries(entries: Iterable[Entry], target: Path) -> int:
    """Make a run at `target` from entries; returns the number of episodes. It appears there whole or not at all."""
    if target.exists():
        raise UsageError(f"{target} exists already; choose another name")
    stream = iter(entries)
    first = next(stream, None)
    if first is None:
        raise DataError("nothing stands in what is imported: this is not an exported run")
    if first.data.get("type") != "run" or not isinstance(first.data.get("settings"), dict):
        raise DataError(f"{first.place}: this is not an exported run: its first line must say so")
    if first.data.get("format") != SCHEMA_VERSION:
        raise DataError(f"{first.place}: run format {first.data.get('format')!r} is not known to this Subquest")
    scratch = target.with_name(f"{target.name}.{uuid.uuid4().hex[:8]}.new")
    meta = {key: json.dumps(value) for key, value in first.data.items() if key not in ("type", "format")}
    create_file(scratch, meta)
    try:
        episodes = _write_all(stream, scratch)
        os.link(scratch, target)
    except FileExistsError:
        raise UsageError(f"{target} exists already; choose another name") from None
    finally:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{scratch}{suffix}").unlink(missing_ok=True)
    return episodes


def _write_all(entries: Iterator[Entry], path: Path) -> int:
    writer = Writer(path)
    episodes = 0
    waiting: deque[tuple[str, Receipt]] = deque()
    try:
        for place, data in entries:
            waiting.append((place, writer.put(_write(place, data))))
            episodes += data["type"] == "episode"
            if len(waiting) > _IN_FLIGHT:
                _await(*waiting.popleft())
        while waiting:
            _await(*waiting.popleft())
    finally:
        for _, receipt in waiting:
            receipt.seen = True
        writer.close()
    return episodes


def _await(place: str, receipt: Receipt) -> None:
    try:
        receipt.wait()
    except DataError as error:
        raise DataError(f"{place}: {error}") from None


def _write(place: str, data: Mapping[str, Any]) -> Write:
    try:
        match data:
            case {"type": "question", "question": record}:
                return methodcaller("question", to_dict(from_dict(Question, record)))
            case {"type": "episode", "attempt": int(attempt), "added": int(added) | float(added), "episode": record}:
                return methodcaller("episode", to_dict(from_dict(Episode, record)), attempt, float(added))
            case {"type": "events", "episode": str(episode_id), "events": [_, *_] as records}:
                return methodcaller("events", episode_id, [to_dict(from_dict(Event, e)) for e in records])
            case {"type": "scores", "episode": str(episode_id), "scores": dict(scores)}:
                return methodcaller("scores", episode_id, _numbers(scores))
            case {"type": "metrics", "step": int(step), "metrics": dict(metrics)}:
                return methodcaller("metrics", step, _numbers(metrics))
    except SubquestError as error:
        raise DataError(f"{place}: {error}") from None
    raise DataError(f"{place}: not an entry of an exported run (type {data.get('type')!r})")


def _numbers(values: Mapping[str, Any]) -> Mapping[str, Any]:
    for name, value in values.items():
        if type(value) not in (int, float):
            raise DataError(f"{name} must be a number, not {value!r}")
    return values


def _parsed(place: str, line: str) -> Entry:
    try:
        data = json.loads(line)
    except ValueError as error:
        raise DataError(f"{place}: not JSON: {error}") from None
    if not isinstance(data, dict):
        raise DataError(f"{place}: expected an object")
    return Entry(place, data)


def _line(data: Mapping[str, Any]) -> str:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which UTF-8 does not know and a JSON escape does
        text = json.dumps(data, separators=(",", ":"))
    return text
