"""Watching a stream while it comes: for readers, and to end it where the endpoint does not do so itself."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..interface import LOOP, LOOPS_EVERY, FinishReason, OnText, Sampling, cut_at_stop, loops
from .endpoint import Watch


def watch_stream(sampling: Sampling, echo: str, on_text: OnText | None, refused: Collection[str]) -> Watch:
    """A callback that passes a stream on and skips an echoed prefill. It ends the stream at stop strings the endpoint
    refused, and where a greedy turn only repeats itself."""
    stops: Sequence[str] = sampling.stop if "stop" in refused else ()
    longest = max(map(len, stops), default=0)
    greedy = sampling.temperature <= 0 and "temperature" not in refused
    echoing, held = bool(echo), ""  # what may be the echo, and then the end of the text
    thinking = False
    recent, unread = "", 0  # the end of all that came, and how much of it was not searched for a loop

    def looping(new: str) -> FinishReason | None:
        nonlocal recent, unread
        recent, unread = (recent + new)[-LOOP:], unread + len(new)
        if not greedy or unread < 4 * LOOPS_EVERY:  # characters
            return None
        unread = 0
        return "length" if loops(recent) else None

    def watch(new: str, thought: bool) -> FinishReason | None:
        nonlocal echoing, held, thinking
        if thought:
            thinking = True
            if on_text is not None:
                on_text(new)
            return looping(new)
        if echoing:
            held += new
            if echo.startswith(held):
                return None
            echoing, new, held = False, held.removeprefix(echo), ""
        if on_text is not None:
            on_text(f"\n\n{new}" if thinking else new)
            thinking = False
        held = (held + new)[-(len(new) + longest) :]
        return "stop" if cut_at_stop(held, stops)[1] == "stop" else looping(new)

    return watch
