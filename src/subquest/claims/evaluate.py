"""Answering: every arm over every part of its sources, by a few processes that share one GPU.

Units with the same weights are handed out together as a *job*, so that a worker loads an adapter once and the end of
one unit overlaps with the beginning of the next. The parent alone writes results. When the time is up workers stop
where they are; finished units are kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import pickle
import queue
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import EngineError, SubquestError
from ..record import Question
from .book import Arm, Book, Source
from .engines import Engines, Setup
from .results import Results, Unit, digest, unit_of

if TYPE_CHECKING:
    from ..train.recipe import DataPart

JOB = 4
"""Units of a job at most."""
MAX_TOKENS = 192
"""Longest turn of a model."""


class Part(NamedTuple):
    """A world, or a real set with its passages."""

    name: str
    source: str
    data: DataPart


class Work(NamedTuple):
    """One unit to be answered."""

    arm: Arm
    part: Part


class Job(NamedTuple):
    units: tuple[Work, ...]


class Finished(NamedTuple):
    arm: Arm
    name: str
    unit: Unit
    seconds: float


def parts_of(source: Source, data: Path) -> list[Part]:
    """A source's parts; files are looked for in `data`."""
    from ..train.recipe import DataPart, expanded

    questions = source.questions
    if not questions.startswith("world:"):
        questions = str(data / questions)
    found = expanded((DataPart(questions, tuple(str(data / name) for name in source.corpus)),))
    if len(found) == 1:
        return [Part(source.name, source.name, found[0])]
    return [Part(f"{source.name}-{n}", source.name, part) for n, part in enumerate(found, 1)]


class Prepared(NamedTuple):
    questions: list[Question]
    place: Path
    """Where the index lies."""


def prepare(part: Part, cache: Path) -> Prepared:
    """A part's questions and an index of its passages, made once and found again in `cache`."""
    from ..train.data import load_material, open_search

    place = cache / f"{digest(repr(part.data))}.pickle"
    if place.is_file():
        return Prepared(*pickle.loads(place.read_bytes()))
    material = load_material((part.data,))
    index = open_search(material.documents, cache)
    index.close()
    made = Prepared([q for q in material.questions if q.answers], Path(index.path))
    building = place.with_suffix(f".{id(made)}.tmp")
    building.write_bytes(pickle.dumps(tuple(made)))
    building.replace(place)
    return made


def missing_in(arm: Arm, adapters: Mapping[str, str]) -> str:
    """The first adapter of an arm that is not at hand; empty where all are."""
    if arm.oracle:
        return ""
    return next((name for name in arm.adapters.values() if name != "none" and name not in adapters), "")


def weights_of(arm: Arm, model: str, adapters: Mapping[str, str]) -> str:
    """Digest of what an arm answers with."""
    if arm.oracle:
        return "oracle"
    told = [model]
    for role, name in sorted(arm.adapters.items()):
        told.append(f"{role}={file_digest(adapters[name]) if name != 'none' else 'none'}")
    return digest(*told)


def file_digest(place: str) -> str:
    path = Path(place)
    return digest((path / "adapter_model.safetensors" if path.is_dir() else path).read_bytes().hex())


def evaluate(
    book: Book,
    arms: Sequence[Arm],
    results: Results,
    setup: Setup,
    *,
    data: Path,
    workers: int = 1,
    say: Callable[[str], None] = lambda text: None,
) -> int:
    """Answer what is not answered yet; returns how many units are left."""
    setup.cache.mkdir(parents=True, exist_ok=True)
    parts = {name: parts_of(book.sources[name], data) for arm in arms for name in book.sources_of(arm)}
    ready = _prepared([p for found in parts.values() for p in found], setup.cache, workers, say)
    weights = {arm.id: weights_of(arm, setup.model, setup.adapters) for arm in arms}
    todo: list[Work] = []
    for arm in arms:
        for part in (p for name in book.sources_of(arm) for p in parts[name] if p.name in ready):
            asked = digest(*(q.id for q in ready[part.name].questions))
            if not results.done(arm, part.name, asked, weights[arm.id]):
                todo.append(Work(arm, part))
    jobs = _jobs(todo)
    say(f"{len(todo)} units of {len(arms)} arms in {len(jobs)} jobs")
    left = len(todo)

    def keep(done: Finished) -> None:
        nonlocal left
        left -= 1
        results.add(done.arm, done.name, done.unit, weights[done.arm.id])
        em = done.unit.metric("em")
        say(f"{done.arm.id} on {done.name}: EM {sum(em) / len(em):.3f} of {len(em)}, {done.seconds:.0f} s; {left} left")

    if workers == 1:
        asyncio.run(_work(jobs, keep, setup))
    else:
        _spread(jobs, keep, setup, workers)
    return left


def _prepared(parts: Sequence[Part], cache: Path, workers: int, say: Callable[[str], None]) -> dict[str, Prepared]:
    """All parts that are at hand, made ready by several processes."""
    at_hand = [p for p in parts if p.data.questions.startswith("world:") or Path(p.data.questions).is_file()]
    for part in parts:
        if part not in at_hand:
            say(f"left out: {part.source}: there is no {part.data.questions} (see --data)")
    if workers == 1:
        return {p.name: prepare(p, cache) for p in at_hand}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(2 * workers, max(len(at_hand), 1)), mp_context=context) as pool:
        made = pool.map(partial(prepare, cache=cache), at_hand)
        return dict(zip((p.name for p in at_hand), made, strict=True))


def _jobs(todo: Iterable[Work]) -> list[Job]:
    """Units in their order, a few of the same weights together."""
    jobs: list[Job] = []
    waiting: dict[str, list[Work]] = {}
    for work in todo:
        key = repr(sorted(work.arm.adapters.items()))
        found = waiting.setdefault(key, [])
        found.append(work)
        if len(found) == JOB:
            jobs.append(Job(tuple(found)))
            found.clear()
    return jobs + [Job(tuple(found)) for found in waiting.values() if found]


def _spread(jobs: Sequence[Job], keep: Callable[[Finished], None], setup: Setup, workers: int) -> None:
    """Jobs by several processes, finished units kept as they come."""
    context = multiprocessing.get_context("spawn")
    waiting, told = context.Queue(), context.Queue()
    for job in (*jobs, *([None] * workers)):
        waiting.put(job)
    running = [context.Process(target=_worker, args=(waiting, told, setup), daemon=True) for _ in range(workers)]
    for process in running:
        process.start()
    left = workers
    while left:
        try:
            found = told.get(timeout=5)
        except queue.Empty:
            if not any(p.is_alive() for p in running):
                raise EngineError("the workers have ended without a word; their messages stand above") from None
            continue
        if isinstance(found, Finished):
            keep(found)
        else:
            left -= 1
            if found:
                print(found, file=sys.stderr)
    for process in running:
        process.join()


def _worker(waiting: Any, told: Any, setup: Setup) -> None:
    """A process: jobs from one queue, finished units into another, an empty text (or what went wrong) at the end."""
    import torch

    torch.set_num_threads(2)
    problem = ""
    try:
        asyncio.run(_work(iter(waiting.get, None), told.put, setup))
    except (Exception, KeyboardInterrupt):
        problem = traceback.format_exc()
    told.put(problem)


async def _work(jobs: Iterable[Job], tell: Callable[[Any], None], setup: Setup) -> None:
    engines = Engines(setup)
    try:
        for job in jobs:
            left = setup.until - time.time()
            if left <= 0:
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await _do(job, engines, setup, tell)
    finally:
        await engines.close()


async def _do(job: Job, engines: Engines, setup: Setup, tell: Callable[[Any], None]) -> None:
    gate = asyncio.Semaphore(setup.concurrency)
    began = time.monotonic()

    async def one(work: Work) -> None:
        unit = await _answer(work, engines, setup, gate)
        tell(Finished(work.arm, work.part.name, unit, time.monotonic() - began))

    async with asyncio.TaskGroup() as group:
        for work in job.units:
            group.create_task(one(work))


async def _answer(work: Work, engines: Engines, setup: Setup, gate: asyncio.Semaphore) -> Unit:
    """All questions of a part, answered by an arm and scored."""
    from ..engine.base import Sampling
    from ..retrieval.index import Index
    from ..systems.registry import get
    from .score import plan_scores, scores_of

    arm = work.arm
    questions, place = prepare(work.part, setup.cache)
    given = engines.of(arm, questions)
    with Index.open(place) as index:
        search = engines.reranked(index) if arm.search == "rerank" else index
        kind = get(arm.system)
        sampling = None if arm.oracle else Sampling(max_tokens=MAX_TOKENS, temperature=0.0)
        system: Any = kind(given, search, preset=arm.preset, sampling=sampling, **arm.settings)

        async def solve(question: Question) -> tuple[dict[str, float], list[str]]:
            async with gate:
                try:
                    episode = await system.solve(question, id=f"{arm.id}/{question.id}")
                except SubquestError as error:
                    print(f"{arm.id}: {question.id}: {error}", file=sys.stderr)
                    return {"em": 0.0, "f1": 0.0, "cem": 0.0, "judge": 0.0, "failed": 1.0}, []
            return scores_of(episode)

        found = await asyncio.gather(*map(solve, questions))
    scores = [s for s, _ in found]
    if arm.plans:
        for s, sepr in zip(scores, plan_scores(questions, [p for _, p in found], engines.embedder), strict=True):
            if sepr is not None:
                s["sepr"] = sepr
    return unit_of(work.part.source, [q.id for q in questions], [q.hops or 0 for q in questions], scores)
