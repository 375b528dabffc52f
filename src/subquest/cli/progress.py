"""How far long work is, on standard error: a line that is rewritten on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from collections import Counter as Tally
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..english import counted
from .terminal import clipped, is_live, printable

if TYPE_CHECKING:
    from ..evaluate.runner import Job
    from ..record import Episode
    from ..retrieval.ingest import State

_BAR = 24
_LIVE, _PLAIN = 0.1, 10.0
"""Seconds between two lines, on a terminal and elsewhere."""


class _StatusLine:
    """The line that says how far the work is."""

    def __init__(self) -> None:
        self.live = is_live(sys.stderr)
        self._start = self._shown = time.monotonic()
        self._drawn = False

    @property
    def seconds(self) -> float:
        """Since the work began."""
        return max(time.monotonic() - self._start, 1e-9)

    @property
    def due(self) -> bool:
        return time.monotonic() - self._shown >= (_LIVE if self.live else _PLAIN)

    def show(self, line: str) -> None:
        self._shown = time.monotonic()
        if self.live:
            self._drawn = True
            line = f"\r{clipped(line, shutil.get_terminal_size().columns)}\x1b[K"
        print(line, end="" if self.live else "\n", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Make room for other output."""
        if self._drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._drawn = False


class IngestProgress:
    """How far an ingestion is. Call it with the state as often as you like."""

    def __init__(self) -> None:
        self._line = _StatusLine()
        self.clear = self._line.clear

    def __call__(self, state: State) -> None:
        if not self._line.due:
            return
        bar, seconds = self._line.live, self._line.seconds
        share = state.bytes / state.bytes_total if state.bytes_total else 1.0
        rate = state.bytes / seconds
        full = round(share * _BAR)
        left = (state.bytes_total - state.bytes) / rate if rate else 0.0
        self._line.show(
            (f"[{'#' * full}{'.' * (_BAR - full)}] " if bar else "indexing ")
            + f"{share:4.0%}  {state.bytes / 1e6:,.1f} of {state.bytes_total / 1e6:,.1f} MB  {rate / 1e6:,.1f} MB/s  "
            + (f"{counted(state.rows, 'row')}  " if state.rows else "")
            + f"{counted(state.passages, 'passage')}  {state.passages / seconds:,.0f}/s  "
            + (f"{_clock(left)} left  " if rate else "")
            + f"file {min(state.files + 1, state.files_total):,} of {state.files_total:,}"
            + (f"  {printable(state.name)}" if bar else "")
        )


class DownloadProgress:
    """How much of a download is here. Call it with the bytes that are here and the bytes of all."""

    def __init__(self) -> None:
        self._line = _StatusLine()
        self._first: int | None = None

    def __enter__(self) -> DownloadProgress:
        return self

    def __exit__(self, *error: object) -> None:
        self._line.clear()

    def __call__(self, done: int, total: int) -> None:
        if self._first is None:
            self._first = done  # what an earlier call has brought says nothing about the speed
        if not self._line.due:
            return
        rate = (done - self._first) / self._line.seconds
        full = round(done / total * _BAR) if total else _BAR
        left = f"  {_clock((total - done) / rate)} left" if rate else ""
        self._line.show(
            (f"[{'#' * full}{'.' * (_BAR - full)}] " if self._line.live else "downloading ")
            + f"{done / total if total else 1:4.0%}  {done / 1e6:,.1f} of {total / 1e6:,.1f} MB  "
            + f"{rate / 1e6:,.1f} MB/s{left}"
        )


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Counter:
    """How far a count is, with rate and time left; silent where there is no terminal."""

    def __init__(self, what: str, total: int | None = None) -> None:
        self._what, self._total, self._done = what, total, 0
        self._line = _StatusLine()

    def __enter__(self) -> Counter:
        return self

    def __exit__(self, *error: object) -> None:
        self._line.clear()

    def advance(self, more: int) -> None:
        self._done += more
        if not self._line.live or not self._line.due:
            return
        rate = self._done / self._line.seconds
        line = f"{self._what}  {self._done:,}" + (f" of {self._total:,}" if self._total else "") + f"  {rate:,.0f}/s"
        if self._total and rate:
            line += f"  {(self._total - self._done) / rate:.0f} s left"
        self._line.show(line)


class EvaluationProgress:
    """How far an evaluation is, and why questions failed: the first reason at once, how often at the end."""

    def __init__(self, total: int, done: int) -> None:
        self._total, self._done, self._new = total, done, 0
        self._line = _StatusLine()
        self._em = self._tokens = self._cost = 0.0
        self._failed = 0
        self._reasons: Tally[str] = Tally()
        self._troubled = 0
        """Answers that were given although something failed on the way."""
        self._trouble = ""

    def __enter__(self) -> EvaluationProgress:
        if self._done:
            print(f"{self._done} of {self._total} are done already", file=sys.stderr)
        return self

    def __exit__(self, *error: object) -> None:
        if self._new:
            self._show()
            if self._line.live:
                print(file=sys.stderr)
        if self._reasons:
            (reason, times), *others = self._reasons.most_common()
            often = f" ({times} of them{', others for other reasons' if others else ''})" if self._failed > 1 else ""
            print(f"{self._failed} failed: {printable(reason)}{often}; run again to try once more", file=sys.stderr)
        if self._troubled:
            why = printable(self._trouble)
            print(f"{self._troubled} of {self._new} answered despite failures ({why})", file=sys.stderr)

    def add(self, job: Job, episode: Episode, scores: Mapping[str, float]) -> None:
        self._done += 1
        self._new += 1
        self._em += scores["em"]
        self._tokens += scores["prompt_tokens"] + scores["completion_tokens"]
        self._cost += scores["cost"]
        if scores["failed"]:
            self._failed += 1
            worst = max(reversed(episode.errors), key=lambda f: f.fatal, default=None)
            reason = worst.message if worst else "no reason given"
            if not self._reasons and self._done < self._total:
                self._line.clear()
                print(f"the first failure: {printable(reason)}", file=sys.stderr, flush=True)
            self._reasons[reason] += 1
        elif outside := [f for f in episode.errors if f.where in ("engine", "search", "file")]:
            self._troubled += 1
            self._trouble = self._trouble or f"{outside[0].where}: {outside[0].message}"
        if self._line.due and self._done < self._total:  # the last line comes at the end
            self._show()

    def _show(self) -> None:
        rate = self._new / self._line.seconds
        left = (self._total - self._done) / rate
        speed = f"{rate:.1f} questions/s" if rate >= 1 else f"{1 / rate:.1f} s/question"
        cost = f", cost {self._cost:.4g}" if self._cost else ""
        failed = f", {self._failed} failed" if self._failed else ""
        new = f" of {self._new} new" if self._new < self._done else ""
        self._line.show(
            f"{self._done}/{self._total}  EM {self._em / self._new:.3f}{new}  {speed}  "
            f"{_clock(left)} left  {self._tokens / 1000:.0f}k tokens{cost}{failed}"
        )
