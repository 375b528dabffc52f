"""What a benchmark has found so far: kept in a file as it grows, and ended in good order where its time is over.

--save FILE      the result is written after every run, step and peer, so that a run that is ended keeps it
--seconds N      after so many seconds the benchmark stops, and the result is what was measured until then; the
                 same happens on SIGTERM
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from subquest.errors import UsageError
from subquest.output_file import check_output, complete_file


class TimeIsUp(KeyboardInterrupt):
    """A kind of interrupt, because an event loop takes nothing else for a reason to end."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--save", type=Path, help="keep the results so far in this file, after each of them")
    parser.add_argument(
        "--seconds", type=float, default=0.0, help="stop after so long, with what was measured; 0: never"
    )


class Results:
    def __init__(self, name: str, args: argparse.Namespace) -> None:
        self.name = name
        self.figures: dict[str, Any] = {}
        self.ratios: dict[str, float] = {}
        self._file: Path | None = args.save
        self._seconds: float = args.seconds
        if not self._seconds >= 0:
            raise UsageError(f"--seconds {self._seconds:g} is not a time: it takes a number above 0")
        if self._file is not None:
            check_output(self._file, "json")

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "figures": self.figures, "ratios": self.ratios}

    def keep(self, **figures: Any) -> None:
        """Add figures, and write everything so far."""
        self.figures |= figures
        if self._file is not None:
            with complete_file(self._file) as file:
                file.write_text(json.dumps(self.as_dict(), indent=1), encoding="utf-8")

    @contextmanager
    def limited(self) -> Iterator[None]:
        """Let the work inside take the time that it may take."""

        def stop(*_: object) -> None:
            raise TimeIsUp

        before = {number: signal.signal(number, stop) for number in (signal.SIGALRM, signal.SIGTERM)}
        start = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, self._seconds)
        try:
            yield
        except TimeIsUp:
            self.figures["stopped_after_s"] = took = time.monotonic() - start
            print(f"stopped after {took:.0f} s, with what was measured until then", file=sys.stderr, flush=True)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            for number, handler in before.items():
                signal.signal(number, handler)
            self.keep()
