"""A compact trace: every context of an episode, its turns and what the environment said, cut to a readable length."""

from __future__ import annotations

from html import escape

from ...record import Episode, Trajectory
from .content import Entry

_TURN = 900
_ENVIRONMENT = 400


def trace(entry: Entry, episode: Episode, anchor: str) -> str:
    question = episode.question
    notes = (", forced" if episode.forced else "") + (
        ", not supported by a document" if episode.supported is False else ""
    )
    summary = (
        f'<span class="pill"><i class="o-{entry.outcome.replace(" ", "-")}"></i></span>{escape(question.question)}'
        f"<small>{escape(entry.row.system)}, {escape(entry.row.dataset)}, {entry.outcome}{notes}</small>"
    )
    answer = (
        f"<p>Answer: <b>{escape(episode.answer or '–')}</b><br>Gold: {escape(' | '.join(question.answers[:8]))}</p>"
    )
    errors = "".join(f'<div class="turn error">{escape(f"{e.where}: {e.message}")}</div>' for e in episode.errors)
    contexts = "".join(_context(depth, t) for depth, t in episode.walk())
    return f'<details id="{anchor}"><summary>{summary}</summary>{answer}{errors}{contexts}</details>'


def _context(depth: int, trajectory: Trajectory) -> str:
    turns = []
    for segment in trajectory.segments:
        if segment.kind == "prompt" or not segment.text.strip():
            continue
        kind, length = ("env", _ENVIRONMENT) if segment.kind == "env" else ("agent", _TURN)
        turns.append(f'<div class="turn {kind}">{escape(_cut(segment.text.strip(), length))}</div>')
    usage = trajectory.usage
    return (
        f'<div class="context" style="--depth:{min(depth, 6)}"><h4>{escape(trajectory.role)} '
        f"<small>{escape(_cut(trajectory.task, 200))} · {usage.model_calls} calls, longest context "
        f"{usage.peak_context:,}, {escape(trajectory.stop_reason)}</small></h4>{''.join(turns)}</div>"
    )


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length * 2 // 3]} […] {text[-length // 3 :]}"
