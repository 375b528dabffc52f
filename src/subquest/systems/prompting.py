"""Prompts are files, one per role and moment, beside the systems; a folder of the user's own overrides them one by one.

A prompt file holds the system message, then a line `--- user` and the user message; a conversation that shows how it is
done may stand between them, with further lines `--- assistant` and `--- user`. `$name` is filled in; what is filled in
is fenced, so a question that contains our tags, or those of the prompt itself, stays a question.

There are two sets. *full* explains a role to a model that has never seen it, with an example in full; *compact* is what
the adapters of small models were trained on. A set belongs to a model, so each role has that of its engine.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from ..engine import Engine, Message
from ..errors import UsageError
from ..protocol import fence, tags_of

PromptSet = Literal["full", "compact"]
FOLDER = Path(__file__).parent / "prompts"
FULL, COMPACT = FOLDER / "full", FOLDER / "compact"
SETS: Mapping[str, PromptSet] = {"full": "full", "compact": "compact"}
_SPLIT = re.compile(r"^--- (user|assistant)[ \t]*\n", re.MULTILINE)
_FIELD = re.compile(r"\$([a-z_]+)")


def prompt_set_of(engine: Engine) -> PromptSet:
    """The set that a model was trained on; the full one where its engine does not say."""
    return SETS.get(str(getattr(engine, "prompt_set", "")), "full")


class Prompts:
    """The prompts of one system: `own` is its folder, `override` the user's; some prompts all systems share.

    `chosen` says from which set a prompt is taken. A prompt that only the compact set has is taken from there.
    """

    def __init__(
        self, own: Path, override: Path | None = None, chosen: Callable[[str], PromptSet] = lambda name: "full"
    ) -> None:
        if override is not None and not override.is_dir():
            raise UsageError(f"there is no prompt set and no folder {str(override)!r}: give full, compact or a folder")
        self._own = own
        self._override = override
        self._chosen = chosen

    def _folders(self, name: str) -> tuple[Path, ...]:
        full = self._chosen(name) == "full"
        own = (FULL / self._own.name,) if full and self._own.parent == COMPACT else ()
        shared = (FULL,) if full else ()
        return tuple(f for f in (self._override, *own, self._own, *shared, COMPACT) if f is not None)

    def text(self, name: str, **fields: str) -> str:
        """One prompt file as text, for messages in mid-conversation."""
        return _fill(self._read(name).strip(), name, fields)

    def messages(self, name: str, **fields: str) -> list[Message]:
        """One prompt file as the messages that open a context."""
        return [Message(role, _fill(text, name, fields)) for role, text in self._parts(name) if text]

    @functools.lru_cache(maxsize=64)  # noqa: B019 - prompts live as long as the program
    def _parts(self, name: str) -> list[tuple[Literal["system", "user", "assistant"], str]]:
        system, *rest = _SPLIT.split(self._read(name))
        turns = [("assistant" if role == "assistant" else "user", text.strip()) for role, text in _pairs(rest)]
        if not turns or turns[-1][0] != "user":
            raise UsageError(f"prompt {name!r} has no line '--- user' before the user message")
        return [("system", system.strip()), *turns]  # type: ignore[list-item]

    @functools.lru_cache(maxsize=64)  # noqa: B019
    def _read(self, name: str) -> str:
        for folder in self._folders(name):
            path = folder / f"{name}.md"
            if path.is_file():
                try:
                    return path.read_text(encoding="utf-8-sig")
                except (OSError, UnicodeDecodeError) as error:
                    raise UsageError(f"the prompt {path} cannot be read: {error}") from None
        places = " or ".join(str(f) for f in self._folders(name))
        raise UsageError(f"there is no prompt {name!r}.md in {places}")


def _pairs(parts: list[str]) -> list[tuple[str, str]]:
    return list(zip(parts[::2], parts[1::2], strict=True))


def _fill(template: str, name: str, fields: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        if match[1] not in fields:
            raise UsageError(f"prompt {name!r} asks for ${match[1]}, which this place does not give")
        return fence(fields[match[1]], tags_of(template))

    return _FIELD.sub(value, template) if "$" in template else template
