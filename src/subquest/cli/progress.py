"""How far long work is, on standard error: a line that is rewritten on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from collections import Counter as Tally
from collections.abc import Mapping
from typing import TYPE_CHECKING

from .terminal import clipped, is_live, printable

if TYPE_CHECKING:
    from ..evaluate.runner import Job
    from ..record import Episode
    from ..retrieval.ingest import State

_BAR = 24
_LIVE, _PLAIN = 0.1, 10.0
"""Seconds between two looks, on a terminal and elsewhere."""


class IngestProgress:
    """Told the state of an ingestion as often as one likes; writes to standard error."""

    def __init__(self) -> None:
        self._start = self._shown = time.monotonic()
        self._live = is_live(sys.stderr)
        self._drawn = False

    def __call__(self, state: State) -> None:
        now = time.monotonic()
        if now - self._shown < (_LIVE if self._live else _PLAIN):
            return
        self._shown = now
        line = _line(state, now - self._start, bar=self._live)
        if self._live:
            self._drawn = True
            print(f"\r{clipped(line, shutil.get_terminal_size().columns)}\x1b[K", end="", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Make room for another line."""
        if self._drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._drawn = False


def _line(state: State, seconds: float, *, bar: bool) -> str:
    share = state.bytes / state.bytes_total if state.bytes_total else 1.0
    rate = state.bytes / max(seconds, 1e-9)
    full = round(share * _BAR)
    left = (state.bytes_total - state.bytes) / rate if rate else 0.0
    return (
        (f"[{'#' * full}{'.' * (_BAR - full)}] " if bar else "indexing ")
        + f"{share:4.0%}  {state.bytes / 1e6:,.1f} of {state.bytes_total / 1e6:,.1f} MB  {rate / 1e6:,.1f} MB/s  "
        + f"{state.passages:,} passages  {state.passages / max(seconds, 1e-9):,.0f}/s  {_clock(left)} left  "
        + f"file {min(state.files + 1, state.files_total):,} of {state.files_total:,}"
        + (f"  {printable(state.name)}" if bar else "")
    )


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Counter:
    """How far a long job is: a line that is rewritten, with rate and time left; silent where there is no terminal."""

    def __init__(self, what: str, total: int | None = None) -> None:
        self._what, self._total, self._done = what, total, 0
        self._start = time.monotonic()
        self._shown = 0.0
        self._live = is_live(sys.stderr)

    def __enter__(self) -> Counter:
        return self

    def __exit__(self, *error: object) -> None:
        if self._live and self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def advance(self, more: int) -> None:
        self._done += more
        now = time.monotonic()
        if not self._live or now - self._shown < 0.1:
            return
        self._shown = now
        rate = self._done / max(now - self._start, 1e-9)
        line = f"{self._what}  {self._done:,}" + (f" of {self._total:,}" if self._total else "") + f"  {rate:,.0f}/s"
        if self._total and rate:
            line += f"  {(self._total - self._done) / rate:.0f} s left"
        print(f"\r{clipped(line, shutil.get_terminal_size().columns)}\x1b[K", end="", file=sys.stderr, flush=True)


class EvaluationProgress:
    """How far an evaluation is: on a terminal a line that is rewritten, elsewhere a line now and then."""

    def __init__(self, total: int, done: int) -> None:
        self._total, self._done, self._new = total, done, 0
        self._start = self._shown = time.monotonic()
        self._em = self._tokens = self._cost = 0.0
        self._failed = 0
        self._reasons: Tally[str] = Tally()
        self._hampered = 0
        """Answers that were given although something failed on the way."""
        self._hindrance = ""
        self._live = is_live(sys.stderr)

    def __enter__(self) -> EvaluationProgress:
        if self._done:
            print(f"{self._done} of {self._total} are done already", file=sys.stderr)
        return self

    def __exit__(self, *error: object) -> None:
        if self._new:
            self._show(end="\n")
        if self._reasons:
            (reason, times), *others = self._reasons.most_common()
            often = f" ({times} of them{', others for other reasons' if others else ''})" if self._failed > 1 else ""
            print(f"{self._failed} failed: {printable(reason)}{often}; run again to try once more", file=sys.stderr)
        if self._hampered:
            why = printable(self._hindrance)
            print(f"{self._hampered} of {self._new} answered in spite of failures ({why})", file=sys.stderr)

    def add(self, job: Job, episode: Episode, scores: Mapping[str, float]) -> None:
        self._done += 1
        self._new += 1
        self._em += scores["em"]
        self._tokens += scores["prompt_tokens"] + scores["completion_tokens"]
        self._cost += scores["cost"]
        if scores["failed"]:
            self._failed += 1
            worst = max(reversed(episode.errors), key=lambda f: f.fatal, default=None)
            self._reasons[worst.message if worst else "no reason was given"] += 1
        elif outside := [f for f in episode.errors if f.where in ("engine", "search", "file")]:
            self._hampered += 1
            self._hindrance = self._hindrance or f"{outside[0].where}: {outside[0].message}"
        if time.monotonic() - self._shown > (0.2 if self._live else 10):
            self._show(end="\r" if self._live else "\n")

    def _show(self, end: str) -> None:
        self._shown = time.monotonic()
        rate = self._new / max(self._shown - self._start, 1e-9)
        left = (self._total - self._done) / rate if rate else 0
        cost = f", cost {self._cost:.4g}" if self._cost else ""
        failed = f", {self._failed} failed" if self._failed else ""
        line = (
            f"{self._done}/{self._total}  EM {self._em / self._new:.3f}  {rate:.2f}/s  "
            f"{left / 60:.0f} min left  {self._tokens / 1000:.0f}k tokens{cost}{failed}"
        )
        print(f"{line:<90}" if end == "\r" else line, end=end, file=sys.stderr, flush=True)
