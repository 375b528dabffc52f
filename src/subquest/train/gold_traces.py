"""The gold traces of a recipe: made from its sources, which takes a while, or prepared once and read wherever the
training runs."""

from __future__ import annotations

import shlex
import signal
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from .. import assemble
from ..engine.chat_format import chat_format_of
from ..engine.interface import Engine
from ..engine.torch.loader import Source
from ..engine.torch.vocabulary import Vocabulary
from ..errors import ConfigError, DataError
from ..process import end_with_parent, run_sync
from ..systems.registry import get
from . import rerank_traces as judging
from .data import load_material, open_search, refuse_test
from .instruct import RULES, open_teacher, run_pipeline
from .recipe import DataPart, Recipe
from .rollouts import MemoisedSearch
from .teacher import make_traces
from .trace_prompts import TracePrompts, check_prompts
from .traces import TraceSet, counts_in_words, join, prompts_in, read_file, traces_of

OPENING = 64
"""Tokens whose text is kept beside them."""


def gold_traces(recipe: Recipe, source: Source, *, workers: int = 1) -> TraceSet:
    """The recipe's prepared traces, or traces of every source in every system's protocol; those that fit the model.

    Sources are worked on side by side, each in a process of its own, except those that a model words or plays.
    """
    if recipe.traces:
        made = join([_prepared(Path(path).expanduser(), recipe, source) for path in recipe.traces])
    else:
        made = _made(recipe, source, workers)
    traces = made.fitting(source.architecture.window, source.architecture.vocabulary)
    if not len(traces):
        raise DataError(f"no question gave a gold trace: {counts_in_words(traces.rejected)}")
    return traces


def opening_of(traces: TraceSet, source: Source) -> str:
    """What the first tokens say to a model."""
    ids = traces.ids[:OPENING].tolist()
    return Vocabulary(source.tokenizer, max(source.architecture.vocabulary, *ids, 0) + 1).decode(ids)


def _prepared(path: Path, recipe: Recipe, source: Source) -> TraceSet:
    traces = TraceSet.load(path)
    tiny = recipe.model.path.startswith("random:")  # makes itself a vocabulary each time
    if traces.opening and not tiny and opening_of(traces, source) != traces.opening:
        raise DataError(
            f"{path} was prepared for another model: {opening_of(traces, source)[:40]!r} is where it had "
            f"{traces.opening[:40]!r}; prepare the traces again"
        )
    return traces


def _made(recipe: Recipe, source: Source, workers: int) -> TraceSet:
    taught = recipe.instruct.teacher not in ("", RULES)
    tokens = (source.tokenizer, source.architecture.vocabulary)
    parts = dict(enumerate(recipe.data))
    alone = [n for n, part in parts.items() if not (taught and part.instruct)]
    found: dict[int, TraceSet] = {}
    making: dict[int, Future[TraceSet]] = {}
    with ExitStack() as held:
        if workers > 1 and len(alone) > 1:
            # fresh processes: a fork would copy locks that threads of this one may hold
            pool = held.enter_context(_pool(min(workers, len(alone))))
            making = {n: pool.submit(_make, parts[n], recipe, *tokens) for n in alone}
        if len(alone) < len(parts):
            # one model for all sources that it works on, in this process: it may fill the memory of a GPU
            teacher = open_teacher(recipe.instruct)
            held.callback(lambda: run_sync(teacher.close()))
            found = {n: _make(part, recipe, *tokens, teacher) for n, part in parts.items() if n not in alone}
        found |= {n: making[n].result() if making else _make(parts[n], recipe, *tokens) for n in alone}
    return join([found[n] for n in parts])


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end when this one is interrupted or killed, not when their work is done."""
    with ProcessPoolExecutor(workers, get_context("spawn"), _begin) as pool:
        try:
            yield pool
        except BrokenProcessPool:
            raise DataError(
                "a process that made gold traces was killed, perhaps for want of memory; "
                "prepare the traces of fewer sources at a time (subquest train RECIPE --prepare FILE)"
            ) from None
        except BaseException:
            for process in list(pool._processes.values()):
                process.terminate()
            raise


def _begin() -> None:
    """Ctrl-C goes to all processes of a terminal; the one that was started by hand sees to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()


def _systems(part: DataPart, recipe: Recipe) -> tuple[str, ...]:
    """The systems whose protocols are taught on a source."""
    return part.systems or recipe.systems or (recipe.system,)


def _refuse_unknown_roles(part: DataPart, recipe: Recipe) -> None:
    """A misspelt role would quietly leave nothing of a source."""
    systems = [s for s in _systems(part, recipe) if s != judging.SYSTEM]
    known = {role: None for system in systems for role in get(system).roles}
    for role in part.roles if systems else ():
        if role not in known:
            raise ConfigError(
                f"{part.questions}: no role {role!r} in {', '.join(systems)}; there are {', '.join(known)}"
            )


def _make(part: DataPart, recipe: Recipe, tokenizer: Any, size: int, teacher: Engine | None = None) -> TraceSet:
    """The traces of a source in all its systems' protocols; its passages are read and indexed once."""
    _refuse_unknown_roles(part, recipe)
    systems = _systems(part, recipe)
    elsewhere = bool(recipe.index) and judging.SYSTEM not in systems
    material = load_material([part], passages_elsewhere=elsewhere, seed=recipe.seed)
    refuse_test(material.questions, "nothing is learnt from it")
    vocabulary, chat = Vocabulary(tokenizer, size), chat_format_of(tokenizer)
    found: list[TraceSet] = []
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory()))
        own = None if elsewhere else held.enter_context(open_search(material.documents, folder, material.papers))
        search = assemble.open_search(recipe.index) if recipe.index else MemoisedSearch(own) if own else None
        assert search is not None
        for system in systems:
            if system == judging.SYSTEM:
                assert own is not None
                judged = list(judging.judgements(material.questions, material.documents, own, seed=recipe.seed))
                prompts = TracePrompts(system, {}, judging.prompt_digests())
                episodes = judging.episodes(judged, vocabulary, chat)
                found.append(traces_of(episodes, weight=judging.COUNTS, prompts=prompts))
                continue
            tracing = (search, vocabulary, chat)
            settings = _settings_of(system, part, recipe)
            if recipe.instruct.teacher and part.instruct:
                passages, asked = material.documents, (recipe.instruct, system, material.questions)
                making = run_pipeline(*asked, passages, *tracing, teacher=teacher, **settings)
            else:
                making = make_traces(
                    system, material.questions, *tracing, detours=recipe.detours, seed=recipe.seed, **settings
                )
            made = run_sync(making)
            prompts = TracePrompts(system, settings, made.prompts)
            found.append(traces_of(made.episodes, made.rejected, part.roles, prompts=prompts))
    return join(found)


def _settings_of(system: str, part: DataPart, recipe: Recipe) -> dict[str, Any]:
    known = {f.name for f in fields(get(system).Settings)}
    own = {name: value for name, value in recipe.settings.items() if system == recipe.system or name in known}
    searching = {"k": part.k or recipe.k} if "k" in known else {}
    return {"prompts": recipe.prompt_set, "abstain": recipe.abstain, **searching, **own}


def check_prepared(recipe: Recipe, say: Callable[[str], None]) -> None:
    """Refuse prepared traces of other prompts before anything is loaded."""
    for path in (Path(path).expanduser() for path in recipe.traces):
        head, _ = read_file(path, head_only=True)
        command = head.get("command") or f"subquest train RECIPE.toml --prepare {shlex.quote(str(path))}"
        check_prompts(path, prompts_in(head), recipe.prompt_set, f"prepare the traces again: {command}", say)
