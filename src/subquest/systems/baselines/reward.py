"""Rewards of the single-agent baselines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ...metrics import contains_answer, is_yes_no, score_answer
from ...record import Episode
from ...rewards import Reward, RewardFunction, shared, written_answer
from ..coda.reward import refine_text


@dataclass(frozen=True, slots=True)
class SearchR1Reward:
    """Search-R1: exact match and nothing else."""

    reads_quotes: ClassVar[bool] = False

    async def score(self, episodes: Sequence[Episode]) -> list[Reward]:
        return [shared(e, {"em": score_answer(written_answer(e), e.question.answers).em}) for e in episodes]


@dataclass(frozen=True, slots=True)
class AutoRefineReward:
    """AutoRefine: the answer's F1; where that is 0, a little for refined text that holds the gold answer."""

    reads_quotes: ClassVar[bool] = False
    refine: float = 0.1

    async def score(self, episodes: Sequence[Episode]) -> list[Reward]:
        return [self.reward(e) for e in episodes]

    def reward(self, episode: Episode) -> Reward:
        golds = episode.question.answers
        f1 = score_answer(written_answer(episode), golds).f1
        text = "\n".join(refine_text(t) for t in episode.contexts)
        found = not is_yes_no(golds) and contains_answer(text, golds)
        return shared(episode, {"f1": f1, "refine": self.refine if found and f1 == 0 else 0.0})


REWARDS: Mapping[str, Callable[[], RewardFunction]] = {"search-r1": SearchR1Reward, "autorefine": AutoRefineReward}
LOSSES: Mapping[str, Mapping[str, Any]] = {"search-r1": {"kl": 1e-3}}
