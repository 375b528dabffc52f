"""Prompts are files in the folder of a system, one per role and moment; a user's folder overrides single files.

A prompt file holds the system message, then a line `--- user` and the user message; an example conversation may come
between them, with further lines `--- assistant` and `--- user`. `$name` is filled in, and the value is fenced, so a
question that contains our tags, or those of the prompt itself, stays a question.

There are two sets. *full* explains a role to a model that has never seen it, with a worked example; *compact* is what
the adapters of small models were trained on. A set belongs to a model, so each role uses the set of its engine. The
folder of a system holds a subfolder for each set; one without them serves every model.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from ..engine import Engine, Message
from ..errors import UsageError
from ..input_file import read_text
from ..protocol import fence, tags_of
from ..record import Document
from .rendering import render_documents
from .window import Groups, Shown

PromptSet = Literal["full", "compact"]
SHARED = Path(__file__).parent / "shared_prompts"
"""Prompts that all systems use: reminders, forced answers, abstaining, tool calls."""
SETS: Mapping[str, PromptSet] = {"full": "full", "compact": "compact"}
_SPLIT = re.compile(r"^--- (user|assistant)[ \t]*\n", re.MULTILINE)
_FIELD = re.compile(r"\$([a-z_]+)")


def prompt_set_of(engine: Engine) -> PromptSet:
    """The set that a model was trained on; the full one if its engine does not say."""
    return SETS.get(str(getattr(engine, "prompt_set", "")).partition("+")[0], "full")


def trained_ways(engine: Engine) -> frozenset[str]:
    """How a model was trained besides its set, in `full+abstain+no-refine`: `abstain` stands for saying `unknown` where
    the prompt allows it; a system names its own (`System.trained_ways`)."""
    return frozenset(str(getattr(engine, "prompt_set", "")).split("+")[1:])


def set_folder(folder: Path, name: PromptSet) -> Path:
    """Where the prompts of a set are: in its subfolder, or in the folder itself if it has no sets."""
    return folder / name if (folder / name).is_dir() else folder


def folder_beside(kinds: Sequence[type], name: str) -> Path:
    """The folder `prompts/NAME` or `prompts` beside the file of the first of the classes that has one."""
    beside = [Path(inspect.getfile(kind)).parent / "prompts" for kind in kinds]
    found = (folder for place in beside for folder in (place / name, place) if folder.is_dir())
    return next(found, beside[0])


def own_folder(given: Path, system: str) -> Path:
    """The folder of a user's prompts for a system: the subfolder of its name, or the folder itself."""
    if given.is_dir() and not any((*given.glob("*.md"), *given.glob("*/*.md"))):
        raise UsageError(f"{given} has no prompts: name them as ours, such as {given / system / 'planner.md'}")
    return given / system if (given / system).is_dir() else given


def digest_of(text: str) -> str:
    return hashlib.sha256(text.strip().encode()).hexdigest()[:16]


class Prompts:
    """The prompts of one system: `own` is its folder, `override` the user's. Shared prompts come last.

    `chosen` names the set that a prompt is taken from. A prompt that only the compact set has is taken from there.
    """

    def __init__(
        self, own: Path, override: Path | None = None, chosen: Callable[[str], PromptSet] = lambda name: "full"
    ) -> None:
        if override is not None and not override.is_dir():
            raise UsageError(f"there is no prompt set and no folder {str(override)!r}: give full, compact or a folder")
        self._own = own
        self._override = override
        self._chosen = chosen
        self.digests: dict[str, str] = {}
        """Those that were read so far, by name."""

    def _folders(self, name: str) -> tuple[Path, ...]:
        sets: tuple[PromptSet, ...] = ("full", "compact") if self._chosen(name) == "full" else ("compact",)
        override = (self._override,) if self._override is not None else ()
        return tuple(dict.fromkeys([*override, *(set_folder(f, s) for f in (self._own, SHARED) for s in sets)]))

    def set_of(self, name: str) -> PromptSet:
        """The set that a prompt is taken from."""
        return self._chosen(name)

    def has(self, name: str) -> bool:
        return any((folder / f"{name}.md").is_file() for folder in self._folders(name))

    def digest(self, name: str) -> str:
        """A prompt by its text."""
        return digest_of(self._read(name))

    def text(self, name: str, **fields: str) -> str:
        """One prompt file as text, for messages in mid-conversation."""
        return _fill(self._read(name).strip(), self._place(name), fields)

    def messages(self, name: str, **fields: str) -> list[Message]:
        """One prompt file as the messages that open a context."""
        place = self._place(name)
        parts = [(role, text, _FIELD.search(text) is None) for role, text in self._parts(name) if text]
        return [Message(role, _fill(text, place, fields), same) for role, text, same in parts]

    def with_documents(
        self, name: str, documents: Sequence[Document], tokens: int, engine: Engine, **fields: str
    ) -> Shown[list[Message]]:
        """The messages of a prompt with `$documents`, each cut to `tokens`; as many as fit into the window."""

        def opening(groups: Groups, nothing: str) -> list[Message]:
            return self.messages(name, documents=render_documents(groups[0], tokens, engine) or nothing, **fields)

        return Shown([list(documents)], opening, tokens)

    @functools.lru_cache(maxsize=64)  # noqa: B019 - prompts live as long as the program
    def _parts(self, name: str) -> list[tuple[Literal["system", "user", "assistant"], str]]:
        system, *rest = _SPLIT.split(self._read(name))
        turns = [("assistant" if role == "assistant" else "user", text.strip()) for role, text in _pairs(rest)]
        if not turns or turns[-1][0] != "user":
            raise UsageError(f"the prompt {self._place(name)} has no line '--- user' before the user message")
        return [("system", system.strip()), *turns]  # type: ignore[list-item]

    @functools.lru_cache(maxsize=64)  # noqa: B019
    def _read(self, name: str) -> str:
        text = read_text(self._place(name), "the prompt")
        self.digests[name] = digest_of(text)
        return text

    @functools.lru_cache(maxsize=64)  # noqa: B019
    def _place(self, name: str) -> Path:
        """The file of a prompt."""
        for folder in self._folders(name):
            path = folder / f"{name}.md"
            if path.is_file():
                return path
        places = " or ".join(str(f) for f in self._folders(name))
        raise UsageError(f"there is no prompt {name!r}.md in {places}")


def _pairs(parts: list[str]) -> list[tuple[str, str]]:
    return list(zip(parts[::2], parts[1::2], strict=True))


def _fill(template: str, place: Path, fields: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        if match[1] not in fields:
            raise UsageError(f"the prompt {place} asks for ${match[1]}, which this place does not give")
        return fence(fields[match[1]], tags_of(template))

    return _FIELD.sub(value, template) if "$" in template else template
