"""Secrets kept out of everything that is stored, shown or logged.

Keys that were read are remembered, and `mask` hides them wherever a server sends them back: in an error, a completion,
a search result. `public` takes the credentials out of the URLs in a text, also of keys that nobody has used yet.

    remember(key)                       `address` does so for every key and URL that is used
    mask("sent: Bearer sk-1234abcd")    "sent: Bearer [secret]"
    public("http://ann:pw@host/v1")     "http://host/v1"

A key shorter than 8 characters, or a short word of letters alone, is not remembered: it would be masked in ordinary
text (`postgres:postgres@localhost`).
"""

from __future__ import annotations

import base64
import json
import logging
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

T = TypeVar("T")

MASK = "[secret]"
_forms: tuple[str, ...] = ()
"""What is masked, the longest first, so that no part of one is left over."""

_KEY_LIKE = re.compile(
    r"(?:[\w.-]*[_.-])?(?:api|access|auth|bearer|client|private|refresh|secret|session|ssl|subscription)?[_-]?"
    r"(?:key|token|secret|pass(?:word|wd|phrase)?|pwd|credentials?|signature|sig|auth)",
    re.IGNORECASE,
)
"""Parameters that hold a credential: key, api_key, accessToken, X-Amz-Signature, ..."""
_USER_INFO = re.compile(
    r"(?<=://)(?:[^\s/?#\"'<>`]{0,300}|[^\s/:@\[]{0,300}:(?!\d*(?:[/,?#\s]|$))[^\s@]{0,300})@(?![\w+.-]+://)"
)
"""Also with a password that contains a slash, which nobody but a parser of URLs takes for a path."""
_QUERY = re.compile(r"(?<=[^\s\"'<>`])\?([^\s#\"'<>`,?]*=[^\s#\"'<>`,]*)")
_VARIABLE = re.compile(
    r"(?:.*_)?(?:API_KEY|ACCESS_KEY|SECRET_KEY|AUTH_KEY|SECRET|TOKEN|PASSWORD|PASSWD)|PGPASSWORD|SUBQUEST_\w+_KEY"
)
"""Environment variables that hold a secret."""


def remember(secret: str) -> None:
    """Mask this from now on, also where it is written for a URL or for JSON."""
    global _forms
    secret = secret.strip()
    if secret in _forms or len(secret) < 8 or (secret.isalpha() and len(secret) < 16):
        return
    written = {secret, quote(secret, safe=""), quote(secret), quote_plus(secret), json.dumps(secret)[1:-1]}
    written |= {re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), form) for form in written}
    _forms = tuple(sorted({*_forms, *written}, key=len, reverse=True))


def remember_environment(env: Mapping[str, str] | None = None) -> None:
    """Mask the values of all variables that hold a secret by their name, such as OPENAI_API_KEY and HF_TOKEN."""
    for name, value in (os.environ if env is None else env).items():
        if _VARIABLE.fullmatch(name.upper()):
            remember(value)
        elif "://" in value:
            for url in re.findall(r"\w[\w+.-]*://[^\s,]+", value):
                remember_url(url)


def mask(text: str) -> str:
    """The text without the secrets that are remembered."""
    for form in _forms:
        if form in text:
            text = text.replace(form, MASK)
    return text


def masked(value: T) -> T:
    """The same for JSON values: all texts in them, and the keys of objects."""
    return _each_text(value, mask) if _forms else value


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {_each_text(key, change): _each_text(inner, change) for key, inner in value.items()}
    return [_each_text(inner, change) for inner in value] if isinstance(value, list | tuple) else value


class MaskedStream:
    """Masks a text that comes in pieces: holds back the end of it while that may be the beginning of a secret."""

    def __init__(self) -> None:
        self._held = ""

    def add(self, piece: str) -> str:
        """What can be shown once this piece has come."""
        text = mask(self._held + piece)
        self._held = text[len(text) - _begun(text) :]
        return text[: len(text) - len(self._held)]

    def rest(self) -> str:
        """What was held back, at the end of the text."""
        text, self._held = self._held, ""
        return text


def _begun(text: str) -> int:
    """Length of the longest end of a text with which a secret begins."""
    longest = 0
    for form in _forms:
        for length in range(min(len(form) - 1, len(text)), longest, -1):
            if text.endswith(form[:length]):
                longest = length
                break
    return longest


def remember_url(url: str) -> None:
    """Mask the credentials of a URL from now on."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    info = parts.netloc.rpartition("@")[0]
    user, colon, password = info.partition(":")
    remember(unquote(password if colon else user))
    if info:
        remember(basic(user, password))
    for name, value in parse_qsl(parts.query):
        if is_key_like(name):
            remember(value)


def basic(user: str, password: str) -> str:
    """User info of a URL as HTTP sends it."""
    return base64.b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()


def public(text: str) -> str:
    """The text without remembered secrets, and its URLs without user info and without parameters that hold a key."""
    text = mask(text)
    return _QUERY.sub(_without_keys, _USER_INFO.sub("", text)) if "://" in text else text


def public_values(value: T) -> T:
    """The same for JSON values: all texts in them."""
    changed: T = _each_text(value, public)
    return changed


def _without_keys(query: re.Match[str]) -> str:
    parts = query[1].split("&")
    kept = [part for part in parts if not is_key_like(part.partition("=")[0])]
    return query[0] if len(kept) == len(parts) else "?" * bool(kept) + "&".join(kept)


def is_key_like(parameter: str) -> bool:
    """Whether a parameter of this name holds a credential."""
    return _KEY_LIKE.fullmatch(unquote(parameter)) is not None


class _LogFilter(logging.Filter):
    """Masks messages and tracebacks before a handler sees them."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = public(record.getMessage()), ()
        if record.exc_info and not record.exc_text:
            record.exc_text = public(logging.Formatter().formatException(record.exc_info))
        return True


LOG_FILTER = _LogFilter()


def mask_output() -> None:
    """For programs: mask the secrets of the environment, also in log messages that go to stderr by default."""
    remember_environment()
    if logging.lastResort is not None:
        logging.lastResort.addFilter(LOG_FILTER)


def log_masked(name: str) -> None:
    """Mask what a logger of another library writes."""
    logging.getLogger(name).addFilter(LOG_FILTER)
