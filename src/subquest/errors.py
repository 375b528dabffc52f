"""Every exception Subquest raises on purpose.

    SubquestError
    ├── UsageError            the request is wrong: exit status 2, HTTP 4xx
    │   ├── ConfigError       a setting is unknown or has the wrong type
    │   └── DataError         a file's content is wrong; the message names the file and the line
    │       └── DamagedIndex      a file of an index is not what was written; a SearchRefused too
    ├── MissingDependency     an extra is not installed; the message gives the command that installs it
    └── OutsideError          something outside failed; systems record it on the trace and continue
        ├── EpisodeFailed       `ask` got no answer because of such failures; it holds the episode
        ├── EngineError       a language model failed
        │   ├── EngineUnavailable   unreachable, timed out, overloaded: worth a retry
        │   ├── EngineRefused       401, 403, 404, bad request: a retry will not help
        │   └── ContextOverflow     the context no longer fits the model's window
        ├── SearchError       a search backend failed
        │   └── SearchRefused       it refused the request: a retry will not help
        └── ToolError         a page, sandbox or file tool failed

What a *model* does wrong (malformed tags, empty queries) is never an exception: it is data on the trace.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .masking import public


class SubquestError(Exception):
    """Root of all exceptions raised on purpose. Messages quote settings and servers, so secrets in them are masked."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(public(part) if isinstance(part, str) else part for part in args))


class UsageError(SubquestError):
    """The request itself is wrong; the message says what was wrong and what to do."""


class ConfigError(UsageError):
    """A setting is unknown, has the wrong type or contradicts another."""


class DataError(UsageError):
    """A file's content is wrong; the message names the file and, if possible, the line."""


class MissingDependency(UsageError):
    """An optional part is not installed."""

    def __init__(self, what: str, extra: str, otherwise: str = "") -> None:
        """`otherwise` is what to do instead of installing it: `or …`."""
        more = f", {otherwise}" if otherwise else ""
        super().__init__(f"{what} is not installed. Install it with: pip install 'subquest[{extra}]'{more}")
        self.extra = extra


OR_ENDPOINT = "or name a model at an endpoint: --model http://localhost:8000/v1"
"""What to do where the embedded model cannot run."""


class OutsideError(SubquestError):
    """Something outside the process failed; `retryable` says whether the same call may succeed later."""

    retryable = False


class EpisodeFailed(OutsideError):
    """A question got no answer because something outside failed."""

    def __init__(self, message: str, episode: Any = None) -> None:
        super().__init__(message)
        self.episode = episode
        """The whole attempt, as `solve` returns it."""


class EngineError(OutsideError):
    """A language model failed."""


class EngineUnavailable(EngineError):
    """The model could not be reached, timed out or was overloaded."""

    retryable = True


class EngineRefused(EngineError):
    """The model's server refused the request; a retry will not help."""


class ContextOverflow(EngineError):
    """The context no longer fits the model's window."""


class SearchError(OutsideError):
    """A search backend failed."""

    retryable = True


class SearchRefused(SearchError):
    """A search backend refused the request; a retry will not help."""

    retryable = False


class DamagedIndex(DataError, SearchRefused):
    """A file of an index is not what was written; the message names the file."""


class ToolError(OutsideError):
    """A page, sandbox or file tool failed."""


def closest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """The known name most similar to the given one; empty if no similarity (0 to 1) reaches the cutoff."""
    from difflib import get_close_matches  # needed only once something is already wrong

    return next(iter(get_close_matches(name, list(known), 1, cutoff)), "")


def suggest(name: str, known: Iterable[str], otherwise: str = "", *, cutoff: float = 0.6) -> str:
    """The hint for a name that does not exist: `did you mean 'coda'?`, or `otherwise` (default: the known names)."""
    known = list(known)
    if near := closest(name, known, cutoff=cutoff):
        return f"did you mean {near!r}?"
    return otherwise or f"choose from: {', '.join(known) or 'none'}"
