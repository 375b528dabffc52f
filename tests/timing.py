"""Computing time, measured so that other work on the machine does not count."""

import gc
import time
from collections.abc import Callable

from subquest.retrieval import titles
from subquest.runtime import evidence, fit, relevance

CARE = (1, 3, 5, 9)
"""How often work is timed; the quickest counts. What seems slow is timed again with more care before it is believed."""


def clear_caches() -> None:
    """What an earlier reading has left does not help."""
    for module in (evidence, fit, relevance, titles):
        for member in vars(module).values():
            if hasattr(member, "cache_clear"):
                member.cache_clear()


def seconds(work: Callable[[], object], tries: int = 1, before: Callable[[], object] = lambda: None) -> float:
    """Of this thread's processor, at best. Garbage is not looked for: how much there is depends on earlier tests."""
    best = float("inf")
    collects = gc.isenabled()
    gc.disable()
    try:
        for _ in range(tries):
            before()
            began = time.thread_time()
            work()
            best = min(best, time.thread_time() - began)
    finally:
        if collects:
            gc.enable()
    return best


def slower(
    longer: Callable[[], object],
    shorter: Callable[[], object],
    *,
    most: float,
    least: float,
    before: Callable[[], object] = lambda: None,
) -> str:
    """What both take, where the one takes more than `most` times as long as the other; empty where it does not.

    `least` is the shortest time that counts, and `before` is called each time before the clock is started.
    """
    for tries in CARE:
        short, long = seconds(shorter, 2 * tries - 1, before), seconds(longer, tries, before)
        if long <= most * max(short, least):
            return ""
    return f"{long:.4f} s, more than {most:g} times {short:.4f} s"
