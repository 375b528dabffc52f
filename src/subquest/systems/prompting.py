"""Prompts are files, one per role and moment, beside the systems; a folder of the user's own overrides them one by one.

A prompt file holds the system message, then a line `--- user` and the user message. `$name` is filled in; what is
filled in is fenced, so a question that contains our tags, or those of the prompt itself, stays a question.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path

from ..engine import Message
from ..errors import UsageError
from ..protocol import fence, tags_of

FOLDER = Path(__file__).parent / "prompts"
_SPLIT = re.compile(r"^--- user[ \t]*\n", re.MULTILINE)
_FIELD = re.compile(r"\$([a-z_]+)")


class Prompts:
    """The prompts of one system: `own` is its folder, `override` the user's; some prompts all systems share."""

    def __init__(self, own: Path, override: Path | None = None) -> None:
        if override is not None and not override.is_dir():
            raise UsageError(f"the prompts folder {str(override)!r} does not exist")
        self._folders = tuple(f for f in (override, own, FOLDER) if f is not None)

    def text(self, name: str, **fields: str) -> str:
        """One prompt file as text, for messages in mid-conversation."""
        return _fill(self._read(name).strip(), name, fields)

    def messages(self, name: str, **fields: str) -> list[Message]:
        """One prompt file as the messages that open a context."""
        system, user = self._parts(name)
        opening = [Message("system", _fill(system, name, fields))] if system else []
        return [*opening, Message("user", _fill(user, name, fields))]

    @functools.lru_cache(maxsize=64)  # noqa: B019 - prompts live as long as the program
    def _parts(self, name: str) -> tuple[str, str]:
        parts = _SPLIT.split(self._read(name), maxsplit=1)
        if len(parts) != 2:
            raise UsageError(f"prompt {name!r} has no line '--- user' before the user message")
        return parts[0].strip(), parts[1].strip()

    @functools.lru_cache(maxsize=64)  # noqa: B019
    def _read(self, name: str) -> str:
        for folder in self._folders:
            path = folder / f"{name}.md"
            if path.is_file():
                try:
                    return path.read_text(encoding="utf-8-sig")
                except (OSError, UnicodeDecodeError) as error:
                    raise UsageError(f"the prompt {path} cannot be read: {error}") from None
        places = " or ".join(str(f) for f in self._folders)
        raise UsageError(f"there is no prompt {name!r}.md in {places}")


def _fill(template: str, name: str, fields: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        if match[1] not in fields:
            raise UsageError(f"prompt {name!r} asks for ${match[1]}, which this place does not give")
        return fence(fields[match[1]], tags_of(template))

    return _FIELD.sub(value, template) if "$" in template else template
