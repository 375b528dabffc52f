"""Metrics: how good an answer or a plan is, against the gold one."""

from .answers import (
    AnswerScores,
    answer_tokens,
    contains_answer,
    cover_exact_match,
    exact_match,
    f1,
    hotpot_f1,
    is_yes_no,
    normalize,
    score_answer,
)
from .calibration import Calibration, auroc, calibration, calibration_error
from .plans import MINILM_TAU, PAPER_TAU, PlanScore, score_plans

__all__ = [
    "MINILM_TAU",
    "PAPER_TAU",
    "AnswerScores",
    "Calibration",
    "PlanScore",
    "answer_tokens",
    "auroc",
    "calibration",
    "calibration_error",
    "contains_answer",
    "cover_exact_match",
    "exact_match",
    "f1",
    "hotpot_f1",
    "is_yes_no",
    "normalize",
    "score_answer",
    "score_plans",
]
