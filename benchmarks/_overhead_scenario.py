"""What both sides of `overhead.py` act out: one question, three tasks, one search a task; ten model turns.

Plain Python, so that it also imports in the peer's environment.
"""

from __future__ import annotations

import resource
from typing import Any

TASKS = 3
TURNS = TASKS * 3 + 1
"""Planner: a turn a task and one to answer. Executor: a turn to search and one to conclude."""
LATENCY = 0.05
"""Seconds a model turn takes: long enough that all episodes are really under way at the same time."""

QUESTION = "Which of the three harbour towns on the coast of Varn was founded last, and by whom?"
PLANNER = (
    "You plan how to answer a question. Hand simple tasks to an executor, one a turn, in <task> tags; results come "
    "back in <result> tags. When you know enough, answer in <answer> tags.\n"
) * 3
EXECUTOR = (
    "You carry out one task. Search in <search> tags; documents come back in <documents> tags. Distil what matters in "
    "<refine> tags and conclude in <result> tags.\n"
) * 3
DOCUMENTS = [
    (f"d{n}", f"Town {n}", f"Town {n} lies on the coast of Varn. It was founded in the year {1200 + n} by Ada. " * 6)
    for n in range(3)
]
THOUGHT = "I know the towns and have to compare the years in which they were founded, one after the other. " * 2


def planner_reply(turn: int) -> str:
    if turn < TASKS:
        return f"<think>{THOUGHT}</think>\n<task>When was town {turn} founded, and by whom?</task>"
    return f"<think>{THOUGHT}</think>\n<answer>Town 2, by Ada</answer>"


def executor_reply(turn: int) -> str:
    if turn == 0:
        return f"<think>{THOUGHT}</think>\n<search>founding of the town</search>"
    return f"<refine>{THOUGHT}</refine>\n<result>It was founded by Ada in 1202.</result>"


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def figures(episodes: int, cpu: float, before_mb: float) -> dict[str, Any]:
    return {
        "cpu_us_per_turn": cpu / (episodes * TURNS) * 1e6,
        "peak_mb": peak_mb(),
        "peak_kb_per_episode": (peak_mb() - before_mb) * 1024 / episodes,
    }
