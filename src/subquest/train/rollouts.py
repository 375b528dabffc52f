"""Rolling out: many episodes of the very systems that users run, on the rollout engine."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Any

from ..metrics import score_answer
from ..record import Episode, Question
from ..systems.base import System


async def roll_out(
    system: System[Any], questions: Sequence[Question], *, group: int, seed: int, concurrency: int
) -> list[Episode]:
    """`group` episodes of each question, group by group. Seeds depend on the place alone, never on timing."""
    gate = asyncio.Semaphore(concurrency)

    async def one(place: int, question: Question, member: int) -> Episode:
        async with gate:
            return await system.solve(question, seed=place_seed(seed, place, member))

    return await asyncio.gather(*(one(i, q, g) for i, q in enumerate(questions) for g in range(group)))


def place_seed(*place: int) -> int:
    digest = hashlib.blake2b("/".join(map(str, place)).encode(), digest_size=4).digest()
    return int.from_bytes(digest)


def episode_figures(episodes: Sequence[Episode]) -> dict[str, float]:
    """What a batch of episodes looked like, in the means that tell a healthy run from a sick one."""
    n = max(len(episodes), 1)
    scores = [score_answer(e.answer, e.question.answers) for e in episodes]
    trajectories = [t for e in episodes for t in e.trajectories]
    turns = [event.data["finish"] for e in episodes for event in e.events if event.kind == "turn"]
    below = [sum(1 for t in e.trajectories if t.parent is not None) for e in episodes]
    figures = {
        "em": sum(s.em for s in scores) / n,
        "f1": sum(s.f1 for s in scores) / n,
        "forced": sum(e.forced for e in episodes) / n,
        "failed": sum(e.stop_reason == "failed" for e in episodes) / n,
        "turns": len(turns) / n,
        "cut_turns": turns.count("length") / max(len(turns), 1),
        "searches": sum(e.usage.searches for e in episodes) / n,
        "tasks": sum(below) / n,
        "idle_executors": sum(count == 0 for count in below) / n,
        "format_errors": sum(bool(t.format_errors) for t in trajectories) / max(len(trajectories), 1),
        "completion_tokens": float(sum(e.usage.completion_tokens for e in episodes)),
    }
    for role in sorted({t.role for t in trajectories}):
        of_role = [t for t in trajectories if t.role == role]
        written = sum(len(s.token_ids) for t in of_role for s in t.segments if s.kind == "agent")
        figures[f"length_{role}"] = sum(len(t.token_ids) for t in of_role) / len(of_role)
        figures[f"written_{role}"] = written / len(of_role)
    return figures
