"""Questions that a benchmark asks: their episodes, and those kept for reading."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any


async def answered(system: Any, questions: Iterable[Any], concurrency: int, seconds: float) -> list[Any]:
    """Episodes of all questions that are answered within the time; `n` tells how many they are."""
    episodes = []
    try:
        async with asyncio.timeout(seconds):
            async for episode in system.solve_many(questions, concurrency=concurrency, seed=0):
                episodes.append(episode)
    except TimeoutError:
        print(f"the time is over after {len(episodes)} questions", file=sys.stderr)
    return episodes


def keep(
    out: Path | None, label: str, episodes: Sequence[Any], verdicts: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Episodes for reading: figures say that something is wrong, episodes say what. Verdicts are by question id."""
    if out is None:
        return
    with out.open("a", encoding="utf-8") as file:
        for episode in episodes:
            turns = [
                {"role": t.role, "task": t.task, "forced": t.forced, "errors": t.format_errors}
                | {"text": [f"[{s.kind}] {s.text}" for s in t.segments if s.kind != "prompt"]}
                for t in episode.contexts
            ]
            gold = list(episode.question.answers)
            record = {"label": label, "question": episode.question.question, "gold": gold, "answer": episode.answer}
            record |= {"verdict": verdict} if (verdict := verdicts.get(episode.question.id)) else {}
            file.write(json.dumps({**record, "stop": episode.stop_reason, "contexts": turns}) + "\n")
