"""Command-line options that several benchmarks have, and what may be given for them."""

from __future__ import annotations

import argparse
from collections.abc import Callable


def at_least(least: int) -> Callable[[str], int]:
    """A whole number that is not below this."""

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"a whole number from {least} on, not {text!r}")
        return int(text)

    return read


COUNT = at_least(1)


def several(least: int) -> Callable[[str], list[int]]:
    """Whole numbers with commas between them, none below this."""
    one = at_least(least)
    return lambda text: [one(part) for part in text.split(",")]


def existing_device(text: str) -> str:
    """A device that this machine has."""
    import torch  # not every benchmark with counts needs it

    try:
        torch.empty(0, device=text)
    except (AssertionError, RuntimeError):
        raise argparse.ArgumentTypeError(f"there is no device {text!r} here") from None
    return text
