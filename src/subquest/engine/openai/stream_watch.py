"""Watching a stream while it comes: for readers, and to end it where the endpoint does not do so itself."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..interface import OnText, cut_at_stop
from .endpoint import Watch


def watch_stream(stops: Sequence[str], echo: str, on_text: OnText | None, refused: Collection[str]) -> Watch:
    """A callback that passes a stream on, skips an echoed prefill and ends at stop strings the endpoint refused."""
    longest = max(map(len, stops), default=0)
    echoing, held = bool(echo), ""  # what may be the echo, and then the end of the text
    thinking = False

    def watch(new: str, thought: bool) -> bool:
        nonlocal echoing, held, thinking
        if thought:
            thinking = True
            if on_text is not None:
                on_text(new)
            return False
        if echoing:
            held += new
            if echo.startswith(held):
                return False
            echoing, new, held = False, held.removeprefix(echo), ""
        if on_text is not None:
            on_text(f"\n\n{new}" if thinking else new)
            thinking = False
        if not stops or "stop" not in refused:
            return False
        held = (held + new)[-(len(new) + longest) :]
        return cut_at_stop(held, stops)[1] == "stop"

    return watch
