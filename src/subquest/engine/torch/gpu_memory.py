"""Memory of a GPU that several processes share: engines of evaluations and trainings side by side.

Nothing says beforehand what the others will take. So an engine measures what is free when it starts, one engine of a
GPU at a time, takes a share of it for its cache, and takes less, or waits, where even that is not to be had.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import torch

from ...errors import EngineError, UsageError

VARIABLE = "SUBQUEST_GPU_SHARE"
SHARE = 0.4
"""Part of the free memory that a cache takes where nothing else is said."""
RESERVE = 1 << 30
"""Bytes left free for the working memory of steps and their graphs."""
LEAST = 16_384
"""Tokens below which a cache is not worth having, and an engine waits for memory instead."""
PATIENCE = 120.0
"""Seconds to wait for memory."""

T = TypeVar("T")


def wanted_share() -> float:
    """The share of the free memory that `SUBQUEST_GPU_SHARE` asks for."""
    text = os.environ.get(VARIABLE, "")
    if not text:
        return SHARE
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise UsageError(f"{VARIABLE}={text!r}: write a number above 0 and up to 1, such as 0.25")
    return share


def cache_tokens(free: int, token: int, *, share: float, wanted: int | None = None) -> int:
    """Tokens of a cache, at `token` bytes each, that `free` bytes have room for: `wanted`, else the share of it.

    Either is cut to what leaves the reserve.
    """
    most = max(0, free - RESERVE) // token
    return min(most, wanted if wanted is not None else int(share * free) // token)


def taken(
    device: torch.device, token: int, make: Callable[[int], T], *, share: float, wanted: int | None = None
) -> tuple[T, int]:
    """What `make` makes of a number of tokens, and that number: as many as there is memory for when it is our turn.

    Out of memory all the same, for others take theirs without asking, it is a quarter less, and less again.
    """
    least = min(LEAST, wanted or LEAST)
    until = time.monotonic() + PATIENCE
    while True:
        with _one_at_a_time(device):
            torch.cuda.empty_cache()
            free, _ = torch.cuda.mem_get_info(device)
            tokens = cache_tokens(free, token, share=share, wanted=wanted)
            while tokens >= least:
                try:
                    return make(tokens), tokens
                except torch.OutOfMemoryError:
                    torch.cuda.empty_cache()
                    tokens -= tokens // 4 + 1
        if time.monotonic() > until:
            raise EngineError(
                f"{free / 2**30:.1f} GiB of the GPU's memory are free, too little for a cache of {least} tokens: "
                f"run fewer processes on it, or have them take less ({VARIABLE}={share / 2:g})"
            )
        time.sleep(1.0)


def patiently(work: Callable[[], object], *, patience: float = PATIENCE) -> None:
    """Do work that may find no memory because another process has it; it must bear to be begun again."""
    until = time.monotonic() + patience
    while True:
        try:
            work()
            return
        except torch.OutOfMemoryError:
            if time.monotonic() > until:
                raise
        torch.cuda.empty_cache()
        time.sleep(min(0.5, patience))


@contextlib.contextmanager
def _one_at_a_time(device: torch.device) -> Iterator[None]:
    """Processes of this machine measure and take memory of a GPU one after the other."""
    try:
        import fcntl
    except ImportError:  # no such locks on this system: then only the retries help
        yield
        return
    name = str(torch.cuda.get_device_properties(device).uuid) if device.type == "cuda" else device.type
    path = Path(tempfile.gettempdir()) / f"subquest-gpu-{name}-{os.getuid()}.lock"
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
