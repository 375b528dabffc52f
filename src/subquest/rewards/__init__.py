"""Rewards: what an episode is worth, by the papers' formulas."""

from .base import Reward, RewardFunction, Term, written_answer
from .baselines import AutoRefineReward, SearchR1Reward
from .coda import CodaReward
from .decor import DecorReward
from .plan import PlanReward
from .presets import PRESETS, WithTerms, find_term, load

__all__ = [
    "PRESETS",
    "AutoRefineReward",
    "CodaReward",
    "DecorReward",
    "PlanReward",
    "Reward",
    "RewardFunction",
    "SearchR1Reward",
    "Term",
    "WithTerms",
    "find_term",
    "load",
    "written_answer",
]
