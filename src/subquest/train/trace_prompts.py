"""The prompts that gold traces were made with, kept in the file of the traces.

A model that learns from them learns to answer these prompts. Once the prompts have changed, nobody uses what it learns,
so the file has to be prepared again. Only prompts that were read count: those of reports or tools may change.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..codec import Record
from ..engine.scripted import ScriptedEngine
from ..errors import DataError, UsageError
from ..runtime.prompts import Prompts
from ..systems.registry import get
from . import rerank_traces


class TracePrompts(Record, dict=True):
    """The prompts of one system that were read while its traces were made."""

    system: str
    settings: Mapping[str, Any]
    """Those of the system, with the set of prompts (`prompts`)."""
    digests: Mapping[str, str]
    """By the name of a prompt, the digest of its text."""

    @property
    def prompt_set(self) -> str:
        return str(self.settings.get("prompts", ""))

    def changes(self) -> str:
        """What is different today; empty where nothing is."""
        try:
            changed = [name for name, digest in self.digests.items() if self._present(name) != digest]
        except UsageError as error:
            return f"{self.system} cannot be used ({error})"
        if not changed:
            return ""
        of_set = f" ({self.prompt_set})" if self.prompt_set else ""
        return f"{', '.join(changed)} of {self.system}{of_set} {'have' if len(changed) > 1 else 'has'} changed"

    def _present(self, name: str) -> str:
        if self.system == rerank_traces.SYSTEM:
            return rerank_traces.prompt_digests().get(name, "")
        return self._prompts.digest(name) if self._prompts.has(name) else ""

    @functools.cached_property
    def _prompts(self) -> Prompts:
        return get(self.system)(ScriptedEngine([]), **self.settings).prompts


def prompts_of_all(parts: Sequence[Sequence[TracePrompts] | None]) -> tuple[TracePrompts, ...] | None:
    """The prompts of traces that are put together; None where those of a part are not known."""
    found: list[TracePrompts] = []
    for part in parts:
        if part is None:
            return None
        found += [prompts for prompts in part if prompts not in found]
    return tuple(found)


def check_prompts(
    path: Path,
    made_with: Sequence[TracePrompts] | None,
    prompt_set: str,
    remedy: str,
    say: Callable[[str], None] = lambda text: None,
) -> None:
    """Refuse traces of prompts that are no longer in use; a file that does not tell is read, with a note.

    Files that were made before prompts were kept may still be right, and an experiment that used them can be repeated.
    """
    if made_with is None:
        say(f"{path} does not say which prompts it was prepared with; if they have changed since, {remedy}")
        return
    for prompts in made_with:
        if prompts.prompt_set not in ("", prompt_set):
            raise DataError(
                f"{path} was prepared with the {prompts.prompt_set} prompts of {prompts.system}, and the recipe uses "
                f'the {prompt_set} ones; set prompts = "{prompts.prompt_set}" in the recipe, or {remedy}'
            )
    if changes := "; ".join(filter(None, (prompts.changes() for prompts in made_with))):
        raise DataError(f"{path} was prepared with other prompts: {changes}. To train with today's, {remedy}")
