"""A reward function in verl's form, for trainers that score finished text instead of taking the loop's reward.

    custom_reward_function.path=pkg://subquest.train.verl.reward  custom_reward_function.name=compute_score

It sees the last output's text alone, so it scores the answer: exact match and F1 of what stands in `<answer>`. Rewards
of whole episodes (formats, refinements, roles, plans) come from the loop, which sees the episode.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...metrics import score_answer
from ...protocol.tags import parse


def compute_score(
    data_source: str, solution_str: str, ground_truth: Any, extra_info: Mapping[str, Any] | None = None, **_: Any
) -> dict[str, float]:
    """verl's signature; `score` is what it trains on, the rest is logged."""
    target: Any = ground_truth["target"] if isinstance(ground_truth, Mapping) else ground_truth
    golds = [str(target)] if isinstance(target, str) else [str(t) for t in target]
    block = parse(solution_str).last("answer")
    answer = score_answer(block.content if block else "", golds)
    return {"score": answer.em, "em": answer.em, "f1": answer.f1}
