"""How far an ingestion is: a bar with rate and time left on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TYPE_CHECKING

from .terminal import clipped, is_live, printable

if TYPE_CHECKING:
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
