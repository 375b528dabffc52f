"""Rollouts: many episodes of the systems that users run, and the figures of a step that people watch."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ..metrics import score_answer
from ..record import Episode, Hit, Question
from ..retrieval.search import Search
from ..retrieval.tables import Tables
from ..rewards import Reward
from ..runtime.system import System

REMEMBERED = 50_000
"""Queries whose results are kept."""


class PlannedEpisode(NamedTuple):
    """One episode to roll out."""

    question: Question
    seed: int
    name: str
    """The episode's id: the same when a step is repeated, so that the repetition is recognised."""
    support: bool = True
    """Whether quotes are chosen, which takes the host longer than everything else in an episode."""


class MemoisedSearch:
    """A search over passages that never change, with its results kept in memory.

    The rollouts of a question send the same queries, and so does the next pass over the questions. One call of the
    search runs at a time, with all queries that arrived meanwhile: parallel searching threads would only keep the
    interpreter from the engine. Failures are not kept.
    """

    def __init__(self, search: Search) -> None:
        self.search = search
        self._known: OrderedDict[tuple[str, int], list[Hit]] = OrderedDict()
        self._asked: dict[tuple[str, int], asyncio.Future[list[Hit]]] = {}
        self._asking: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self.search.name

    @functools.cached_property
    def tables(self) -> Tables | None:
        found: Tables | None = getattr(self.search, "tables", None)
        return found and found.unchanging()

    async def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        return [list(hits) for hits in await asyncio.gather(*(self._hits((query, k)) for query in queries))]

    async def _hits(self, asked: tuple[str, int]) -> list[Hit]:
        if asked in self._known:
            return self._known[asked]
        if asked not in self._asked:
            self._asked[asked] = asyncio.get_running_loop().create_future()
            if self._asking is None:
                self._asking = asyncio.create_task(self._ask())
        return await asyncio.shield(self._asked[asked])  # a cancelled caller must not cancel the others

    async def _ask(self) -> None:
        try:
            while self._asked:
                k = next(iter(self._asked))[1]
                queries = [query for query, wanted in self._asked if wanted == k]
                await self._answer(queries, k)
        finally:
            self._asking = None

    async def _answer(self, queries: Sequence[str], k: int) -> None:
        try:
            found = list(zip(queries, await self.search.retrieve(queries, k), strict=True))
        except Exception as error:
            if len(queries) > 1:  # find the one that fails
                for query in queries:
                    await self._answer([query], k)
                return
            waiting = self._asked.pop((queries[0], k))
            waiting.set_exception(error)
            waiting.exception()  # mark it as retrieved: there may be no caller left
            return
        for query, hits in found:
            self._known[query, k] = hits
            self._asked.pop((query, k)).set_result(hits)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)


async def roll_out(system: System[Any], planned: Sequence[PlannedEpisode], *, concurrency: int) -> list[Episode]:
    """The planned episodes, in their order, at most `concurrency` at a time."""
    gate = asyncio.Semaphore(concurrency)
    return await all_ended([begin(system, plan, gate) for plan in planned])


def begin(system: System[Any], plan: PlannedEpisode, gate: asyncio.Semaphore) -> asyncio.Task[Episode]:
    """Roll out one episode as soon as the gate lets it in."""

    async def run() -> Episode:
        async with gate:
            episode = await system.solve(plan.question, seed=plan.seed, id=plan.name, support=plan.support)
        for engine in system.engines.values():
            if failure := getattr(engine, "failure", None):  # it has ended: nothing that follows is the policy's
                raise failure
        return episode

    return asyncio.create_task(run())


async def all_ended(
    tasks: Sequence[asyncio.Task[Episode]], progress: Callable[[int], None] | None = None
) -> list[Episode]:
    """The episodes in their order; `progress` is told how many have ended."""
    ended = 0

    def count(_: object) -> None:
        nonlocal ended
        ended += 1
        if progress is not None:
            progress(ended)

    for task in tasks:
        task.add_done_callback(count)
    return await asyncio.gather(*tasks)


def derive_seed(*parts: int) -> int:
    """A seed that depends on these numbers alone, such as the recipe's seed, the step and the question's number."""
    digest = hashlib.blake2b("/".join(map(str, parts)).encode(), digest_size=4).digest()
    return int.from_bytes(digest)


def searches_of(episodes: Sequence[Episode]) -> tuple[int, int]:
    """Searches that failed, and all of them."""
    failed = sum(failure.where == "search" for e in episodes for failure in e.errors)
    begun = sum(event.kind == "search" for e in episodes for event in e.events)
    return failed, max(begun, failed)


def episode_figures(episodes: Sequence[Episode]) -> dict[str, float]:
    """The means of a batch of episodes that distinguish a healthy run from a failing one."""
    n = max(len(episodes), 1)
    scores = [score_answer(e.stated_answer, e.question.answers) for e in episodes]
    contexts = [t for e in episodes for t in e.contexts]
    turns = [event.data["finish"] for e in episodes for event in e.events if event.kind == "turn"]
    failed_searches, searches = searches_of(episodes)
    below = [sum(1 for t in e.contexts if t.parent is not None) for e in episodes]
    figures = {
        "em": sum(s.em for s in scores) / n,
        "f1": sum(s.f1 for s in scores) / n,
        "forced": sum(e.forced for e in episodes) / n,
        "failed": sum(e.stop_reason == "failed" for e in episodes) / n,
        "turns": len(turns) / n,
        "cut_turns": turns.count("length") / max(len(turns), 1),
        "failed_searches": failed_searches / max(searches, 1),
        "searches": sum(e.usage.searches for e in episodes) / n,
        "tasks": sum(below) / n,
        "idle_executors": sum(count == 0 for count in below) / n,
        "one_task": sum(count == 1 for count in below) / n,
        "unknown": sum(e.stop_reason == "abstained" for e in episodes) / n,
        "format_errors": sum(bool(t.format_errors) for t in contexts) / max(len(contexts), 1),
        "completion_tokens": float(sum(e.usage.completion_tokens for e in episodes)),
        "prefilled": float(sum(e.usage.prompt_tokens - e.usage.cached_tokens for e in episodes)),
    }
    for role in sorted({t.role for t in contexts}):
        of_role = [t for t in contexts if t.role == role]
        sessions = [t for e in episodes for t in e.trajectories if t.role == role]
        written = sum(len(s.token_ids) for t in of_role for s in t.segments if s.kind == "agent")
        figures[f"length_{role}"] = sum(len(s.token_ids) for t in sessions for s in t.segments) / len(sessions)
        figures[f"written_{role}"] = written / len(of_role)
    return figures


def reward_figures(rewards: Sequence[Reward]) -> dict[str, float]:
    """Mean and spread of the reward, the mean of each term and of each role's reward."""
    n = max(len(rewards), 1)
    mean = sum(r.total for r in rewards) / n
    figures = {"reward": mean, "reward_std": (sum((r.total - mean) ** 2 for r in rewards) / n) ** 0.5}
    for name in sorted({term for r in rewards for term in r.terms}):
        figures[f"reward/{name}"] = sum(r.terms.get(name, 0.0) for r in rewards) / n
    for role in sorted({role for r in rewards for role in r.roles}):
        acted = [r.roles[role] for r in rewards if role in r.roles]
        figures[f"reward_{role}"] = sum(acted) / len(acted)
    return figures


def with_rewards(episode: Episode, reward: Reward, advantages: dict[str, float]) -> Episode:
    """An episode with its rewards and advantages, as the run store keeps it and the viewer shows it.

    `rewards` then holds `total`, each term by its name, `role/ROLE` and `advantage/TRAJECTORY`.
    """
    rewards = {"total": reward.total, **reward.terms}
    rewards |= {f"role/{role}": value for role, value in reward.roles.items()}
    rewards |= {f"advantage/{trajectory}": value for trajectory, value in advantages.items()}
    return replace(episode, rewards=rewards)


class Clock:
    """Seconds by phase."""

    def __init__(self) -> None:
        self._start = self._last = time.monotonic()
        self.laps: dict[str, float] = {}

    def lap(self, phase: str) -> None:
        now = time.monotonic()
        self.laps[phase] = self.laps.get(phase, 0.0) + now - self._last
        self._last = now

    def figures(self) -> dict[str, float]:
        return {f"seconds_{phase}": s for phase, s in self.laps.items()} | {"seconds": self._last - self._start}


def tokens_per_second(figures: dict[str, float]) -> dict[str, float]:
    """Tokens a second by phase: written while rolling out, computed while updating."""
    out = {}
    for phase, counted in (("rollout", "completion_tokens"), ("update", "packed")):
        if figures.get(f"seconds_{phase}") and counted in figures:
            out[f"tokens_s_{phase}"] = figures[counted] / figures[f"seconds_{phase}"]
    return out
