"""The adaptive reasoning coordinator: between the planner and the experts, in both directions.

    transfer      {task, experts}         →  the cheapest expert that can do the task
    recall        {task, memory}          →  the entries of memory that help, at most five
    distil        {task, expert's chain}  →  a refined process and a conclusion for the planner, and new memory

Each is one short context of the role `coordinator`. What it writes is JSON or lines, read tolerantly; where it cannot
be read, a rule takes its place and the event says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ...errors import EngineError
from ...limits import Limits
from ...protocol.loose_json import find_object
from ...runtime.answering import NO_RESULT, note_stop
from ...runtime.context import Context, LimitReached
from ...runtime.prompts import Prompts
from ...runtime.replies import said
from ...runtime.run import Run
from ...runtime.statements import claim_of, words_of
from .expert import Expert, Report
from .memory import Entry, Memory

_WORD = re.compile(r"[^\W_]+")
_ROOM = 0.75
"""Share of the coordinator's window that an expert's chain may fill."""


class Distilled(NamedTuple):
    """What the planner is told about a sub-task."""

    process: str
    conclusion: str

    @property
    def text(self) -> str:
        said = self.conclusion or NO_RESULT
        return f"{self.process}\nFinal conclusion: {said}" if self.process else said


class Coordinator:
    """The coordinator of one run; `memory` is None if memory is switched off."""

    def __init__(
        self, run: Run, prompts: Prompts, experts: Mapping[str, Expert], memory: Memory | None, chain_tokens: int
    ) -> None:
        self.memory = memory
        self._run = run
        self._prompts = prompts
        self._experts = experts
        self._chain_tokens = chain_tokens

    async def select(self, planner: Context, task: str, number: int) -> Expert:
        """Reasoning transfer: classify the task by required capability and complexity."""
        cheapest = min(self._experts.values(), key=lambda expert: expert.cost)
        if len(self._experts) == 1:
            return cheapest
        info = json.dumps(
            [{"name": e.name, "description": e.description, "cost": e.cost} for e in self._experts.values()], indent=1
        )
        reply = await self._ask(planner, "select", number, task=task, experts=info)
        named = str(find_object(reply).get("selected_agent_name", "")).strip()
        chosen = self._experts.get(named) or named_in(named or reply, self._experts)
        if chosen is None:
            message = (
                f"no expert was chosen ({named or 'nothing named'}); {cheapest.name}, the cheapest, takes the task"
            )
            self._run.events.emit("error", planner.id, where="format", message=message, text=reply)
            return cheapest
        return chosen

    async def recall(self, planner: Context, task: str, limit: int, number: int) -> list[Entry]:
        """Memory utilisation: what helps with a task, of good quality, in the order of memory."""
        if self.memory is None or not self.memory.entries or limit < 1:
            return []
        lines = "\n".join(f"Memory Fact {n}: {entry.line}" for n, entry in enumerate(self.memory.entries, 1))
        reply = await self._ask(planner, "recall", number, task=task, memory=lines, limit=str(limit))
        chosen = self.memory.chosen(reply, limit)
        if chosen is None:
            chosen = self.memory.relevant(task, limit)
            message = "the memory filter named no entry; entries were chosen by their words"
            self._run.events.emit("error", planner.id, where="format", message=message, text=reply)
        self._run.events.emit("memory", planner.id, action="recall", task=task, entries=[e.line for e in chosen])
        return chosen

    async def distil(self, planner: Context, task: str, report: Report, number: int) -> Distilled:
        """Reasoning distillation and memory construction, in one call as in the paper."""
        chain = self.fitted(report.chain)
        prompt = "distil" if self.memory is not None else "distil_no_memory"
        known = "\n".join(entry.line for entry in self.memory.entries) if self.memory is not None else ""
        fields = {"task": task, "chain": chain} | ({"memory": known or "none"} if self.memory is not None else {})
        reply = await self._ask(planner, prompt, number, **fields)
        found = find_object(reply)
        if self.memory is not None:
            self._remember(planner, found.get("memory"))
        conclusion = found.get("conclusion")
        if isinstance(conclusion, Mapping):
            process = str(conclusion.get("reasoning_process", "")).strip()
            final = str(conclusion.get("final_conclusion", "")).strip()
            if final:
                return Distilled(process, self._kept(planner, report.conclusion, final))
        if isinstance(conclusion, str) and conclusion.strip():
            return Distilled("", conclusion.strip())
        message = "the expert's reasoning could not be distilled; its own conclusion is passed on"
        self._run.events.emit("error", planner.id, where="format", message=message, text=reply)
        return Distilled("", report.conclusion)

    def _kept(self, planner: Context, concluded: str, final: str) -> str:
        """The distilled conclusion; the expert's own if that is a few words with a name or a number that got lost."""
        own = claim_of(concluded)
        lost = own.needed - words_of(final).words if own.short else frozenset()
        if not lost:
            return final
        message = f"the distilled conclusion lost {', '.join(sorted(lost))}; the expert's own is passed on"
        self._run.events.emit("error", planner.id, where="format", message=message, text=final)
        return concluded

    def fitted(self, chain: str) -> str:
        """The chain; one that is too long for the coordinator keeps its head and its tail."""
        engine = self._run.setup("coordinator").engine
        window = engine.context_window
        limit = self._chain_tokens if window is None else min(self._chain_tokens, int(window * _ROOM))
        tokens = engine.count_tokens(chain)
        if tokens <= limit:
            return chain
        half = max(1, len(chain) * limit // tokens // 2)
        what = f"{tokens:,} tokens of reasoning"
        self._run.events.emit("limit", "", what=what, message=f"cut to its first and last {limit // 2:,} tokens")
        return f"{chain[:half]}\n… the middle is left out …\n{chain[-half:]}"

    def _remember(self, planner: Context, found: Any) -> None:
        assert self.memory is not None
        if not isinstance(found, Mapping):
            return
        facts, resources = found.get("fact_memory"), found.get("resource_memory")
        listed = [facts] if isinstance(facts, str) else facts if isinstance(facts, list) else []
        added = [self.memory.add_fact(fact) for entry in listed if (fact := _fact(entry))]
        for entry in (
            [resources] if isinstance(resources, Mapping) else resources if isinstance(resources, list) else ()
        ):
            added += [self.memory.add_resource(*pair) for pair in _resources(entry)]
        if entries := [entry.line for entry in added if entry is not None]:
            self._run.events.emit("memory", planner.id, action="add", entries=entries)

    async def _ask(self, planner: Context, prompt: str, number: int, **fields: str) -> str:
        """One call of the coordinator; empty if its model fails."""
        try:
            messages = self._prompts.messages(prompt, **fields)
            what = f"{prompt}: {fields['task']}"
            limits = Limits(turns=1)
            context = await self._run.open("coordinator", what, messages, parent=planner, limits=limits, number=number)
            turn = await context.write()
        except (EngineError, LimitReached) as error:
            note_stop(self._run, error, planner)
            return ""
        await context.close("answered", turn.text)
        return said(turn)


_SOURCE, _PLACES = "source", ("path", "url", "source")


def _fact(entry: Any) -> str:
    """`statement [Source: …]`; models also write `{"content": statement, "source": …}`."""
    if not isinstance(entry, Mapping):
        return entry if isinstance(entry, str) else ""
    text = next((v for k, v in entry.items() if isinstance(v, str) and str(k).casefold() != _SOURCE), "")
    source = next((v for k, v in entry.items() if isinstance(v, str) and str(k).casefold() == _SOURCE), "")
    return f"{text} [Source: {source}]" if text and source else text


def _resources(entry: Any) -> list[tuple[str, str]]:
    """Descriptions and paths; models also write a list of `{"description": …, "path": …}`."""
    if not isinstance(entry, Mapping):
        return []
    named = {str(k).casefold(): str(v) for k, v in entry.items() if v is not None}
    about = [text for key, text in named.items() if key not in _PLACES]
    if about and (place := next((named[key] for key in _PLACES if key in named), "")):
        return [(about[0], place)]
    return [(str(k), str(v)) for k, v in entry.items()]


def named_in(text: str, experts: Mapping[str, Expert]) -> Expert | None:
    """The one expert that a text names; None if it names none or several. `search-r1` does not name `search`."""
    words = _in_words(text)
    found = []
    for name in sorted(experts, key=len, reverse=True):
        if (wanted := _in_words(name)) in words:
            found.append(experts[name])
            words = words.replace(wanted, " · ")
    return found[0] if len(found) == 1 else None


def _in_words(text: str) -> str:
    """A text's words in lower case, each with a space on both sides."""
    return f" {'  '.join(_WORD.findall(text.casefold()))} "
