"""Memory of a GPU that several processes share, such as evaluations and trainings.

Nobody knows in advance how much the others will take. So an engine measures the free memory when it starts, one engine
per GPU at a time, takes a share of it for its cache, and takes less, or waits, if even that is not available.
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
"""Share of the free memory that a cache takes by default."""
RESERVE = 1 << 30
"""Bytes left free for the working memory of steps and their graphs."""
LEAST = 16_384
"""Smallest useful cache in tokens; an engine waits for memory rather than taking less."""
PATIENCE = 120.0
"""Seconds to wait for memory."""
ADVICE = f"end other processes on the GPU, or lower {VARIABLE} ({SHARE:g} unless set)"

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
    """Tokens of a cache, at `token` bytes each, that fit into `free` bytes: `wanted`, or else the share.

    Both are limited to what leaves the reserve free.
    """
    most = max(0, free - RESERVE) // token
    return min(most, wanted if wanted is not None else int(share * free) // token)


def allocate(
    device: torch.device, token: int, make: Callable[[int], T], *, share: float, wanted: int | None = None
) -> tuple[T, int]:
    """Call `make` with as many tokens as there is memory for; returns its result and the number of tokens.

    Other processes may take memory meanwhile: when out of memory, it is called again with a quarter less.
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


def retry_out_of_memory(work: Callable[[], object], *, patience: float = PATIENCE) -> None:
    """Do work, and repeat it while another process holds the memory it needs. The work must be repeatable."""
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


def out_of_memory(error: BaseException, advice: str = ADVICE) -> EngineError | None:
    """What to tell a user whose GPU is full; None for any other error.

    Torch says how much memory is free and which processes hold the rest, before it goes on about its allocator.
    """
    cause = error.__cause__ if isinstance(error, EngineError) else error
    if not isinstance(cause, RuntimeError) or "out of memory" not in str(cause):
        return None
    found = str(cause).partition("\n")[0].partition(" Of the allocated memory")[0].rstrip(".")
    told = EngineError(f"the GPU has too little memory ({found}): {advice}")
    told.__cause__ = cause
    return told


@contextlib.contextmanager
def explain_out_of_memory(advice: str = ADVICE) -> Iterator[None]:
    """Say what to do if the GPU's memory does not suffice."""
    try:
        yield
    except (RuntimeError, EngineError) as error:
        raise out_of_memory(error, advice) or error  # noqa: B904 (it has its cause)


@contextlib.contextmanager
def _one_at_a_time(device: torch.device) -> Iterator[None]:
    """Let the processes of this machine measure and allocate memory of a GPU one after the other."""
    try:
        import fcntl
    except ImportError:  # the system has no such locks: only the retries help
        yield
        return
    name = str(torch.cuda.get_device_properties(device).uuid) if device.type == "cuda" else device.type
    path = Path(tempfile.gettempdir()) / f"subquest-gpu-{name}-{os.getuid()}.lock"
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
