"""Runs as JSON lines, without loss: to move them, to read them with other tools, to archive them.

The first line says what the file is; every other line is one of

    {"type": "question", "question": {…}}                                a question, asked or to be asked
    {"type": "episode", "attempt": 0, "added": 1.7e9, "episode": {…}}    a finished episode with its events
    {"type": "events", "episode": "id", "events": […]}                   the events of an interrupted episode
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
from typing import Any, TextIO

from ..codec import from_dict, to_dict
from ..errors import DataError, SubquestError, UsageError
from ..events import Event
from ..input_file import check_input, parse_json
from ..record import Episode, Question
from .file import create_file, damaged, new_run_path
from .reader import Reader
from .rows import Write
from .writer import Receipt, Writer

FORMAT = 1
"""Of the lines; that of the file has a number of its own."""
Entry = Mapping[str, Any]
"""What a line holds."""

_IN_FLIGHT = 256
"""Writes that wait for the disk together during an import."""


def export_run(run: Reader, file: TextIO) -> int:
    """Write the run as JSON lines; returns the number of episodes."""
    if (found := run.query("PRAGMA integrity_check(1)")) != [("ok",)]:  # records are found through indexes
        raise damaged(run.path, " ".join(str(found[0][0]).split()))
    if wrong := run.changed_tables():
        raise damaged(run.path, f"its table {wrong[0]} is not what was written")
    episodes = 0
    for entry in run_entries(run):
        file.write(entry_line(entry) + "\n")
        episodes += entry["type"] == "episode"
    return episodes


def import_run(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> int:
    """Create a run from JSON lines; returns the number of episodes. If a line is wrong, no run is created."""
    path = check_input(Path(source), "the exported run")
    try:
        with path.open(encoding="utf-8-sig") as file:
            numbered = ((f"{path}:{number}", line) for number, line in enumerate(file, 1) if line.strip())
            return write_entries(((where, _parse(where, line)) for where, line in numbered), new_run_path(target))
    except OSError as error:
        raise UsageError(f"cannot import {path} into {target}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: {error.reason}") from None


def run_entries(run: Reader) -> Iterator[Entry]:
    """The whole run, in the order in which it was written."""
    yield run_entry(run.meta())
    for question in run.questions():
        yield {"type": "question", "question": to_dict(question)}
    for summary, episode in zip(run.summaries(), run.episodes(), strict=False):
        yield episode_entry(episode, summary.attempt, summary.added)
    for episode_id in run.interrupted():
        yield {"type": "events", "episode": episode_id, "events": [to_dict(e) for e in run.events(episode_id)]}
    for episode_id, scores in itertools.groupby(run.scores(), lambda score: score.episode):
        yield {"type": "scores", "episode": episode_id, "scores": {s.metric: s.value for s in scores}}
    for step, metrics in itertools.groupby(run.metrics(), lambda metric: metric.step):
        yield {"type": "metrics", "step": step, "metrics": {m.name: m.value for m in metrics}}


def run_entry(meta: Mapping[str, Any]) -> Entry:
    """The first of a run; `meta` has at least its `settings`."""
    return {"type": "run", "format": FORMAT, **meta}


def episode_entry(episode: Episode, attempt: int, added: float) -> Entry:
    return {"type": "episode", "attempt": attempt, "added": added, "episode": to_dict(episode)}


def write_entries(entries: Iterable[tuple[str, Entry]], target: Path) -> int:
    """Create a run from entries, each with its place for error messages; returns the number of episodes.

    The run appears complete or not at all.
    """
    if target.exists():
        raise UsageError(f"{target} already exists; choose another name")
    stream = iter(entries)
    where, first = next(stream, ("", {}))
    if first.get("type") != "run" or not isinstance(first.get("settings"), dict):
        raise DataError(f"{where or 'an empty file'}: this is not an exported run: its first line must say so")
    if first.get("format") != FORMAT:
        raise DataError(f"{where}: this version of Subquest does not know run format {first.get('format')!r}")
    scratch = target.with_name(f"{target.name}.{uuid.uuid4().hex[:8]}.new")
    create_file(scratch, {key: json.dumps(value) for key, value in first.items() if key not in ("type", "format")})
    try:
        episodes = _write_all(stream, scratch)
        os.link(scratch, target)
    except FileExistsError:
        raise UsageError(f"{target} already exists; choose another name") from None
    finally:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{scratch}{suffix}").unlink(missing_ok=True)
    return episodes


def _write_all(entries: Iterator[tuple[str, Entry]], path: Path) -> int:
    writer = Writer(path)
    episodes = 0
    waiting: deque[tuple[str, Receipt]] = deque()
    try:
        for where, entry in entries:
            waiting.append((where, writer.put(_write_of(where, entry))))
            episodes += entry["type"] == "episode"
            if len(waiting) > _IN_FLIGHT:
                _wait_for(*waiting.popleft())
        while waiting:
            _wait_for(*waiting.popleft())
    finally:
        for _, receipt in waiting:
            receipt.awaited = True
        writer.close()
    return episodes


def _wait_for(where: str, receipt: Receipt) -> None:
    try:
        receipt.wait()
    except DataError as error:
        raise DataError(f"{where}: {error}") from None


def _write_of(where: str, entry: Entry) -> Write:
    try:
        match entry:
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
        raise DataError(f"{where}: {error}") from None
    raise DataError(f"{where}: not an entry of an exported run (type {entry.get('type')!r})")


def _numbers(values: Mapping[str, Any]) -> Mapping[str, Any]:
    for name, value in values.items():
        if type(value) not in (int, float):
            raise DataError(f"{name} must be a number, not {value!r}")
    return values


def _parse(where: str, line: str) -> Entry:
    data = parse_json(line, where)
    if not isinstance(data, dict):
        raise DataError(f"{where}: expected an object")
    return data


def entry_line(entry: Entry) -> str:
    text = json.dumps(entry, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which only a JSON escape can express
        text = json.dumps(entry, separators=(",", ":"))
    return text
